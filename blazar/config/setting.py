"""`Setting`: one configuration key, declared once; and `Table`, a small schema of them. Value types: `types.py`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from blazar.config.refusal import Refusal, Refusals, inside, nearest
from blazar.config.types import ListOf, Type, as_table

HIDDEN = "(hidden)"
"""What is shown in place of a secret."""


@dataclass(frozen=True)
class Setting:
    """One key of the configuration file, or one field of a table.

    `default=None` means unset. From this line come the key, its group, its environment variable, the checks, the
    sample file, the reference page and the flag of a child.
    """

    name: str
    type: Type
    default: Any
    doc: str
    """One sentence: what it does, with its unit."""
    group: str | None = None
    """The table under which the key may also be written."""
    env: str | tuple[str, ...] | None = None
    """The environment variable that sets it, or several of which the first wins."""
    env_adds: bool = False
    """Whether the variable's list is added to the file's instead of replacing it."""
    required: bool = False
    """For fields of a table: an entry without it is refused."""
    secret: bool = False
    """Its value is hidden wherever settings are printed."""
    feeds: str | None = None
    """The list setting into which this list is merged when the file is loaded."""
    overlay: str | None = None
    """The field of [model_overrides.<name>] that replaces it for one model."""
    lane: str | None = None
    """The engine lane that has a flag for it."""
    flag: str | None = None
    """Given with the value; for a boolean, alone where it is true."""
    no_flag: str | None = None
    """Given alone where a boolean is false."""
    written: Callable[[Any], Any] | None = None
    """What the engine calls the value, where that is not its own text."""
    emit: str = "changed"
    """When the flag is given: `changed` = only if the value differs from the default, or `always`."""
    gate: str = "skip"
    """When the engine lacks the flag: `skip` = it is left out with a warning, or `refuse` = nothing is loaded."""
    section: str = ""
    """Filled in by the registry: the module of `config/keys/` that declares it."""

    @property
    def variables(self) -> tuple[str, ...]:
        return (self.env,) if isinstance(self.env, str) else self.env or ()


class Table(Type):
    """A table with declared fields. An entry holds every field, unset ones as None."""

    toml_type = "table"

    def __init__(self, *fields: Setting, what: str) -> None:
        self.fields = MappingProxyType({field.name: field for field in fields})
        self.what = what
        """How messages call it: `[[keys]]`."""

    def check(self, value: Any) -> Mapping[str, Any]:
        given = as_table(value, self)
        refusals = [self._unknown(name) for name in given if name not in self.fields]
        checked = {}
        for name, field in self.fields.items():
            checked[name] = field.default
            if given.get(name) is None:
                if field.required:
                    refusals.append(Refusal(f"{self.what} has no `{name}`", f"add {name} = {field.type.describe()}"))
                continue
            try:
                checked[name] = field.type.check(given[name])
            except (Refusal, Refusals) as error:
                refusals += inside(name, error)
        if refusals:
            raise Refusals(refusals)
        return MappingProxyType(checked)

    def _unknown(self, name: str) -> Refusal:
        near = nearest(name, self.fields)
        known = f"{self.what} knows {', '.join(self.fields)}"
        return Refusal(f"{self.what} has no field of that name", f"did you mean `{near}`? {known}" if near else known,
                       (name,))

    def describe(self) -> str:
        return f"a table with {', '.join(self.fields)}"

    def refused_examples(self) -> list[Any]:
        complete = {name: "x" for name, field in self.fields.items() if field.required}
        return ["x", 7, {**complete, "no_such_field": 1}]


def redact(setting: Setting, value: Any) -> Any:
    """`value` with every secret in it replaced, whole or field by field."""
    if value is None or value == "" or not value:
        return value
    if setting.secret:
        return dict.fromkeys(value, HIDDEN) if isinstance(value, Mapping) else HIDDEN
    return _redact_within(setting.type, value)


def _redact_within(kind: Type, value: Any) -> Any:
    if isinstance(kind, ListOf):
        return [_redact_within(kind.item, item) for item in value]
    if isinstance(kind, Table):
        return {name: redact(kind.fields[name], item) for name, item in value.items()}
    if isinstance(value, Mapping):
        return {name: _redact_within(kind.item, item) if hasattr(kind, "item") else item
                for name, item in value.items()}
    return value
