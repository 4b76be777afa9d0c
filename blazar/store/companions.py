"""What comes along with a model: the projector that lets it see, and the draft model that speeds it up. Pure."""

import re
from collections.abc import Iterable, Sequence

from blazar.store.huggingface import RemoteFile, quantization_of

_PROJECTOR = re.compile(r"mmproj", re.IGNORECASE)
_DRAFT = re.compile(r"(?:^|[-._])draft(?:er)?(?:[-._]|$)", re.IGNORECASE)
_NO_MODEL = re.compile(r"imatrix|(?:^|[-._])(?:control[-_]vector|lora|vocab)(?:[-._]|$)", re.IGNORECASE)

PREFERRED = ("F16", "FP16", "BF16", "Q8_0", "F32", "FP32")
"""Builds of a companion, the best first: they are small, and a projector loses more by quantisation than a model."""


def role_of(file: RemoteFile) -> str:
    """What a file of a repository is by its name: `model`, `projector`, `draft`, or nothing that is pulled."""
    name = file.name
    if not name.lower().endswith(".gguf") or _NO_MODEL.search(name):
        return ""
    if _PROJECTOR.search(name):
        return "projector"
    return "draft" if _DRAFT.search(name) else "model"


def models(files: Iterable[RemoteFile]) -> list[RemoteFile]:
    """The files that are models of their own; the drafts, when a repository holds nothing else."""
    files = list(files)
    return [file for file in files if role_of(file) == "model"] or [file for file in files if role_of(file) == "draft"]


def companions(files: Sequence[RemoteFile], model: RemoteFile) -> list[tuple[str, RemoteFile]]:
    """What belongs to `model`, with its role: at most one projector and one draft, from its own folder first."""
    found = []
    for role in ("projector", "draft"):
        fitting = [file for file in files if role_of(file) == role and file.path != model.path]
        if fitting and role_of(model) == "model":
            found.append((role, min(fitting, key=lambda file: _rank(file, model))))
    return found


def _rank(file: RemoteFile, model: RemoteFile) -> tuple[bool, int, int, str]:
    """Sorts the best companion to the front."""
    label = quantization_of(file.path).upper()
    place = PREFERRED.index(label) if label in PREFERRED else len(PREFERRED)
    return _folder(file) not in (_folder(model), ""), place, file.size, file.path


def _folder(file: RemoteFile) -> str:
    return file.path.rpartition("/")[0]
