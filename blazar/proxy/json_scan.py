"""Large JSON objects, read without building their values: their form is checked, and only the named fields are kept.

A parser holds the whole gateway up until it is done; this goes on in short steps, with a pause for others between
them. It refuses what `json.load_object` refuses. Regular expressions do the work: each passes over as many small
values as one step allows, and what is larger or nested deeper is taken apart here.
"""

import codecs
import re
from collections.abc import Callable, Collection
from typing import Any, Final, NoReturn

from blazar.errors import RequestRefused
from blazar.proxy.json import BOM, MAX_DEPTH, BadJson, encoding_problem, load_object, loads, not_an_object, too_deep

MOST_VALUES: Final = 1_000_000
"""Values in a large body that is parsed as a whole; so many take some tenth of a second."""
STEP: Final = 1 << 16
"""Bytes of text that one step passes over."""
RUN: Final = 1 << 14
"""Bytes of small values that one step passes over."""
LONGEST_FIELD: Final = 1 << 16
"""Bytes of the longest value that is built."""
SHORT_NUMBER: Final = 15
"""Characters up to which a number without an exponent is surely finite and not too long."""

_BLANK: Final = rb"[ \t\n\r]*"
_ESCAPE: Final = rb'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})'
_TEXT: Final = rb'[^"\\\x00-\x1f]*(?:%b[^"\\\x00-\x1f]*)*' % _ESCAPE
_SCALAR: Final = rb'(?:"%b"|-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?(?:[eE][+-]?[0-9]{1,2})?|true|false|null)' % _TEXT
_MEMBER: Final = rb'"%b"%b:%b%b' % (_TEXT, _BLANK, _BLANK, _SCALAR)
_SMALL: Final = rb"(?:%b|\[(?:%b)?\]|\{(?:%b)?\})" % (_SCALAR, *(
    _BLANK + item + _BLANK + b"(?:," + _BLANK + item + _BLANK + b")*|" + _BLANK for item in (_SCALAR, _MEMBER)))
_ITEMS: Final = re.compile(rb"(?:%b%b%b,)*" % (_BLANK, _SMALL, _BLANK))
_MEMBERS: Final = re.compile(rb'(?:%b"%b"%b:%b%b%b,)*' % (_BLANK, _TEXT, _BLANK, _BLANK, _SMALL, _BLANK))
_BLANKS, _STRETCH, _ESCAPED = re.compile(_BLANK), re.compile(_TEXT), re.compile(_ESCAPE)
_NUMBER: Final = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_STRING: Final = re.compile(rb'"%b"' % _TEXT)
_WORD: Final = re.compile(rb"true|false|null")
_QUOTE, _COLON, _COMMA, _OBJECT, _LIST = b'":,{['
_CLOSER: Final = {_OBJECT: ord("}"), _LIST: ord("]")}


class BodyReader:
    """Reads the bodies of requests; those over `scan_over` bytes without holding others up.

    `pause` is called between short steps.
    """

    def __init__(self, scan_over: int = 1 << 18, pause: Callable[[], None] = lambda: None) -> None:
        self._scan_over = scan_over
        self._pause = pause

    def fields(self, body: bytes, wanted: Collection[str]) -> dict[str, Any]:
        """The object in `body`, of which a large one has only its fields that are `wanted`. Raises RequestRefused."""
        return load_object(body) if len(body) <= self._scan_over else scan_object(body, wanted, self._pause)

    def whole(self, body: bytes) -> dict[str, Any]:
        """The object in `body`. Raises RequestRefused, also for a large one of very many values."""
        if len(body) <= self._scan_over:
            return load_object(body)
        scan_object(body, (), self._pause, MOST_VALUES)
        value = load_object(body)
        self._pause()
        return value

    def again(self, body: bytes, payload: dict[str, Any]) -> dict[str, Any]:
        """The whole object in `body`, of which `fields` has made `payload`. Raises RequestRefused as `whole` does."""
        return payload if len(body) <= self._scan_over else self.whole(body)

    def with_value(self, body: bytes, key: str, value: bytes) -> bytes:
        """`body`, an object that has been read, with another `value`, in JSON, of its field `key`; else as it is."""
        start, end = _Scan(body, (key,), self._pause, None).spans()[key]
        return b"".join((body[:start], value, body[end:]))


def scan_object(body: bytes, wanted: Collection[str], pause: Callable[[], None],
                most_values: int | None = None) -> dict[str, Any]:
    """Those of the fields `wanted` that the JSON object in a request's body has. Raises RequestRefused."""
    try:
        return _Scan(body, wanted, pause, most_values).found()
    except IndexError:
        raise RequestRefused(f"the request body is not usable JSON: it ends too early, at {len(body)} bytes") from None
    except BadJson as bad:
        raise RequestRefused(f"the request body is not usable JSON: {bad}") from None


class _Scan:
    """Methods take the offset of what they read and give the offset after it; IndexError means that the body ends."""

    def __init__(self, body: bytes, wanted: Collection[str], pause: Callable[[], None],
                 most_values: int | None) -> None:
        self._body = body
        self._wanted = wanted
        # Members that are surely not wanted; a key that holds an escape may be, in disguise.
        names = b"|".join(re.escape(name.encode()) for name in wanted)
        unwanted = b'(?!(?:%b)")' % names if wanted else b""
        self._others = re.compile(rb'(?:%b"%b[^"\\\x00-\x1f]*"%b:%b%b%b,)*' % (
            _BLANK, unwanted, _BLANK, _BLANK, _SMALL, _BLANK))
        self._pause = pause
        self._most_values = most_values
        self._values = 0

    def found(self) -> dict[str, Any]:
        return {key: self._build(key, *span) for key, span in self.spans().items()}

    def spans(self) -> dict[str, tuple[int, int]]:
        """Where the values of the wanted fields begin and end."""
        self._check_text()
        at = self._blank(len(BOM) if self._body.startswith(BOM) else 0)
        self._check_root(at)
        spans: dict[str, tuple[int, int]] = {}
        at = self._blank(at + 1)
        closed = self._body[at] == _CLOSER[_OBJECT]
        while not closed:
            at = self._run(self._others, at)
            key, start = self._key_text(at), self._key(at)
            at = self._skip(start)
            if key in self._wanted:
                spans[key] = (start, at)
            at = self._blank(at)
            closed = self._body[at] == _CLOSER[_OBJECT]
            if not closed:
                self._expect(_COMMA, at, "a comma or the end of the object")
                at += 1
        at = self._blank(at + 1)
        if at < len(self._body):
            self._wrong(at, "nothing more")
        return spans

    def _build(self, key: str, start: int, end: int) -> Any:
        if end - start > LONGEST_FIELD:
            raise BadJson(f"the value of {key!r} has {end - start} bytes, {LONGEST_FIELD} are allowed")
        return loads(self._body[start:end])

    def _check_text(self) -> None:
        """Refuse what is not UTF-8."""
        decoder = codecs.getincrementaldecoder("utf-8")()
        for start in range(0, len(self._body), STEP):
            part = self._body[start:start + STEP]
            try:
                decoder.decode(part, final=start + STEP >= len(self._body))
            except UnicodeDecodeError as bad:
                carried = len(bad.object) - len(part)
                raise BadJson(encoding_problem(self._body, start + bad.start - carried)) from None
            self._pause()

    def _check_root(self, at: int) -> None:
        if at == len(self._body):
            raise BadJson("it is empty")
        if self._body[at] != _OBJECT:
            if b"\0" in self._body[:4]:
                raise BadJson(encoding_problem(self._body, None))
            raise not_an_object([] if self._body[at] == _LIST else "" if self._body[at] == _QUOTE else None)

    # -- values ------------------------------------------------------------------------------------

    def _skip(self, at: int) -> int:
        """Past the value at `at`, which stands in the outermost object."""
        around: list[int] = []
        while True:
            self._pause()
            self._add(1)
            at = self._blank(at)
            opener = self._body[at]
            if opener in _CLOSER:
                around.append(opener)
                if len(around) >= MAX_DEPTH:
                    raise too_deep()
                at = self._blank(at + 1)
                if self._body[at] != _CLOSER[opener]:
                    at = self._next(at, opener)
                    continue
            else:
                at = self._scalar(at)
            while around:
                at = self._blank(at) + 1
                mark = self._body[at - 1]
                if mark == _COMMA:
                    at = self._next(at, around[-1])
                    break
                if mark != _CLOSER[around.pop()]:
                    self._wrong(at - 1, "a comma or an end")
            else:
                return at

    def _next(self, at: int, around: int) -> int:
        """To the next value of a list or an object that has to be looked at on its own."""
        return self._run(_ITEMS, at) if around == _LIST else self._key(self._run(_MEMBERS, at))

    def _run(self, small: re.Pattern[bytes], at: int) -> int:
        """Past small items, each with its comma, as long as there are many."""
        while True:
            end = small.match(self._body, at, at + RUN).end()  # type: ignore[union-attr]
            self._count_run(at, end)
            if end - at < RUN // 2:
                return end
            self._pause()
            at = end

    def _scalar(self, at: int) -> int:
        if self._body[at] == _QUOTE:
            return self._string(at)
        found = _NUMBER.match(self._body, at, at + STEP)
        if found is None:
            found = _WORD.match(self._body, at)
        elif found.end() - at > SHORT_NUMBER or b"e" in found[0].lower():
            loads(found[0])  # refuses one that is too large or too long
        return found.end() if found is not None else self._wrong(at, "a value")

    def _string(self, at: int) -> int:
        at += 1
        while True:
            end = _STRETCH.match(self._body, at, at + STEP).end()  # type: ignore[union-attr]
            if self._body[end] == _QUOTE:
                return end + 1
            if end < at + STEP:  # an escape that the step has cut in two, or no text
                whole = _ESCAPED.match(self._body, end)
                end = whole.end() if whole is not None else self._wrong(end, "text, an escape, or the string's end")
            self._pause()
            at = end

    def _key(self, at: int) -> int:
        """Past a key and its colon."""
        at = self._blank(at)
        self._expect(_QUOTE, at, "a key in double quotes")
        at = self._blank(self._string(at))
        self._expect(_COLON, at, "a colon")
        return self._blank(at + 1)

    def _key_text(self, at: int) -> str:
        """The key at `at`; '' for one that is too long to be wanted."""
        at = self._blank(at)
        self._expect(_QUOTE, at, "a key in double quotes")
        end = self._string(at)
        return loads(self._body[at:end]) if end - at <= LONGEST_FIELD else ""

    # -- steps -------------------------------------------------------------------------------------

    def _blank(self, at: int) -> int:
        while True:
            end = _BLANKS.match(self._body, at, at + STEP).end()  # type: ignore[union-attr]
            if end < at + STEP:
                return end
            self._pause()
            at = end

    def _count_run(self, start: int, end: int) -> None:
        """Add the values between two offsets, by the marks that stand before and between values."""
        if self._most_values is not None:
            bare = _STRING.sub(b"", self._body[start:end])
            self._add(bare.count(b",") + bare.count(b"[") + bare.count(b"{"))

    def _add(self, values: int) -> None:
        self._values += values
        if self._most_values is not None and self._values > self._most_values:
            raise BadJson(f"it holds more than {self._most_values} values")

    def _expect(self, mark: int, at: int, words: str) -> None:
        if self._body[at] != mark:
            self._wrong(at, words)

    def _wrong(self, at: int, expected: str) -> NoReturn:
        found = self._body[at:at + 12].decode(errors="replace")
        raise BadJson(f"at offset {at} stands {found!r} instead of {expected}")
