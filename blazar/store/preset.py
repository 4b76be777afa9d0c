"""`Preset`: what is given with a model beside its files, as a Modelfile names it: options, texts, a template."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from blazar.store.go_template import to_jinja

LAUNCH = {"num_ctx": "default_ctx", "num_batch": "batch_size"}
"""Options that shape a load: the setting that each stands for."""
NAME_WIDTH = 30
"""Characters of an option's name in lists for people."""

_GO = re.compile(r"\{\{-?\s*(?:\.|\$|(?:if|else|end|range|with|define|template|block|break|continue)\b)")


@dataclass(frozen=True)
class Preset:
    """Empty parts ask for nothing."""

    system: str = ""
    """What the model is told first, when a request has no system text."""
    messages: tuple[Mapping[str, str], ...] = ()
    """Turns (`role`, `content`) that stand before those of a request."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Options by Ollama's names, which a request's own replace."""
    template: str = ""
    """A chat template that replaces that of the file: Jinja, or Go's kind, which counts if it is simple."""

    def __bool__(self) -> bool:
        return bool(self.system or self.messages or self.parameters or self.template)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "Preset":
        return cls(system=row["system"] or "", messages=tuple(json.loads(row["messages"] or "[]")),
                   parameters=json.loads(row["parameters"] or "{}"), template=row["template"] or "")

    def to_row(self) -> dict[str, Any]:
        """Its columns of the table `installed_model`."""
        return {"system": self.system or None, "template": self.template or None,
                "messages": json.dumps(list(self.messages)) if self.messages else None,
                "parameters": json.dumps(dict(self.parameters)) if self.parameters else None}

    def over(self, base: "Preset") -> "Preset":
        """This one, with the parts of `base` where it has none; options count one by one."""
        return Preset(self.system or base.system, self.messages or base.messages,
                      {**base.parameters, **self.parameters}, self.template or base.template)

    @property
    def jinja(self) -> str:
        """The template as engines read it; '' when there is none, or one that cannot be translated."""
        return to_jinja(self.template) or "" if is_go_template(self.template) else self.template

    def settings(self) -> dict[str, Any]:
        """Settings of a load, by name."""
        return {setting: self.parameters[name] for name, setting in LAUNCH.items() if name in self.parameters}

    def defaults(self) -> dict[str, Any]:
        """What the gateway adds to requests; empty when there is nothing to add."""
        parts = {"system": self.system, "messages": list(self.messages),
                 "parameters": {name: value for name, value in self.parameters.items() if name not in LAUNCH}}
        return {name: part for name, part in parts.items() if part}

    def lines(self) -> list[str]:
        """The options for people, one a line, a repeated one for each of its values."""
        return [f"{name:<{NAME_WIDTH}} {_shown(value)}" for name, given in self.parameters.items()
                for value in (given if isinstance(given, list) else [given])]


NO_PRESET = Preset()


def is_go_template(text: str) -> bool:
    """Whether a chat template is of the kind that Ollama's own library of models has, and engines do not read."""
    return "{%" not in text and bool(_GO.search(text))


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
