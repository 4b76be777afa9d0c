#!/usr/bin/env python3
"""Write the manual page blazar-config(5) from the settings table: `tools/manual.py FILE`.

The page of the command itself, blazar(1), is made by argparse-manpage.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from blazar import __version__  # noqa: E402
from blazar.config.active import ACTIVE  # noqa: E402
from blazar.config.environment import VARIABLES  # noqa: E402
from blazar.config.registry import SECTIONS, SETTINGS  # noqa: E402
from blazar.config.render import literal, schemas  # noqa: E402
from blazar.config.setting import Setting  # noqa: E402

DESCRIPTION = """\
One TOML file holds the settings: the file given by --config, else by BLAZAR_CONFIG, else blazar/config.toml under
$XDG_CONFIG_HOME or ~/.config, else /etc/blazar/config.toml. A value comes from the defaults, the file, the environment
and the command line, each stronger than the one before. A key that has a group may stand in the group's table instead
of the top of the file, but not in both."""


def page(settings: Mapping[str, Setting] = SETTINGS, active: frozenset[str] = ACTIVE) -> str:
    """The page in roff."""
    lines = [f'.TH BLAZAR-CONFIG 5 "" "Blazar {__version__}" "Blazar"', ".nh", ".SH NAME",
             r"blazar\-config \- the settings of Blazar", ".SH SYNOPSIS", ".I /etc/blazar/config.toml", ".br",
             r".I ~/.config/blazar/config.toml", ".SH DESCRIPTION", _text(DESCRIPTION), ".PP",
             _text("`blazar config list` shows what is in force and where it comes from; `blazar config check FILE` "
                   "tells all that is wrong with a file.")]
    for section, title in SECTIONS.items():
        members = {name: one for name, one in settings.items() if one.section == section and name in active}
        if members:
            lines.append(f".SH {_text((title or section).upper())}")
            for name, setting in members.items():
                lines += _entry(name, setting)
    lines.append(".SH FIELDS OF TABLES")
    for path, setting, table in schemas(settings):
        if path.partition("[")[0].partition(".")[0] in active:
            lines += [f".SS {_text(table.what)}", _text(setting.doc)]
            for field in table.fields.values():
                lines += _entry(field.name, field)
    lines += [".SH NOT ACTIVE YET", _text("Known and checked, but nothing is done with them in this version:"), ".PP",
              _text(", ".join(sorted(set(settings) - active)) or "none") + "."]
    lines.append(".SH ENVIRONMENT")
    lines += _environment(settings)
    lines += [".SH SEE ALSO", ".BR blazar (1)"]
    return "\n".join(lines) + "\n"


def _entry(name: str, setting: Setting) -> Iterator[str]:
    default = "unset" if setting.default is None else literal(setting.default)
    notes = ["required" if setting.required else f"default: {default}", f"values: {setting.type.describe()}"]
    if setting.group:
        notes.append(f"group: {setting.group}")
    yield from (".TP", rf"\fB{_text(name)}\fR", _text(setting.doc), ".br", _text("; ".join(notes)))


def _environment(settings: Mapping[str, Setting]) -> Iterator[str]:
    for setting in settings.values():
        for variable in setting.variables:
            yield from (".TP", rf"\fB{_text(variable)}\fR",
                        _text(f"{'adds to' if setting.env_adds else 'sets'} {setting.name}"))
    for one in VARIABLES.values():
        yield from (".TP", rf"\fB{_text(one.name)}\fR", _text(one.doc))


def _text(text: str) -> str:
    """`text` as roff takes it literally; backquotes become bold."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace("^", r"\(ha").replace("~", r"\(ti")
    escaped = re.sub(r"`([^`]*)`", r"\\fB\1\\fR", escaped)
    return "\n".join(rf"\&{line}" if line.startswith((".", "'")) else line for line in escaped.splitlines())


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: tools/manual.py FILE", file=sys.stderr)
        return 2
    Path(arguments[0]).write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
