"""Prometheus's text format, version 0.0.4: families of samples out of a page, and a page out of families. Pure.

A page that others wrote is read strictly, up to limits; what is wrong with it raises `BadPage`. Of several sources each
family stands in the page once, with one help and one type, and no sample belongs to two of them.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
KINDS = ("counter", "gauge", "histogram", "summary", "untyped")
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("", "_sum", "_count")}
"""What stands behind the family's name in its samples; nothing for the other kinds."""
MOST_SAMPLES = 20_000
"""Samples of a page of somebody else's."""

Labels = tuple[tuple[str, str], ...]

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*+"
_LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*+\s*+=\s*+"(?:[^"\\]|\\.)*+"'
_LABELS = rf"\{{\s*+((?:{_LABEL}(?:\s*+,\s*+{_LABEL})*+)?+)\s*+,?\s*+\}}"
_SAMPLE = re.compile(rf"({_NAME})(?:\s*+{_LABELS}\s*+|\s++)([^\s]++)(?:\s++-?\d++)?")
_PAIR = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*+)\s*+=\s*+"((?:[^"\\]|\\.)*+)"')
_ESCAPE = re.compile(r"\\(.)")
_UNESCAPED = {"n": "\n", "\\": "\\", '"': '"'}
_FIRST_NAME = re.compile(_NAME)


class BadPage(Exception):
    """A page that cannot be read; the message says why."""


@dataclass(frozen=True)
class Sample:
    """`value` is text, as it was or will be written."""

    suffix: str
    labels: Labels
    value: str


@dataclass
class Family:
    """One metric with all its samples."""

    name: str
    kind: str
    meaning: str
    samples: list[Sample] = field(default_factory=list)

    def text(self) -> str:
        """As Prometheus reads it."""
        head = f"# HELP {self.name} {escaped(self.meaning)}\n# TYPE {self.name} {self.kind}\n"
        return head + "".join(f"{self.name}{one.suffix}{_braced(one.labels)} {one.value}\n" for one in self.samples)

    def plain(self) -> list[Any]:
        """Plain values, for JSON; `from_plain` is the way back."""
        return [self.name, self.kind, self.meaning, [[one.suffix, one.labels, one.value] for one in self.samples]]

    @classmethod
    def from_plain(cls, plain: Sequence[Any]) -> "Family":
        name, kind, meaning, samples = plain
        return cls(name, kind, meaning, [Sample(suffix, tuple((key, text) for key, text in labels), value)
                                         for suffix, labels, value in samples])

    def sample_names(self) -> set[str]:
        """Every name that its samples may have."""
        return {self.name + suffix for suffix in SUFFIXES.get(self.kind, ("",))} | {self.name}


def page(families: Iterable[Family]) -> str:
    """The text of a page; families without samples are told too, so that a reader knows that they exist."""
    return "".join(family.text() for family in families)


def escaped(text: str, quoted: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", " ")
    return text.replace('"', '\\"') if quoted else text


def labelled(family: Family, more: Mapping[str, str]) -> Family:
    """The family with these labels before its own; an own label of such a name becomes `exported_NAME`, as often as
    it takes: Prometheus refuses the whole page for a label that is there twice."""
    first = tuple(more.items())

    def own(labels: Labels) -> Labels:
        taken = {*more, *(name for name, _ in labels if name not in more)}
        told = []
        for name, text in labels:
            if name in more:
                while name in taken:
                    name = f"exported_{name}"
                taken.add(name)
            told.append((name, text))
        return tuple(told)

    return replace(family, samples=[Sample(one.suffix, first + own(one.labels), one.value) for one in family.samples])


class Page:
    """Families by name, gathered from several sources."""

    def __init__(self, families: Iterable[Family] = ()) -> None:
        self._families: dict[str, Family] = {}
        self._owners: dict[str, str] = {}
        """Names of samples, and whose they are."""
        for family in families:
            self.add(family)

    def add(self, family: Family) -> bool:
        """Take a family in; False when it clashes with one that is there. The first help and type stand."""
        known = self._families.get(family.name)
        if known is not None:
            if known.kind != family.kind:
                return False
            told = {(one.suffix, one.labels) for one in known.samples}
            known.samples += [one for one in family.samples if (one.suffix, one.labels) not in told]
            return True
        names = family.sample_names()
        if any(name in self._owners for name in names):
            return False
        self._owners |= dict.fromkeys(names, family.name)
        self._families[family.name] = replace(family, samples=list(family.samples))
        return True

    def text(self) -> str:
        return page(self._families.values())


def summed(sources: Iterable[Iterable[Family]]) -> list[Family]:
    """The families of sources that count the same things, each as one: counts and gauges are added up."""
    found: dict[str, Family] = {}
    sums: dict[str, dict[tuple[str, Labels], float]] = {}
    for source in sources:
        for family in source:
            found.setdefault(family.name, replace(family, samples=[]))
            values = sums.setdefault(family.name, {})
            for one in family.samples:
                key = one.suffix, one.labels
                values[key] = values.get(key, 0.0) + float(one.value)
    for name, values in sums.items():
        found[name].samples = [Sample(suffix, labels, number(value)) for (suffix, labels), value in values.items()]
    return list(found.values())


def number(value: float) -> str:
    """A whole number without a point: counts are compared with others by people and programs."""
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def read(text: str, most: int = MOST_SAMPLES) -> list[Family]:
    """The families of a page, in their order; what comes in several pieces is put together. Raises BadPage."""
    families: dict[str, Family] = {}
    current: Family | None = None
    samples = 0
    for line in text.split("\n"):
        line = line.strip(" \t\r")
        if line.startswith("#"):
            current = _announced(line, families) or current
        elif line:
            samples += 1
            if samples > most:
                raise BadPage(f"it has more than {most} samples")
            current = _sampled(line, current, families)
    for family in families.values():
        if len({(one.suffix, one.labels) for one in family.samples}) != len(family.samples):
            raise BadPage(f"it tells a sample of {family.name} twice")
    return [family for family in families.values() if family.samples]


def _announced(line: str, families: dict[str, Family]) -> Family | None:
    """Take a HELP or a TYPE; any other remark says nothing."""
    words = line[1:].strip().split(None, 2)
    if len(words) < 2 or words[0] not in ("HELP", "TYPE"):
        return None
    name = words[1]
    if not _FIRST_NAME.fullmatch(name):
        raise BadPage(f"{name[:80]!r} is no name of a metric")
    family = families.setdefault(name, Family(name, "untyped", ""))
    rest = words[2] if len(words) > 2 else ""
    if words[0] == "HELP":
        family.meaning = family.meaning or _unescape(rest)
    elif rest not in KINDS or family.samples or family.kind not in ("untyped", rest):
        raise BadPage(f"it says that {name} is {rest[:40]!r}, which is no type, or comes too late")
    else:
        family.kind = rest
    return family


def _sampled(line: str, current: Family | None, families: dict[str, Family]) -> Family:
    matched = _SAMPLE.fullmatch(line)
    if matched is None:
        raise BadPage(f"it has a line that is no sample: {line[:80]!r}")
    name, inner, value = matched.groups()
    labels = tuple((key, _unescape(text)) for key, text in _PAIR.findall(inner or ""))
    if len(dict(labels)) != len(labels):
        raise BadPage(f"a sample of {name} has a label twice")
    family, suffix = _family_of(name, current, families)
    family.samples.append(Sample(suffix, labels, _value(value)))
    return family


def _family_of(name: str, current: Family | None, families: dict[str, Family]) -> tuple[Family, str]:
    for family in (current, *(families.get(name.removesuffix(end)) for end in ("", "_bucket", "_sum", "_count"))):
        if family is not None and name.startswith(family.name):
            suffix = name[len(family.name):]
            if suffix in SUFFIXES.get(family.kind, ("",)):
                return family, suffix
    return families.setdefault(name, Family(name, "untyped", "")), ""


def _value(text: str) -> str:
    """The number as Prometheus reads it, which knows no `-nan` (as C writes it), and the digits of ASCII alone."""
    try:
        value = float(text)
    except ValueError:
        raise BadPage(f"{text[:40]!r} is no number") from None
    if "_" in text or not text.isascii():
        raise BadPage(f"{text[:40]!r} is no number")
    if math.isfinite(value):
        return text
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda found: _UNESCAPED.get(found[1], found[0]), text)


def _braced(labels: Labels) -> str:
    inner = ",".join(f'{name}="{escaped(text, quoted=True)}"' for name, text in labels)
    return f"{{{inner}}}" if inner else ""
