"""What a model is called when it is installed."""

import re
from pathlib import Path

from blazar.store.facts import ModelFacts
from blazar.store.gguf_types import FILE_TYPES
from blazar.store.name import clean, parse

_QUANTISATION = re.compile(rf"[-._](?:{'|'.join(sorted(FILE_TYPES.values(), key=len, reverse=True))})$", re.IGNORECASE)


def full_name(name: str, facts: ModelFacts) -> str:
    """The canonical name for a chosen one: the variant is the file's quantisation unless the name has one.

    Raises NameRefused.
    """
    chosen = parse(name)
    return str(parse(f"{chosen.model}:{chosen.variant or facts.quantization.lower()}"))


def default_name(facts: ModelFacts, path: Path) -> str:
    """The model part of a name: from the file's own title, else from the name of the file, else `model`."""
    return clean(facts.name or "") or clean(_QUANTISATION.sub("", path.stem)) or "model"
