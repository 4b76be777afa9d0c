"""Rules about names: unique where they must be, and pointing at something that exists."""

from collections.abc import Iterator, Mapping
from typing import Any

from blazar.config.effective import canonical
from blazar.config.refusal import nearest
from blazar.config.rule import Problem, entries, overrides, repeated, rule

Values = Mapping[str, Any]
TARGETS = 'targets = [{ model = "m" }]'


@rule(refused='[[mcp]]\nname = "a"', accepted='[[mcp]]\nname = "a"\ncommand = ["x"]')
def mcp_command_or_url(values: Values) -> Iterator[Problem]:
    """A server is either started or reached."""
    for path, server in entries(values, "mcp"):
        if bool(server["command"]) == bool(server["url"]):
            both = "it has both `command` and `url`" if server["url"] else "it has neither `command` nor `url`"
            yield Problem((*path, "url") if server["url"] else path, both, "write exactly one of the two")


@rule(refused='[[mcp]]\nname = "a"\ncommand = ["x"]\n[[mcp]]\nname = "a"\ncommand = ["y"]',
      accepted='[[mcp]]\nname = "a"\ncommand = ["x"]\n[[mcp]]\nname = "b"\ncommand = ["y"]')
def mcp_names_are_unique(values: Values) -> Iterator[Problem]:
    """Tools are named after their server."""
    for path, name in repeated(values, "mcp", "name"):
        yield Problem(path, f"another entry of [[mcp]] is called {name}", "give each its own name")


@rule(refused='[[mcp]]\nname = "all"\ncommand = ["x"]', accepted='[[mcp]]\nname = "every"\ncommand = ["x"]')
def mcp_names_are_not_words(values: Values) -> Iterator[Problem]:
    """`all` and `none` mean something where a server is chosen."""
    for path, server in entries(values, "mcp"):
        if server["name"].lower() in ("all", "none"):
            yield Problem((*path, "name"), f'"{server["name"]}" has a meaning of its own', "choose another name")


@rule(refused='mcp_default = "calk"\n[[mcp]]\nname = "calc"\ncommand = ["x"]',
      accepted='mcp_default = "calc"\n[[mcp]]\nname = "calc"\ncommand = ["x"]')
def mcp_default_exists(values: Values) -> Iterator[Problem]:
    """The default names a declared server, all of them, or none."""
    names = [server["name"] for server in values["mcp"]]
    default = values["mcp_default"]
    if default is not None and default not in ("all", "none", *names):
        yield Problem(("mcp_default",), f'no [[mcp]] server is called "{default}"',
                      _choose(default, ["all", "none", *names]))


@rule(refused='mcp_servers_config = "/etc/hostname"\nmcp_servers_json = "{}"', accepted='mcp_servers_json = "{}"')
def engine_mcp_file_or_json(values: Values) -> Iterator[Problem]:
    """The engine takes its servers from one place."""
    if values["mcp_servers_config"] and values["mcp_servers_json"]:
        yield Problem(("mcp_servers_json",), "mcp_servers_config is set too", "keep one of the two")


@rule(refused=f'[[failover]]\nname = "a"\nalias = "x"\n{TARGETS}\n[[failover]]\nname = "b"\nalias = "X"\n{TARGETS}',
      accepted=f'[[failover]]\nname = "a"\nalias = "x"\n{TARGETS}\n[[failover]]\nname = "b"\nalias = "y"\n{TARGETS}')
def failover_aliases_are_unique(values: Values) -> Iterator[Problem]:
    """A public name leads to one chain."""
    for path, alias in repeated(values, "failover", "alias"):
        yield Problem(path, f"another entry of [[failover]] has the alias {alias}", "give each its own")


@rule(refused=f'[[failover]]\nname = "a"\nalias = "x"\n{TARGETS}\n[[failover]]\nname = "a"\nalias = "y"\n{TARGETS}',
      accepted=f'[[failover]]\nname = "a"\nalias = "x"\n{TARGETS}\n[[failover]]\nname = "b"\nalias = "y"\n{TARGETS}')
def failover_names_are_unique(values: Values) -> Iterator[Problem]:
    """Admin routes find a chain by its name."""
    for path, name in repeated(values, "failover", "name"):
        yield Problem(path, f"another entry of [[failover]] is called {name}", "give each its own name")


@rule(refused='[[failover]]\nname = "a"\nalias = "x"\ntargets = []',
      accepted=f'[[failover]]\nname = "a"\nalias = "x"\n{TARGETS}')
def failover_has_targets(values: Values) -> Iterator[Problem]:
    """A chain has at least one target, and each names a model."""
    for path, chain in entries(values, "failover"):
        if not chain["targets"]:
            yield Problem(path, f"chain {chain['name']} has no targets", "add [[failover.targets]] with model = …")
        for place, target in enumerate(chain["targets"] or ()):
            if target["model"] is None:
                yield Problem((*path, "targets", place), f"a target of chain {chain['name']} names no model",
                              "add model = …")


@rule(refused='[[failover]]\nname = "a"\nalias = "x"\ntargets = [{ model = "m", remote = "bigbx" }]\n'
              '[[remotes]]\nname = "bigbox"\nurl = "https://b.example.com"',
      accepted='[[failover]]\nname = "a"\nalias = "x"\ntargets = [{ model = "m", remote = "bigbox" }]\n'
               '[[remotes]]\nname = "bigbox"\nurl = "https://b.example.com"')
def failover_remotes_exist(values: Values) -> Iterator[Problem]:
    """A target on another server names a declared one."""
    names = [remote["name"] for remote in values["remotes"]]
    for path, chain in entries(values, "failover"):
        for place, target in enumerate(chain["targets"] or ()):
            if target["remote"] is not None and target["remote"] not in names:
                yield Problem((*path, "targets", place, "remote"),
                              f'no [[remotes]] entry is called "{target["remote"]}"', _choose(target["remote"], names))


@rule(refused='[[failover]]\nname = "a"\nalias = "x"\ntargets = [{ model = "X" }]',
      accepted=f'[[failover]]\nname = "a"\nalias = "x"\n{TARGETS}')
def failover_is_no_circle(values: Values) -> Iterator[Problem]:
    """A target on this machine is a model and not a chain."""
    aliases = {chain["alias"].lower() for chain in values["failover"]}
    for path, chain in entries(values, "failover"):
        for place, target in enumerate(chain["targets"] or ()):
            if target["remote"] is None and (target["model"] or "").lower() in aliases:
                yield Problem((*path, "targets", place, "model"), f"{target['model']} is a chain itself",
                              "name a model")


@rule(refused='[[alias]]\nname = "fast"\nmodel = "m"\n[[alias]]\nname = "fast"\nmodel = "n"',
      accepted='[[alias]]\nname = "fast"\nmodel = "m"\n[[alias]]\nname = "faster"\nmodel = "n"')
def alias_names_are_unique(values: Values) -> Iterator[Problem]:
    """A name stands for one model; `fast:latest` is `fast`."""
    seen: set[str] = set()
    for path, entry in entries(values, "alias"):
        name = canonical(entry["name"])
        if name in seen:
            yield Problem((*path, "name"), f"another entry of [[alias]] is called {name}", "give each its own name")
        seen.add(name)


@rule(refused='[[alias]]\nname = "m"\nmodel = "M"', accepted='[[alias]]\nname = "fast"\nmodel = "m"')
def alias_is_another_name(values: Values) -> Iterator[Problem]:
    """An alias stands for a model, not for itself or another alias."""
    names = {canonical(entry["name"]) for entry in values["alias"]}
    for path, entry in entries(values, "alias"):
        if canonical(entry["model"]) in names:
            yield Problem((*path, "model"), f"{entry['model']} is an alias itself", "name the model it stands for")


@rule(refused=f'[[alias]]\nname = "x"\nmodel = "m"\n[[failover]]\nname = "a"\nalias = "x"\n{TARGETS}',
      accepted=f'[[alias]]\nname = "y"\nmodel = "m"\n[[failover]]\nname = "a"\nalias = "x"\n{TARGETS}')
def alias_is_no_chain(values: Values) -> Iterator[Problem]:
    """A public name is either an alias or a chain."""
    chains = {chain["alias"].lower() for chain in values["failover"]}
    for path, entry in entries(values, "alias"):
        if entry["name"].lower() in chains:
            yield Problem((*path, "name"), f"a [[failover]] chain has the alias {entry['name']} too",
                          "give each its own name")


@rule(refused='[model_overrides.fast]\nctx = 1\n[[alias]]\nname = "fast"\nmodel = "m"',
      accepted='[model_overrides.m]\nctx = 1\n[[alias]]\nname = "fast"\nmodel = "m"')
def overrides_name_models(values: Values) -> Iterator[Problem]:
    """An alias has no engine of its own, so nothing of one can be set for it."""
    targets = {canonical(entry["name"]): entry["model"] for entry in values["alias"]}
    for path, _ in overrides(values):
        target = targets.get(canonical(str(path[-1])))
        if target is not None:
            yield Problem(path, f"{path[-1]} is an [[alias]], which runs in the engine of {target}",
                          f'write [model_overrides."{target}"]; what its requests shall have goes into `set`')


@rule(refused="[model_overrides.Qwen]\nctx = 1\n[model_overrides.qwen]\nctx = 2",
      accepted='[model_overrides.Qwen]\nctx = 1\n[model_overrides."qwen:q4_0"]\nctx = 2')
def overrides_are_unique(values: Values) -> Iterator[Problem]:
    """Model names differ by more than case."""
    seen: dict[str, str] = {}
    for path, _ in overrides(values):
        written = str(path[-1])
        name = canonical(written)
        if name in seen:
            yield Problem(path, f"it means the same model as [model_overrides.{seen[name]}]", "join the two")
        seen[name] = written


def _choose(name: str, names: list[str]) -> str:
    near = nearest(name, names)
    listed = ", ".join(dict.fromkeys(names)) or "nothing yet"
    return f'did you mean "{near}"? there is {listed}' if near else f"there is {listed}"


NAME_RULES = (mcp_command_or_url, mcp_names_are_unique, mcp_names_are_not_words, mcp_default_exists,
              engine_mcp_file_or_json, failover_aliases_are_unique, failover_names_are_unique, failover_has_targets,
              failover_remotes_exist, failover_is_no_circle, alias_names_are_unique, alias_is_another_name,
              alias_is_no_chain, overrides_name_models, overrides_are_unique)
