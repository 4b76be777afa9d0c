#!/usr/bin/env python3
"""Write what completes `blazar` in a shell, from the parser: `tools/completion.py bash|zsh FILE`."""

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from blazar.cli.main import get_parser  # noqa: E402

FOLDERS, FILES = "folders", "files"
METAVARS = {"DIR": FOLDERS, "FILE": FILES, "FOLDER": FOLDERS}
"""What the name of an argument says about it."""


@dataclass(frozen=True)
class Level:
    """What may follow the verbs in `path`: verbs below them, options, and the values that options take."""

    path: tuple[str, ...]
    verbs: dict[str, str]
    options: dict[str, str]
    values: dict[str, str]
    """By option: FILES, FOLDERS, words to choose from, or nothing that is known."""


def levels(parser: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> Iterator[Level]:
    """Each parser of the command line, the outermost first."""
    verbs: dict[str, str] = {}
    options: dict[str, str] = {}
    values: dict[str, str] = {}
    below: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            helps = {name.partition(" ")[0]: text for name, text in helps.items()}
            below = dict(action.choices)
            verbs = {name: helps.get(name, "") for name in below}
        for option in action.option_strings:
            options[option] = _plain(action.help or "")
            if action.nargs != 0:
                values[option] = " ".join(map(str, action.choices)) if action.choices else \
                    METAVARS.get(str(action.metavar), "")
    yield Level(path, verbs, options, values)
    for name, nested in below.items():
        yield from levels(nested, (*path, name))


def bash(found: list[Level]) -> str:
    """A script for bash-completion."""
    lines = ["# bash completion for blazar(1), made from its parser", "_blazar()", "{",
             "    local cur prev path word skip", "    cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}",
             "    path= skip=", '    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
             "        [[ -n $skip ]] && { skip=; continue; }", '        case "$path:$word" in']
    taking = {option for level in found for option in level.values}
    lines += [f"            {'|'.join('*:' + option for option in sorted(taking))}) skip=1 ;;"]
    for level in found[1:]:
        lines.append(f"            '{' '.join(level.path[:-1])}:{level.path[-1]}') path='{' '.join(level.path)}' ;;")
    lines += ["        esac", "    done", '    case "$path:$prev" in']
    for level in found:
        for option, value in level.values.items():
            lines.append(f"        '{' '.join(level.path)}:{option}') {_reply(value)}; return ;;")
    lines += ["    esac", '    case "$path" in']
    for level in found:
        words = " ".join([*level.verbs, *level.options])
        lines.append(f"        '{' '.join(level.path)}') COMPREPLY=($(compgen -W '{words}' -- \"$cur\")) ;;")
    lines += ["    esac", "}", "complete -o default -F _blazar blazar"]
    return "\n".join(lines) + "\n"


def _reply(value: str) -> str:
    if value in (FILES, FOLDERS):
        return f'COMPREPLY=($(compgen -{"f" if value == FILES else "d"} -- "$cur"))'
    return f"COMPREPLY=($(compgen -W '{value}' -- \"$cur\"))"


def zsh(found: list[Level]) -> str:
    """A function for zsh's completion system."""
    lines = ["#compdef blazar", "# made from the parser of blazar(1)", ""]
    for level in found:
        lines += [f"{_function(level.path)}() {{", "  local -a verbs", "  local context state state_descr line",
                  "  typeset -A opt_args", "  _arguments -C -S \\"]
        lines += [f"    '{option}[{_quoted(text)}]{_zsh_value(level.values.get(option))}' \\"
                  for option, text in level.options.items()]
        if not level.verbs:
            lines += ["    '*: :_files'", "}", ""]
            continue
        lines += ["    '1: :->verb' '*:: :->rest'", "  case $state in", "  verb)", "    verbs=("]
        lines += [f"      '{verb}:{_quoted(text)}'" for verb, text in level.verbs.items()]
        lines += ["    )", "    _describe verb verbs ;;", "  rest)", "    case $line[1] in"]
        lines += [f"    {verb}) {_function((*level.path, verb))} ;;" for verb in level.verbs]
        lines += ["    esac ;;", "  esac", "}", ""]
    return "\n".join(lines) + '_blazar "$@"\n'


def _function(path: tuple[str, ...]) -> str:
    return "_".join(["_blazar", *(part.replace("-", "_") for part in path)])


def _zsh_value(value: str | None) -> str:
    if value is None:
        return ""
    action = {FILES: "_files", FOLDERS: "_files -/", "": ""}.get(value, f"({value})")
    return f": :{action}"


def _quoted(text: str) -> str:
    """A help text within brackets and single quotes."""
    return re.sub(r"([\[\]:])", r"\\\1", text.replace("'", "'\\''"))


def _plain(text: str) -> str:
    return " ".join(text.replace("%%", "%").split())


SHELLS = {"bash": bash, "zsh": zsh}


def main(arguments: list[str]) -> int:
    if len(arguments) != 2 or arguments[0] not in SHELLS:
        print("usage: tools/completion.py bash|zsh FILE", file=sys.stderr)
        return 2
    Path(arguments[1]).write_text(SHELLS[arguments[0]](list(levels(get_parser()))), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
