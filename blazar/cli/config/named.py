"""The keys that the sub-verbs are given, and their values as text: `port`, `model_overrides.qwen3-8b.ctx`."""

from dataclasses import dataclass
from typing import Any

from blazar.config.refusal import KeyPath
from blazar.config.setting import Setting
from blazar.config.types import Type
from blazar.errors import UsageRefused


@dataclass(frozen=True)
class Named:
    """A place in the settings: where it stands, what may stand there, and whether that is a secret."""

    text: str
    path: KeyPath
    type: Type
    secret: bool

    @property
    def has_fields(self) -> bool:
        """Whether it is a table with fields of its own, or one of such tables."""
        from blazar.config.setting import Table
        from blazar.config.types import MapOf
        return isinstance(self.type, Table) or (isinstance(self.type, MapOf) and isinstance(self.type.item, Table))

    @property
    def is_list_of_tables(self) -> bool:
        from blazar.config.setting import Table
        from blazar.config.types import ListOf
        return isinstance(self.type, ListOf) and isinstance(self.type.item, Table)


def named(text: str) -> Named:
    """The place of which a person wrote; names within may hold dots, or stand in quotes. Raises UsageRefused."""
    from blazar.config.setting import Table
    from blazar.config.types import MapOf
    name, _, rest = text.partition(".")
    setting = declared_key(name, rest)
    path: KeyPath = (name,)
    kind, secret = setting.type, setting.secret
    while rest:
        if isinstance(kind, Table):
            name, _, rest = rest.partition(".")
            field = kind.fields.get(name)
            if field is None:
                raise UsageRefused(f"{kind.what} has no field {name}; it knows {', '.join(kind.fields)}")
            kind, secret = field.type, secret or field.secret
        elif isinstance(kind, MapOf):
            name, rest = _free_name(rest, kind.item)
            kind = kind.item
        else:
            raise UsageRefused(f"there is no {text}: {'.'.join(map(str, path))} has no fields")
        path = (*path, name)
    return Named(text, path, kind, secret)


def declared_key(name: str, field: str = "") -> Setting:
    """The setting of that name. Raises UsageRefused; `field` is what was written behind it."""
    from blazar.config.refusal import nearest
    from blazar.config.registry import GROUPS, SETTINGS
    if name in SETTINGS:
        return SETTINGS[name]
    if name in GROUPS and field in SETTINGS:
        raise UsageRefused(f"keys are named here without their group: write {field} for {name}.{field}")
    near = nearest(name, SETTINGS)
    raise UsageRefused(f"there is no setting {name}; "
                       + (f"did you mean {near}?" if near else "`blazar config list` shows all"))


def _free_name(rest: str, item: Type) -> tuple[str, str]:
    """A name that a person gave, and what is written behind it: the shortest end that is a field of its table."""
    from blazar.config.setting import Table
    if rest[:1] in ('"', "'") and (end := rest.find(rest[0], 1)) > 0:
        return rest[1:end], rest[end + 1:].removeprefix(".")
    if not isinstance(item, Table):
        return rest, ""
    place = len(rest)
    while (place := rest.rfind(".", 0, place)) > 0:
        if rest[place + 1:].partition(".")[0] in item.fields:
            return rest[:place], rest[place + 1:]
    return rest, ""


def value_of(text: str, kind: Type) -> Any:
    """The value that a person wrote, as plain TOML data: as in a file, or as in an environment variable.

    Raises Refusal, Refusals.
    """
    import tomllib

    from blazar.config.frozen import thaw
    from blazar.config.types import Anything, File, ListOf, MapOf, OneOf
    try:
        literal = tomllib.loads(f"x = {text}") if "\n" not in text else {}
    except (ValueError, RecursionError):
        literal = {}
    written = literal.get("x") if len(literal) == 1 else None
    if isinstance(written, str | list | dict) or (written is not None and isinstance(kind, OneOf | Anything)):
        kind.check(written)
        return written
    if isinstance(kind, ListOf | MapOf) and not text.strip():
        return [] if isinstance(kind, ListOf) else {}
    checked = kind.parse(text)
    return text if isinstance(kind, File) else thaw(checked)


def shown(value: Any) -> str:
    """A value as TOML writes it."""
    from blazar.config.render import literal
    return "(unset)" if value is None else literal(value)
