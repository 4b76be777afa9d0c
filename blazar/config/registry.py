"""SETTINGS: every setting by name, in the order in which people read them."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType, ModuleType

from blazar.config.keys import (
    diffusion,
    engines,
    gateway,
    memory,
    observability,
    reasoning,
    requests,
    resources,
    routing,
    scheduling,
    security,
    slots,
    speculative,
    transport,
    vision,
    whisper,
    yarn,
)
from blazar.config.setting import Setting, Table
from blazar.config.types import ListOf, MapOf, Type

SECTION_MODULES = (gateway, security, resources, routing, requests, observability, slots, memory, speculative,
                   reasoning, vision, yarn, scheduling, transport, engines, whisper, diffusion)


def collect(modules: tuple[ModuleType, ...]) -> Mapping[str, Setting]:
    """The settings of all modules, each with its section. A name declared twice is a ValueError."""
    found: dict[str, Setting] = {}
    for module in modules:
        section = module.__name__.rpartition(".")[2]
        for setting in module.SETTINGS:
            if setting.name in found:
                raise ValueError(f"setting {setting.name} is declared in {found[setting.name].section} and {section}")
            found[setting.name] = replace(setting, section=section)
    return MappingProxyType(found)


SETTINGS = collect(SECTION_MODULES)

SECTIONS = MappingProxyType({module.__name__.rpartition(".")[2]: module.__doc__ for module in SECTION_MODULES})
"""Title of each section."""

GROUPS = frozenset(setting.group for setting in SETTINGS.values() if setting.group)
"""Tables under which flat keys may also be written."""


def declared(settings: Mapping[str, Setting] = SETTINGS) -> Iterator[tuple[str, Setting]]:
    """Every setting and every field of its tables: `port`, `keys[].rpm`, `model_overrides.<name>.ctx`."""
    for name, setting in settings.items():
        yield name, setting
        yield from _fields(name, setting.type)


def _fields(path: str, kind: Type) -> Iterator[tuple[str, Setting]]:
    if isinstance(kind, ListOf):
        yield from _fields(path + "[]", kind.item)
    elif isinstance(kind, MapOf):
        yield from _fields(path + ".<name>", kind.item)
    elif isinstance(kind, Table):
        for name, field in kind.fields.items():
            yield f"{path}.{name}", field
            yield from _fields(f"{path}.{name}", field.type)
