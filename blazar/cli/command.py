"""`Command`: the interface of one verb. `cli/main.py` lists them; each stands in a file of its own in `commands/`."""

import argparse
from abc import ABC, abstractmethod
from textwrap import fill
from typing import Any

from blazar.cli.context import Context

HELP_WIDTH = 79


class Command(ABC):
    """One verb.

    `help` is the sentence in the list of verbs; `about` says more, such as whether the verb asks a daemon or works
    on this machine; `examples` are whole command lines, shown under the verb's own help.
    """

    name: str
    help: str
    about: str
    examples: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    words: str = ""
    """The argument that takes any number of words, if there is one: options may stand between them."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:  # noqa: B027 - a verb may take none
        """Add the verb's own arguments to its parser."""

    @abstractmethod
    def run(self, args: argparse.Namespace, context: Context) -> int:
        """Do it and return the exit code; raise a BlazarError for what a person should read."""


class CommandGroup(Command):
    """A verb whose work is done by verbs below it, as `blazar engine list`."""

    subverbs: tuple[Command, ...]

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True, dest="action")
        for verb in self.subverbs:
            add_parser(actions, verb).set_defaults(subverb=verb)

    def run(self, args: argparse.Namespace, context: Context) -> int:
        subverb: Command = args.subverb
        return subverb.run(args, context)


def add_json(parser: argparse.ArgumentParser) -> None:
    """The `--json` of every verb that prints a table."""
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def add_parser(verbs: Any, command: Command, complete: bool = True) -> Any:
    """The parser of one verb, among those of `verbs`; without `complete` it only has a name."""
    parser = verbs.add_parser(command.name, aliases=list(command.aliases), help=command.help,
                              formatter_class=argparse.RawDescriptionHelpFormatter)
    if complete:
        complete_parser(parser, command)
    return parser


def complete_parser(parser: argparse.ArgumentParser, command: Command) -> None:
    """Add what a verb says of itself, and its own arguments."""
    parser.description = "\n\n".join((command.help + ".", fill(command.about, HELP_WIDTH)))
    parser.epilog = "examples:\n" + "\n".join(f"  {line}" for line in command.examples)
    command.arguments(parser)
