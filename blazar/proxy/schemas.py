"""The one door to jsonschema: a client's schema, made ready to check answers against it.

Nothing is fetched, and nothing takes for ever: whether an answer keeps to its schema stays undecided where its check
takes too many steps, or a pattern might.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from blazar.errors import SchemaRefused
from blazar.proxy.patterns import Hard, degree, searched

MOST_STEPS = 100_000
"""Keywords that are looked at for one answer; some seconds at most."""
PAUSE_EVERY = 500
LITERAL = frozenset({"const", "enum", "default", "examples"})
"""Keywords that hold values and not schemas."""
BASES = frozenset({"$schema", "$id", "id"})
"""Keywords that only say how others are read; where they are text, they are left out."""


class Undecided(Exception):
    """Whether an answer keeps to its schema cannot be told within bounds."""


@dataclass(frozen=True)
class Flaw:
    """What is wrong with a value: where, as a path like `items[2].n`, '' for the whole; and what."""

    place: str
    problem: str


class Schema:
    """One schema. `pause` is called now and then while something is checked."""

    def __init__(self, schema: dict[str, Any], where: str, pause: Callable[[], None] = lambda: None) -> None:
        """Raises SchemaRefused for what is no JSON schema; `where` names it."""
        from jsonschema import validators

        self._pause = pause
        plain = _plain(schema)
        draft = schema.get("$schema")
        named = validators.validator_for({"$schema": draft}, default=None) if isinstance(draft, str) else None
        kinds = [named] if named else [validators.Draft202012Validator, validators.Draft7Validator]
        flaws = [self._flaw_of_schema(kind, plain) for kind in kinds]
        if None not in flaws:
            flaw = flaws[0]
            assert flaw is not None, "each kind found one"
            raise SchemaRefused(where=where + (f".{flaw.place}" if flaw.place else ""), problem=flaw.problem,
                                remedy="correct the schema")
        self._kind = kinds[flaws.index(None)]
        self._schema = plain

    def flaw(self, value: Any) -> Flaw | None:
        """The worst of what is wrong with `value`; None for nothing. Raises Undecided."""
        return self._flaw(self._kind, self._schema, value)

    def _flaw_of_schema(self, kind: Any, schema: Any) -> Flaw | None:
        try:
            return self._flaw(kind, kind.META_SCHEMA, schema)
        except Undecided:
            return None

    def _flaw(self, kind: Any, schema: Any, value: Any) -> Flaw | None:
        from jsonschema.exceptions import best_match

        work = _Work(self._pause)
        try:
            found = best_match(_offline(_bounded(kind, work), schema).iter_errors(value))
        except Exception as error:  # too much work, or a reference that leads nowhere, however this jsonschema calls it
            raise Undecided from error
        if found is None and work.passed_over:
            raise Undecided
        return None if found is None else Flaw(_path(found.absolute_path), _short(found.message))


def _plain(schema: Any) -> Any:
    """A schema without what would make a validator look elsewhere, or become another."""
    if isinstance(schema, list):
        return [_plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: value if key in LITERAL else _plain(value) for key, value in schema.items()
            if not (key in BASES and isinstance(value, str))}


class _Work:
    """What one check has cost so far."""

    def __init__(self, pause: Callable[[], None]) -> None:
        self.passed_over = False
        """Some pattern was not tried."""
        self._pause = pause
        self._steps = 0

    def add(self, steps: int) -> None:
        before, self._steps = self._steps, self._steps + steps
        if self._steps > MOST_STEPS:
            raise Undecided
        if before // PAUSE_EVERY != self._steps // PAUSE_EVERY:
            self._pause()


def _bounded(kind: Any, work: _Work) -> Any:
    """The validator class `kind`, which gives up after so much work."""
    from jsonschema import validators

    def counted(check: Any) -> Any:
        def run(validator: Any, wanted: Any, value: Any, schema: Any) -> Any:
            work.add(1)
            return check(validator, wanted, value, schema)
        return run

    own = {"pattern": _pattern, "patternProperties": _pattern_properties, "uniqueItems": _unique_items}
    checks = {**kind.VALIDATORS, **{name: make(kind.VALIDATORS[name], work) for name, make in own.items()
                                    if name in kind.VALIDATORS}}
    return validators.extend(kind, {name: counted(check) for name, check in checks.items()})


def _offline(kind: Any, schema: Any) -> Any:
    """A validator that knows the standard's own schemas, and asks nobody for others."""
    try:
        from jsonschema_specifications import REGISTRY
    except ImportError:
        from jsonschema import RefResolver

        class Offline(RefResolver):
            def resolve_remote(self, uri: str) -> Any:
                raise LookupError(uri)

        return kind(schema, resolver=Offline.from_schema(schema, id_of=kind.ID_OF))
    return kind(schema, registry=REGISTRY)


def _pattern(check: Any, work: _Work) -> Any:
    def run(validator: Any, pattern: Any, value: Any, schema: Any) -> Iterator[Any]:
        from jsonschema.exceptions import ValidationError

        try:
            if isinstance(value, str) and not searched(pattern, value):
                yield ValidationError(f"{value!r} does not match {pattern!r}")
        except Hard:
            work.passed_over = True
    return run


def _pattern_properties(check: Any, work: _Work) -> Any:
    def run(validator: Any, patterns: Any, value: Any, schema: Any) -> Any:
        if any(degree(pattern) > 1 for pattern in patterns):
            raise Undecided
        return check(validator, patterns, value, schema)
    return run


def _unique_items(check: Any, work: _Work) -> Any:
    def run(validator: Any, wanted: Any, value: Any, schema: Any) -> Any:
        if isinstance(value, list):
            work.add(len(value) ** 2 // 20)
        return check(validator, wanted, value, schema)
    return run


def _path(steps: Any) -> str:
    text = ""
    for step in steps:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return _short(text)


def _short(text: str) -> str:
    return text if len(text) <= 300 else f"{text[:200]} ... {text[-90:]}"
