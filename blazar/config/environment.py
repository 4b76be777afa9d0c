"""Environment variables: those that set a key, and the few that stand for themselves. Read once, by `load`."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from blazar.config.refusal import Refusal, nearest
from blazar.config.setting import Setting
from blazar.config.types import Bool, Float, Secret, Text, Type


class Gate(Float):
    """A share from 0 to 1; `off` is 0, which every candidate reaches."""

    def parse(self, text: str) -> float:
        return 0.0 if text.strip().lower() == "off" else super().parse(text)

    def describe(self) -> str:
        return "off, or a share from 0 to 1"


@dataclass(frozen=True)
class Variable:
    """A product variable without a key. Its value stands in `config.runtime`; None when it is unset."""

    name: str
    type: Type
    default: Any
    doc: str
    secret: bool = False


URL = Text(r"https?://\S+", like="an http(s) URL", empty=False)

VARIABLES: Mapping[str, Variable] = MappingProxyType({variable.name: variable for variable in (
    Variable("BLAZAR_CONFIG", Text(), None, "The configuration file to use."),
    Variable("BLAZAR_HOST", Text(), None, "Where the client verbs find a running daemon: a URL, or host:port."),
    Variable("BLAZAR_API_KEY", Text(), None, "The API key that the client verbs send.", secret=True),
    Variable("BLAZAR_ENGINE_PATH", Text(), None, "An engine program to use in place of the installed ones."),
    Variable("BLAZAR_ENGINE_GATE", Gate(0, 1), 0.9,
             "Share of the old build's speed that a new one must reach; off takes every build."),
    Variable("BLAZAR_REGISTRY_BASE", URL, None, "Base URL of the model registry."),
    Variable("BLAZAR_REGISTRY_TOKEN", Secret(), None, "Token for private models of the registry.", secret=True),
    Variable("BLAZAR_OFFLINE", Bool(), False, "1 forbids to download models; what is installed goes on working."),
    Variable("HF_HUB_OFFLINE", Text(), None, "The same: 1, on, yes or true, as other programs read it too."),
    Variable("BLAZAR_GH_BASE", URL, None, "Base URL for engine releases, in place of GitHub's."),
    Variable("BLAZAR_REPO", Text(r"[\w.-]+/[\w.-]+", like="owner/name", empty=False), None,
             "Repository whose releases are downloaded."),
    Variable("BLAZAR_INSTALL_BASE_URL", URL, None, "Base URL for the files of an engine release."),
    Variable("BLAZAR_SYSTEMCTL", Text(), None, "The systemctl program for `blazar service`."),
)})

FOREIGN = ("BLAZAR_VERSION", "BLAZAR_INSTALL_ENGINE", "BLAZAR_INSTALL_MODEL", "BLAZAR_BOOTSTRAP",
           "BLAZAR_FORCE_BOOTSTRAP", "BLAZAR_AUTO_BOOTSTRAP", "BLAZAR_AUTO_DRIVER", "BLAZAR_CHECKOUT", "BLAZAR_SUDO",
           "BLAZAR_SYSTEM_BIN_DIR", "BLAZAR_UNIT_PATH", "BLAZAR_UNIT_MEMORY_HIGH", "BLAZAR_SERVICE_USER",
           "BLAZAR_SERVICE_GROUP", "BLAZAR_CHILD")
"""Known, but not ours to read: the installer's, and the mark of a child."""


HARNESS = ("BLAZAR_VALIDATE", "BLAZAR_STUB_", "BLAZAR_TEST_")
"""Beginnings of what the project's own test harness reads."""


@dataclass(frozen=True)
class Given:
    """One variable that was set: by which name, and the value or what is wrong with it."""

    variable: str
    value: Any = None
    refusal: Refusal | None = None
    ignored: str = ""
    """A warning: the variable was not used, and why."""


def given(setting: Setting, env: Mapping[str, str]) -> Given | None:
    """What the environment says of `setting`; None when nothing."""
    ignored = ""
    for variable in setting.variables:
        text = env.get(variable)
        if text is None or (not text.strip() and not setting.type.empty_is_set):
            continue
        try:
            return Given(variable, setting.type.parse(text), ignored=ignored)
        except Refusal as refusal:
            if variable.startswith("BLAZAR_"):
                return Given(variable, refusal=refusal)
            ignored = f"{variable} is not used for {setting.name}: {refusal.problem}"
    return Given("", ignored=ignored) if ignored else None


def runtime(env: Mapping[str, str]) -> tuple[Mapping[str, Any], dict[str, Refusal]]:
    """The value of each of VARIABLES, and why some are refused. An empty one counts as unset."""
    values: dict[str, Any] = {}
    refused: dict[str, Refusal] = {}
    for name, variable in VARIABLES.items():
        values[name] = variable.default
        if env.get(name):
            try:
                values[name] = variable.type.parse(env[name])
            except Refusal as refusal:
                refused[name] = refusal
    return MappingProxyType(values), refused


def misspelt(env: Mapping[str, str], settings: Mapping[str, Setting]) -> list[str]:
    """A warning for each variable that looks like one of ours and is not."""
    known = {*VARIABLES, *FOREIGN, *(name for setting in settings.values() for name in setting.variables)}
    warnings = []
    for name in sorted(env):
        if name.startswith("BLAZAR_") and name not in known and not name.startswith(HARNESS):
            setting = name.removeprefix("BLAZAR_").lower()
            near = nearest(name.upper(), [one.lower() for one in known])
            warnings.append(f"{name} is not a variable that Blazar reads" + (
                f"; write {setting} = ... into the configuration file" if setting in settings
                else f"; did you mean {near.upper()}?" if near else ""))
    return warnings
