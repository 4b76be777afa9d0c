"""The catalog of engine lanes: builds of forks that know architectures which the main engine lacks.

It is one JSON document at `capability_registry_url`:

    {"format": 1,
     "lanes": [{"name": "example", "summary": "for Example models",
                "architectures": ["example-moe"],
                "assets": [{"flavour": "cpu", "machine": "x86_64", "url": "example-cpu.tar.gz",
                            "sha256": "…64 hex digits…", "size": 12345678}],
                "superseded": {"example-moe": 11600}}]}

`url` may be relative to the catalog's own; `superseded` names the build of the main engine that first knows an
architecture. Anything else in it, or a size over the limits below, refuses the whole document: half a catalog would
look like a lane that was withdrawn.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import urljoin

from blazar.engines.install.answers import NoAnswer, get, is_address
from blazar.errors import CatalogRefused

FORMAT = 1
MOST_BYTES = 1 << 20
MOST_LANES, MOST_ARCHITECTURES, MOST_ASSETS = 200, 64, 32
LARGEST_ASSET = 8 << 30
"""Bytes."""

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
"""What a lane may be called."""

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_URL = re.compile(r"[!-~]{1,2000}")
_LINE = re.compile(r".{1,200}")


@dataclass(frozen=True)
class LaneAsset:
    """An archive of a lane for one kind of machine (`x86_64`, `aarch64`, as `uname -m` says); `size` in bytes."""

    flavour: str
    machine: str
    url: str
    sha256: str
    size: int


@dataclass(frozen=True)
class Lane:
    """One entry of the catalog."""

    name: str
    summary: str
    architectures: tuple[str, ...]
    assets: tuple[LaneAsset, ...]
    superseded: Mapping[str, int]

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "architectures": list(self.architectures), "superseded": dict(self.superseded)}


def read_catalog(url: str) -> list[Lane]:
    """What the catalog at `url` holds. Raises CatalogRefused."""
    try:
        return parse(get(url, MOST_BYTES), url)
    except NoAnswer as error:
        raise CatalogRefused(url=url, reason=str(error)) from error


def parse(text: bytes, url: str) -> list[Lane]:
    """The lanes of a document that came from `url`. Raises CatalogRefused with the place that is wrong."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CatalogRefused(url=url, reason="it is not JSON") from error
    try:
        top = _fields(document, "the document", "format", "lanes")
        _need(top["format"] == FORMAT, f"its format is {str(top['format'])[:20]!r} and this Blazar reads {FORMAT}")
        lanes = [_lane(entry, f"lane {number}", url)
                 for number, entry in enumerate(_list(top["lanes"], "lanes", MOST_LANES), 1)]
        names = [lane.name for lane in lanes]
        _need(len(set(names)) == len(names), "two of its lanes have the same name")
    except _Wrong as error:
        raise CatalogRefused(url=url, reason=str(error)) from error
    return lanes


class _Wrong(ValueError):
    """What is wrong with the document, in words."""


def _need(holds: bool, words: str) -> None:
    if not holds:
        raise _Wrong(words)


def _fields(value: Any, where: str, *names: str) -> Mapping[str, Any]:
    _need(isinstance(value, dict), f"{where} is not an object")
    _need(set(value) == set(names), f"{where} must have exactly {', '.join(names)}")
    return value


def _list(value: Any, where: str, most: int) -> list[Any]:
    _need(isinstance(value, list) and len(value) <= most, f"{where} is not a list of at most {most}")
    return value


def _text(value: Any, where: str, form: re.Pattern[str]) -> str:
    _need(isinstance(value, str) and form.fullmatch(value) is not None, f"{where} is {str(value)[:60]!r}")
    return value


def _number(value: Any, where: str, most: int) -> int:
    _need(type(value) is int and 0 < value <= most, f"{where} is not a whole number up to {most}")
    return value


def _lane(value: Any, where: str, url: str) -> Lane:
    fields = _fields(value, where, "name", "summary", "architectures", "assets", "superseded")
    name = _text(fields["name"], f"the name of {where}", NAME)
    architectures = tuple(_text(word, f"an architecture of {name}", _WORD)
                          for word in _list(fields["architectures"], f"architectures of {name}", MOST_ARCHITECTURES))
    _need(bool(architectures), f"{name} has no architecture")
    superseded = fields["superseded"]
    _need(isinstance(superseded, dict) and set(superseded) <= set(architectures),
          f"superseded of {name} names other architectures than its own")
    summary = _text(fields["summary"], f"the summary of {name}", _LINE)
    _need(summary.isprintable(), f"the summary of {name} has characters that are not to be seen: {summary[:60]!r}")
    return Lane(name, summary, architectures,
                tuple(_asset(entry, name, url) for entry in _list(fields["assets"], f"assets of {name}", MOST_ASSETS)),
                {word: _number(number, f"superseded of {name}", 10**9) for word, number in superseded.items()})


def _asset(value: Any, name: str, url: str) -> LaneAsset:
    fields = _fields(value, f"an asset of {name}", "flavour", "machine", "url", "sha256", "size")
    place = _place(fields["url"], f"an url of {name}", url)
    return LaneAsset(_text(fields["flavour"], f"a flavour of {name}", _WORD),
                     _text(fields["machine"], f"a machine of {name}", _WORD), place,
                     _text(fields["sha256"], f"a sha256 of {name}", _SHA256),
                     _number(fields["size"], f"a size of {name}", LARGEST_ASSET))


def _place(value: Any, where: str, url: str) -> str:
    """The address of an asset; it may be relative to the catalog's."""
    text = _text(value, where, _URL)
    try:
        place = urljoin(url, text)
    except ValueError:
        place = ""
    _need(is_address(place), f"{where} is no address of a web server: {text[:60]!r}")
    return place
