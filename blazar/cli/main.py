"""The entry of `blazar`: the parser, made from the list of verbs, and the one place where an error becomes text."""

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from blazar import __version__
from blazar.cli.command import Command, add_parser, complete_parser
from blazar.cli.commands.bench import Bench
from blazar.cli.commands.config import Config
from blazar.cli.commands.cp import Cp
from blazar.cli.commands.create import Create
from blazar.cli.commands.doctor import Doctor
from blazar.cli.commands.engine import Engine
from blazar.cli.commands.events import Events
from blazar.cli.commands.explain import Explain
from blazar.cli.commands.fit import Fit
from blazar.cli.commands.keys import Keys
from blazar.cli.commands.list import List
from blazar.cli.commands.logs import Logs
from blazar.cli.commands.ps import Ps
from blazar.cli.commands.pull import Pull
from blazar.cli.commands.quantize import Quantize
from blazar.cli.commands.reload import Reload
from blazar.cli.commands.requests import Requests
from blazar.cli.commands.rm import Rm
from blazar.cli.commands.rpc import Rpc
from blazar.cli.commands.run import Run
from blazar.cli.commands.serve import Serve
from blazar.cli.commands.service import Service
from blazar.cli.commands.show import Show
from blazar.cli.commands.stop import Stop
from blazar.cli.commands.upgrade import Upgrade
from blazar.cli.commands.watch import Watch
from blazar.cli.context import Context
from blazar.cli.output import Output
from blazar.errors import BlazarError

VERBS: tuple[Command, ...] = (Serve(), Reload(), Service(), Pull(), Create(), List(), Show(), Ps(), Requests(), Logs(),
                              Events(), Watch(), Run(), Stop(), Cp(), Rm(), Quantize(), Fit(), Explain(), Bench(),
                              Engine(), Rpc(), Keys(), Config(), Doctor(), Upgrade())

FEW = 3
"""So many words are rather all named than one of them guessed: who writes gpu does not mean cpu."""

EPILOG = """examples:
  blazar serve
  blazar pull smollm2-135m
  blazar run smollm2-135m "Hello"
  blazar doctor

`blazar VERB --help` shows a verb's options and examples. Exit codes: 0 done,
1 refused or failed, 2 bad usage or configuration, 3 address taken or already
running, 4 no daemon answers."""

INTERRUPTED = 130
BROKEN_PIPE = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    _open_standard_streams()
    try:
        try:
            return _run(argv)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader left. Python flushes stdout once more at its end, which must not complain either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BlazarError as error:
        print(f"blazar: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"blazar: the system refused: {error}", file=sys.stderr)
        return BlazarError.exit_code


def _open_standard_streams() -> None:
    """Stand in for those that were closed, lest the next file opened become one; no text is too odd to pass."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    sys.stdin = sys.stdin or os.fdopen(0)
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _run(argv: Sequence[str] | None) -> int:
    args = parse(argv)
    if args.command is None:
        _parser().print_help()
        return 0
    context = Context(args, os.environ, Output(getattr(args, "json", False)))
    return args.command.run(args, context)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read a command line. argparse leaves over the words after an option, as in `run MODEL --seed 1 Hello`."""
    parser = _parser()
    args, left_over = parser.parse_known_args(argv)
    words = args.command.words if args.command else ""
    if left_over and (not words or any(word.startswith("-") for word in left_over)):
        called = [verb.name for verb in (args.command, getattr(args, "subverb", None)) if verb]
        parser.error(f"unrecognized arguments: {' '.join(left_over)}; `{' '.join(['blazar', *called])} --help` shows "
                     f"what it takes")
    if left_over:
        setattr(args, words, [*getattr(args, words), *left_over])
    return args


class _Parser(argparse.ArgumentParser):
    """argparse's, which says of a word that it does not know what was probably meant."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        from blazar.config.refusal import nearest
        if action.choices is not None and value not in action.choices:
            names = [str(choice) for choice in action.choices]
            near = nearest(str(value), names) if len(names) > FEW else None
            raise argparse.ArgumentError(action, f"there is no {value!r}; " + (
                f"did you mean {near}?" if near else f"there is {', '.join(names)}"))


class _VerbParser(_Parser):
    """A verb's parser, whose arguments are added when they are first wanted: a call wants those of one verb at most."""

    later: Callable[[], None] | None = None
    """Adds them."""

    def complete(self) -> None:
        later, self.later = self.later, None
        if later is not None:
            later()

    def parse_known_args(self, *args: Any, **options: Any) -> Any:
        self.complete()
        return super().parse_known_args(*args, **options)

    def format_help(self) -> str:
        self.complete()
        return super().format_help()


def get_parser() -> argparse.ArgumentParser:
    """The whole command line; argparse-manpage makes the man page from it."""
    parser = _parser()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for verb in action.choices.values():
                verb.complete()
    return parser


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="blazar", description="One daemon that turns a Linux box into a private AI server.", epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action="version", version=f"blazar {__version__}")
    _add_places(parser, default=None)
    parser.set_defaults(command=None)
    verbs: Any = parser.add_subparsers(title="verbs", metavar="VERB", parser_class=_VerbParser)
    for command in VERBS:
        _add_verb(verbs, command)
    return parser


def _add_verb(verbs: Any, command: Command) -> None:
    parser = add_parser(verbs, command, complete=False)
    parser.set_defaults(command=command)

    def complete() -> None:
        complete_parser(parser, command)
        _add_places(parser, default=argparse.SUPPRESS)
    parser.later = complete


def _add_places(parser: argparse.ArgumentParser, default: object) -> None:
    """The options that may stand anywhere on the line; SUPPRESS keeps a later place from undoing an earlier one."""
    parser.add_argument("--config", metavar="FILE", default=default,
                        help="configuration file (otherwise BLAZAR_CONFIG, then the usual places)")
    parser.add_argument("--data-dir", metavar="DIR", default=default,
                        help="data dir (otherwise blazar/ under XDG_DATA_HOME or ~/.local/share)")
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for nested in dict.fromkeys(action.choices.values()):  # an alias names the same one again
                _add_places(nested, default=argparse.SUPPRESS)


if __name__ == "__main__":
    raise SystemExit(main())
