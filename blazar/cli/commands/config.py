"""`blazar config`: what is configured, what that means, and whether a file is right."""

import argparse
from typing import Any

from blazar.cli.command import Command, add_json
from blazar.cli.context import Context
from blazar.errors import UsageRefused

COLUMNS = ("KEY", "VALUE", "ORIGIN", "GROUP", "ACTIVE")


class Config(Command):
    name = "config"
    help = "Show and check the configuration"
    about = ("Works on this machine's own configuration and never asks a daemon. Secrets are not shown. A setting "
             "that is not active is known and checked, and this version does nothing with it yet: the list tells "
             "what it waits for.")
    examples = ("blazar config list", "blazar config get default_ctx", "blazar config get semantic_cache.enabled",
                "blazar config defaults > config.toml", "blazar config check ~/.config/blazar/config.toml")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
        listing = _action(actions, "list", "every setting: its value, where that comes from, whether it is active")
        listing.add_argument("--changed", action="store_true", help="only those that differ from their defaults")
        add_json(listing)
        _action(actions, "defaults", "print the defaults as a configuration file")
        one = _action(actions, "get", "print the value of one setting, as TOML writes it")
        one.add_argument("key", metavar="KEY", help="a setting, or a field of a table such as semantic_cache.enabled")
        add_json(one)
        check = _action(actions, "check", "read a configuration file and tell what is wrong with it")
        check.add_argument("file", metavar="FILE", nargs="?", help="the file to check (otherwise the one in use)")

    def run(self, args: argparse.Namespace, context: Context) -> int:
        action = {"list": self._list, "defaults": self._defaults, "get": self._get, "check": self._check}
        return action[args.action](args, context)

    def _list(self, args: argparse.Namespace, context: Context) -> int:
        from blazar.config.active import ACTIVE
        from blazar.config.registry import SETTINGS
        from blazar.config.waiting import waiting, waits_for
        config = context.config
        names = [name for name in SETTINGS if not args.changed or config.origin(name) != "default"]
        waits = {path: waits_for(path) for path, _ in waiting(ACTIVE)}
        entries = [{"key": name, "value": config.redacted(name), "origin": config.origin(name),
                    "active": name in ACTIVE, "waits_for": waits.get(name), "group": SETTINGS[name].group}
                   for name in names]
        rows = [[entry["key"], _shown(entry["value"]), entry["origin"], entry["group"] or "",
                 _activity(entry["waits_for"])] for entry in entries]
        for path in (path for path in waits if path not in SETTINGS and not args.changed):
            rows.append([path, "", "", "", _activity(waits[path])])
            entries.append({"key": path, "value": None, "origin": None, "active": False, "waits_for": waits[path],
                            "group": None})
        context.out.table(COLUMNS, rows, entries)
        return 0

    def _defaults(self, args: argparse.Namespace, context: Context) -> int:
        from blazar.config.render import defaults
        context.out.text(defaults())
        return 0

    def _get(self, args: argparse.Namespace, context: Context) -> int:
        value = _find(context.config, args.key)
        if args.json:
            context.out.json(value)
        else:
            context.out.line(_shown(value))
        return 0

    def _check(self, args: argparse.Namespace, context: Context) -> int:
        from pathlib import Path

        from blazar.config.load import load
        file = Path(args.file).expanduser() if args.file else context.located.config_file
        checked = load(file, context.env, must_exist=args.file is not None)
        for warning in checked.warnings:
            context.out.note(warning)
        if file.exists():
            context.out.line(f"{file} is right")
        else:
            context.out.line(f"there is no {file}: the defaults are in force")
        return 0


def _action(actions: Any, name: str, sentence: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(
        name, help=sentence, description=f"{sentence[0].upper()}{sentence[1:]}.")
    return parser


def _activity(waits: str | None) -> str:
    return "yes" if waits is None else f"not yet: waits for {waits}"


def _find(config: Any, key: str) -> Any:
    """The value of `port` or `semantic_cache.enabled`, without secrets; names within may hold dots."""
    from blazar.config.refusal import nearest
    from blazar.config.registry import SETTINGS
    name, _, rest = key.partition(".")
    if name not in SETTINGS:
        near = nearest(name, SETTINGS)
        raise UsageRefused(f"there is no setting {name}; "
                           + (f"did you mean {near}?" if near else "`blazar config list` shows all"))
    value = config.redacted(name)
    while rest:
        names = value if isinstance(value, dict) else {}
        field = max((one for one in names if f"{rest}.".startswith(f"{one}.")), key=len, default=None)
        if field is None:
            raise UsageRefused(f"there is no {key}; `blazar config get {name}` shows what {name} holds")
        value, rest = value[field], rest[len(field) + 1:]
    return value


def _shown(value: Any) -> str:
    from blazar.config.render import literal
    return "(unset)" if value is None else literal(value)
