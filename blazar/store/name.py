"""The grammar of model names, and their two written forms.

    reference = model [ ":" variant ]
    model     = part *2( "/" part )        one part here; owner/repo, or host/owner/repo, for a source
    variant   = part
    part      = alnum *( alnum / "-" / "_" / "." )       no two dots in a row

At most MAX_NAME characters in all, ASCII, upper and lower case alike. `hf.co/owner/repo` is `owner/repo`: what people
write for Ollama means the same here. The variant names one build of a model, usually its quantisation. `latest`, or no
variant, is the implied one: it means the only variant there is. Names of installed models always carry their variant,
and are written in lower case: that is the canonical form.
"""

import re
from dataclasses import dataclass, field
from urllib.parse import quote

from blazar.errors import NameRefused

MAX_NAME = 200
"""Characters of the longest name."""

IMPLIED = "latest"

HUB_HOSTS = ("hf.co", "huggingface.co")
"""Names of the one place that an `owner/repo` comes from."""

_SHOWN = 60
_PART = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_REFERENCE = re.compile(rf"(?P<model>{_PART}(?:/{_PART}){{0,2}})(?::(?P<variant>{_PART}))?")
_PROBLEMS = (
    # the first pattern found tells what is wrong; the last one always matches
    (re.compile(r"^$"), "it is empty"),
    (re.compile(r"[\x00-\x1f\x7f]"), "it holds a control character"),
    (re.compile(r"^\s|\s$"), "it begins or ends with a blank"),
    (re.compile(r"\.\."), "it holds two dots in a row"),
    (re.compile(r"^/|/$|//|/:|:/"), "a slash stands where a word must"),
    (re.compile(r"/.*/.*/"), "it has too many slashes"),
    (re.compile(r":.*[:/]"), "one colon may stand in it, before the variant"),
    (re.compile(r"^:|:$"), "a colon stands where a word must"),
    (re.compile(r"[^A-Za-z0-9._:/-]"), "only letters, digits and - _ . are allowed, with one : before the variant"),
    (re.compile(r""), "each part must begin with a letter or a digit"),
)


@dataclass(frozen=True)
class Name:
    """A parsed reference. `str()` gives the canonical form."""

    model: str
    """Lower case."""
    variant: str = ""
    """Lower case; empty when it is implied."""
    typed: str = field(default="", compare=False)
    """The model as the person wrote it: the spelling of `owner/repo` matters to the place it comes from."""

    def __str__(self) -> str:
        return f"{self.model}:{self.variant}" if self.variant else self.model

    @property
    def is_implied(self) -> bool:
        return not self.variant


def parse(text: str) -> Name:
    """Read a reference. Raises NameRefused, which never repeats more than the beginning of a long text."""
    if len(text) > MAX_NAME:
        raise NameRefused(name=text[:_SHOWN] + "…", reason=f"it has {len(text)} characters, {MAX_NAME} are allowed")
    found = _REFERENCE.fullmatch(text)
    if found is None or ".." in text:
        reason = next(words for pattern, words in _PROBLEMS if pattern.search(text))
        raise NameRefused(name=text if len(text) <= _SHOWN else text[:_SHOWN] + "…", reason=reason)
    variant = (found["variant"] or "").lower()
    model = found["model"]
    host, _, rest = model.partition("/")
    if host.lower() in HUB_HOSTS and "/" in rest:
        model = rest
    return Name(model.lower(), "" if variant == IMPLIED else variant, model)


def file_safe(name: str) -> str:
    """`name` as one file name: `owner/m:q4_0` -> `owner%2Fm%3Aq4_0`."""
    return quote(name, safe="")


def clean(text: str) -> str:
    """The nearest model part (no variant) to a free text such as a file's own title; empty when nothing is left."""
    words = re.sub(r"[^a-z0-9._-]+", "-", text.lower())
    words = re.sub(r"-{2,}", "-", re.sub(r"\.{2,}", ".", words))
    return words.strip("-._")[:100].rstrip("-._")
