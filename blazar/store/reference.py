"""What a person may write for a model to pull, told apart. Pure.

    qwen3-8b   qwen3-8b:q4_k_m   qwen3:8b        a name of the catalog
    owner/repo   owner/repo:q4_k_m               a repository of the registry, and the build wanted
    hf.co/owner/repo:q4_k_m                      the same, as people write it for Ollama
    https://huggingface.co/owner/repo            the same, as a browser shows it
    https://huggingface.co/owner/repo/blob/main/file.gguf     one file of it
    https://host/file.gguf                       any other GGUF file
"""

import posixpath
import re
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from blazar.config.exposure_rules import is_loopback
from blazar.errors import NameRefused, PullFailed
from blazar.store.name import HUB_HOSTS, parse

MAX_URL = 2000
"""Characters of the longest URL."""

_PART = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_PAGE = re.compile(rf"/(?P<repo>{_PART}/{_PART})(?::(?P<build>[A-Za-z0-9._-]+))?"
                   r"(?:/(?P<verb>tree|blob|resolve|raw)/(?P<revision>[A-Za-z0-9._-]+)(?:/(?P<path>.+))?)?/?")


@dataclass(frozen=True)
class Repository:
    """A repository of the registry; `build` is the quantisation or the file wanted, '' when none was asked for."""

    repo: str
    build: str = ""
    revision: str = "main"


@dataclass(frozen=True)
class Address:
    """A GGUF file anywhere."""

    url: str

    @property
    def file(self) -> str:
        """The name of the file."""
        return unquote(posixpath.basename(urlsplit(self.url).path))


def is_url(reference: str) -> bool:
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", reference) is not None


def read(reference: str, base: str, local: bool = True) -> Repository | Address | None:
    """The repository or the file that `reference` means; None when it is one word, which only the catalog can know.

    `base` is the address of the registry; `local` says that a server of this very machine may be named. Raises
    NameRefused, or PullFailed for an address that is not taken.
    """
    if is_url(reference):
        return _read_url(reference, base, local)
    name = parse(reference)
    parts = name.typed.split("/")
    if len(parts) == 1:
        return None
    if len(parts) == 3:
        raise NameRefused(name=reference, reason=f"{parts[0]} is not a registry that this Blazar pulls from; write "
                                                 f"owner/repo, and set BLAZAR_REGISTRY_BASE for another registry")
    return Repository(name.typed, name.variant)


def _read_url(url: str, base: str, local: bool) -> Repository | Address:
    if len(url) > MAX_URL or not url.isprintable() or " " in url:
        raise _refused(url, "this is not a URL", "write it without blanks and at most 2,000 characters long")
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise _refused(url, f"this is not a URL ({error})", "write one like https://host/file.gguf") from error
    if parts.username or parts.password:
        shown = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        raise _refused(shown, "a URL with a password in it is not taken",
                       "leave it out, and set BLAZAR_REGISTRY_TOKEN for a private registry")
    path = _below(parts, base)
    if path is not None:
        found = _PAGE.fullmatch(unquote(path))
        if found and not (found["path"] and found["verb"] == "tree"):
            return Repository(found["repo"], found["build"] or found["path"] or "", found["revision"] or "main")
    if parts.scheme != "https" and not (local and parts.scheme == "http" and is_loopback(parts.hostname or "")):
        raise _refused(url, f"{parts.scheme}:// protects nothing on its way", "use https://")
    if not parts.path.lower().endswith(".gguf"):
        raise _refused(url, "it names no GGUF file", "give the URL of a file that ends in .gguf, or owner/repo")
    return Address(url)


def _below(parts: SplitResult, base: str) -> str | None:
    """The path below the registry's address; None when the URL is not there."""
    if (parts.hostname or "").lower() in HUB_HOSTS and parts.scheme == "https":
        return parts.path
    registry = urlsplit(base)
    prefix = registry.path.rstrip("/")
    if (parts.scheme, parts.netloc.lower()) == (registry.scheme, registry.netloc.lower()) and \
            parts.path.startswith(prefix + "/"):
        return parts.path[len(prefix):]
    return None


def _refused(url: str, reason: str, remedy: str) -> PullFailed:
    error = PullFailed(name=url if len(url) <= 200 else url[:200] + "…", reason=reason, remedy=remedy)
    error.status = 400
    return error
