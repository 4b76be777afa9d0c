"""The value types of settings: what may be written, what is said when it is not, how text becomes a value."""

import ipaddress
import json
import math
import os
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from blazar.config.refusal import Refusal, Refusals, inside, nearest, show


class Type:
    """A kind of value. `check` takes a TOML value, `parse` the text of a variable or flag; both raise Refusal."""

    toml_type: str
    empty_is_set = False
    """Whether an empty environment variable counts as a value rather than as unset."""

    def check(self, value: Any) -> Any:
        raise NotImplementedError

    def parse(self, text: str) -> Any:
        return self.check(text)

    def describe(self) -> str:
        """The allowed values, for people."""
        raise NotImplementedError

    def refused_examples(self) -> list[Any]:
        """Values just outside of what is allowed; the tests load each of them."""
        return []


class Bool(Type):
    toml_type = "bool"

    def check(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise Refusal(f"{show(value)} is neither true nor false", "write true or false, without quotes")
        return value

    def parse(self, text: str) -> bool:
        word = text.strip().lower()
        if word in ("1", "true", "yes", "on"):
            return True
        if word in ("0", "false", "no", "off"):
            return False
        raise Refusal(f"{show(text)} is neither true nor false", "use true or false (or 1 or 0)")

    def describe(self) -> str:
        return "true or false"

    def refused_examples(self) -> list[Any]:
        return ["true", 1, []]


class Int(Type):
    """A whole number from `low` to `high`; `also` names single values outside of the range."""

    toml_type = "int"

    def __init__(self, low: int = 0, high: int = 2**31 - 1, also: tuple[int, ...] = ()) -> None:
        self.low, self.high, self.also = low, high, also

    def check(self, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise Refusal(f"{show(value)} is not a whole number", _unquoted(value) or f"write {self.describe()}")
        if not self.low <= value <= self.high and value not in self.also:
            raise Refusal(f"{value if abs(value) < 10**20 else 'the number'} is out of range",
                          f"write {self.describe()}")
        return value

    def parse(self, text: str) -> int:
        if not re.fullmatch(r"\s*[+-]?[0-9]{1,18}\s*", text):
            raise Refusal(f"{show(text)} is not a whole number", f"use {self.describe()}")
        return self.check(int(text))

    def describe(self) -> str:
        singles = "".join(f"{value}, or " for value in self.also)
        if self.high >= 2**31 - 1:
            return f"{singles}a whole number of at least {self.low}"
        return f"{singles}a whole number from {self.low} to {self.high}"

    def refused_examples(self) -> list[Any]:
        outside = [value for value in (self.low - 1, self.high + 1) if value not in self.also]
        return ["1", True, 1.5, *outside]


class Float(Type):
    toml_type = "float"

    def __init__(self, low: float = 0.0, high: float = math.inf, also: tuple[float, ...] = (),
                 above: bool = False) -> None:
        """`above` leaves `low` itself out."""
        self.low, self.high, self.also, self.above = low, high, also, above

    def check(self, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Refusal(f"{show(value)} is not a number", _unquoted(value) or f"write {self.describe()}")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        inside = self.low < number <= self.high if self.above else self.low <= number <= self.high
        if not math.isfinite(number) or not (inside or number in self.also):
            raise Refusal(f"{number:g} is out of range", f"write {self.describe()}")
        return number

    def parse(self, text: str) -> float:
        try:
            return self.check(float(text))
        except ValueError:
            raise Refusal(f"{show(text)} is not a number", f"use {self.describe()}") from None

    def describe(self) -> str:
        singles = "".join(f"{value:g}, or " for value in self.also)
        low = f"above {self.low:g}" if self.above else f"of at least {self.low:g}"
        if not math.isfinite(self.low):
            low = "" if math.isfinite(self.high) else "of any size"
        high = f"up to {self.high:g}" if math.isfinite(self.high) else ""
        return f"{singles}a number {' and '.join(part for part in (low, high) if part)}"

    def refused_examples(self) -> list[Any]:
        outside = [self.low - 0.5 if math.isfinite(self.low) else math.nan,
                   self.high + 0.5 if math.isfinite(self.high) else math.inf]
        return ["0.5", True, math.nan, *(value for value in outside if value not in self.also)]


class Text(Type):
    """Text of one line. `pattern` (matched whole) comes with `like`: words or an example that describe it."""

    toml_type = "str"
    empty_is_set = True

    def __init__(self, pattern: str | None = None, like: str = "text", empty: bool = True,
                 shown: bool = True) -> None:
        """`shown=False`: no message repeats what was written."""
        self.pattern, self.like, self.empty, self.shown = pattern, like, empty, shown

    def check(self, value: Any) -> str:
        if not isinstance(value, str):
            raise Refusal(f"{show(value) if self.shown else 'it'} is not text", f"write {self.describe()}, in quotes")
        if not value and not self.empty:
            raise Refusal("it is empty", f"write {self.describe()}")
        if any(character < " " and character not in "\t\n" for character in value) or "\x7f" in value:
            raise Refusal("it contains a control character", f"write {self.describe()}")
        if value and self.pattern and not re.fullmatch(self.pattern, value):
            raise Refusal(f"{show(value)} has not the right form", f"write {self.describe()}")
        return value

    def describe(self) -> str:
        return self.like

    def refused_examples(self) -> list[Any]:
        malformed = ["\x01"] if self.pattern is None else ["\x01", "=, ;"]
        return [7, True, ["x"], *malformed, *([] if self.empty else [""])]


class Secret(Text):
    """Printable ASCII that fits into a header. What was written is never repeated in a message."""

    def __init__(self) -> None:
        super().__init__(like="printable ASCII without spaces", empty=False, shown=False)

    def parse(self, text: str) -> str:
        """Out of the environment, where it often comes with the end of its line in a file."""
        return self.check(text.rstrip("\r\n"))

    def check(self, value: Any) -> str:
        if not re.fullmatch(r"[!-~]+", super().check(value)):
            raise Refusal("it is empty, or has spaces or characters that no header can carry",
                          f"write {self.describe()}")
        return value


class Network(Text):
    """An IP address, or a network of them."""

    def __init__(self) -> None:
        super().__init__(like='an address such as "127.0.0.1", or a network such as "10.0.0.0/8"', empty=False)

    def check(self, value: Any) -> str:
        text = super().check(value)
        try:
            return str(ipaddress.ip_network(text)).removesuffix("/32").removesuffix("/128")
        except ValueError:
            raise Refusal(f"{show(text)} is neither an IP address nor a network",
                          f"write {self.describe()}") from None

    def refused_examples(self) -> list[Any]:
        return [*super().refused_examples(), "localhost", "127.0.0.1:80", "10.0.0.1/8"]


class File(Text):
    """The path of a file or folder; `~` is your home folder. Whether it must exist is a rule of its own."""

    def __init__(self) -> None:
        super().__init__(like="a path")

    def check(self, value: Any) -> str:
        path = super().check(value)
        return os.path.expanduser(path) if path.startswith("~") else path


class Json(Text):
    """A JSON object, written as text."""

    def __init__(self, example: str) -> None:
        super().__init__(like=f"a JSON object such as {example}")

    def check(self, value: Any) -> str:
        text = super().check(value)
        try:
            given = json.loads(text) if text else {}
            if not isinstance(given, dict):
                raise Refusal("it is JSON, but not an object", f"write {self.describe()}")
            json.dumps(given, allow_nan=False)  # Python reads NaN, and numbers so large that they become infinite
        except (ValueError, RecursionError):
            raise Refusal("it is not JSON", f"write {self.describe()}") from None
        return text

    def refused_examples(self) -> list[Any]:
        return [*super().refused_examples(), "[1]", "{", "x", '{"a": NaN}', '{"a": 1e999}']


class Choice(Type):
    """One of some words. An empty word among them stands for "not chosen"."""

    toml_type = "str"

    def __init__(self, *words: str) -> None:
        self.words = words

    def check(self, value: Any) -> str:
        if not isinstance(value, str):
            raise Refusal(f"{show(value)} is not text", f"write {self.describe()}")
        if value not in self.words:
            near = nearest(value, self.words)
            raise Refusal(f"{show(value)} is not one of the choices",
                          f'did you mean "{near}"? write {self.describe()}' if near else f"write {self.describe()}")
        return value

    def describe(self) -> str:
        shown = [f'"{word}"' for word in self.words]
        return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"

    def refused_examples(self) -> list[Any]:
        return [7, True, "no-such-word", self.words[-1].upper() + "!"]


class OneOf(Type):
    """Any of several types; the first that accepts decides."""

    def __init__(self, *types: Type, toml_type: str) -> None:
        self.types, self.toml_type = types, toml_type

    def check(self, value: Any) -> Any:
        for kind in self.types:
            try:
                return kind.check(value)
            except Refusal:
                continue
        raise Refusal(f"{show(value)} is not allowed here", f"write {self.describe()}")

    def describe(self) -> str:
        return ", or ".join(kind.describe() for kind in self.types)

    def refused_examples(self) -> list[Any]:
        examples: list[Any] = [7, 99, -1, [], {}]
        return [value for value in examples if not any(_accepts(kind, value) for kind in self.types)]


class ListOf(Type):
    """A list. From an environment variable it is read as a comma-separated list."""

    empty_is_set = True

    def __init__(self, item: Type) -> None:
        self.item = item
        self.toml_type = item.toml_type + "[]"

    def check(self, value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise Refusal(f"{show(value)} is not a list", f"write {self.describe()}")
        checked, refusals = [], []
        for place, item in enumerate(value):
            try:
                checked.append(self.item.check(item))
            except (Refusal, Refusals) as error:
                refusals += inside(place, error)
        if refusals:
            raise Refusals(refusals)
        return tuple(checked)

    def parse(self, text: str) -> tuple[Any, ...]:
        return self.check([part.strip() for part in text.split(",") if part.strip()])

    def describe(self) -> str:
        return f"a list [ ] of {self.item.describe()}"

    def refused_examples(self) -> list[Any]:
        return ["x", 7, {}, *([item] for item in self.item.refused_examples())]


class MapOf(Type):
    """A table whose names are free and whose values are of one type."""

    toml_type = "table"

    def __init__(self, item: Type, names: Type | None = None) -> None:
        self.item = item
        self.names = names or Text(empty=False)

    def check(self, value: Any) -> Mapping[str, Any]:
        checked, refusals = {}, []
        for name, item in as_table(value, self).items():
            try:
                checked[self.names.check(name)] = self.item.check(item)
            except (Refusal, Refusals) as error:
                refusals += inside(name, error)
        if refusals:
            raise Refusals(refusals)
        return MappingProxyType(checked)

    def describe(self) -> str:
        return f"a table of names, each {self.item.describe()}"

    def refused_examples(self) -> list[Any]:
        return ["x", 7, [], *({"name": item} for item in self.item.refused_examples())]


class Anything(Type):
    """Any plain TOML value, for tables that are handed on as they are."""

    toml_type = "table"

    def check(self, value: Any) -> Any:
        if isinstance(value, dict | Mapping):
            return MappingProxyType({name: self.check(item) for name, item in value.items()})
        if isinstance(value, list | tuple):
            return tuple(self.check(item) for item in value)
        if isinstance(value, float) and not math.isfinite(value):
            raise Refusal(f"{value} cannot be sent as JSON", "write a finite number")
        if isinstance(value, int) and abs(value) > 2**63:
            raise Refusal("the number is out of range", "write a number of at most 64 bits")
        if not isinstance(value, str | int | float):
            raise Refusal(f"{show(value)} cannot be sent as JSON", "write text, a number, true or false")
        return value

    def describe(self) -> str:
        return "text, a number, true or false, a list or a table"


def as_table(value: Any, kind: Type) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise Refusal(f"{show(value)} is not a table", f"write {kind.describe()}")
    return value


def _accepts(kind: Type, value: Any) -> bool:
    try:
        kind.check(value)
    except (Refusal, Refusals):
        return False
    return True


def _unquoted(value: Any) -> str | None:
    """What to tell someone who put a number into quotes."""
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?\d+(\.\d+)?\s*", value):
        return f"write {value.strip()} without quotes"
    return None
