"""`blazar engine lane`: engines for architectures that the main one lacks."""

import argparse
from typing import TYPE_CHECKING, Any

from blazar.cli.command import Command, add_json
from blazar.cli.context import Context

if TYPE_CHECKING:
    from blazar.engines.install.forks import Forks

COLUMNS = ("LANE", "INSTALLED", "ARCHITECTURES", "MAIN ENGINE", "SUMMARY")


class Lane(Command):
    name = "lane"
    help = "List or install engines for architectures that the main one lacks"
    about = ("Works on this machine's data dir. Reads the catalog at capability_registry_url "
             "(BLAZAR_CAPABILITY_REGISTRY) and lists its lanes; with NAME installs that lane beside the other builds, "
             "where it serves its own architectures only. It is removed fork_retire_days after the main engine in use "
             "can do the same.")
    examples = ("blazar engine lane", "blazar engine lane NAME")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("lane", metavar="NAME", nargs="?", help="the lane to install")
        add_json(parser)

    def run(self, args: argparse.Namespace, context: Context) -> int:
        from blazar.engines.install.forks import Forks
        from blazar.engines.install.shelf import Shelf
        forks = Forks(Shelf(context.located.paths))
        self._refresh(forks, context)
        if args.lane:
            return self._install(forks, args.lane, context)
        rows = forks.rows()
        context.out.table(COLUMNS, [_cells(row) for row in rows], [_plain(row) for row in rows])
        return 0

    def _refresh(self, forks: "Forks", context: Context) -> None:
        """Read the catalog; without one, or without an answer, go by what is known and say so."""
        from blazar.errors import CatalogRefused
        url = context.config.capability_registry_url
        if not url:
            context.out.note("no catalog is asked: capability_registry_url is " + ("empty" if url == "" else "unset"))
            return
        try:
            forks.refresh(url)
        except CatalogRefused as error:
            context.out.note(f"{error}; going by what was read before")

    def _install(self, forks: "Forks", name: str, context: Context) -> int:
        from blazar.engines.install.installer import Wishes
        with context.out.progress() as progress:
            build, changed = forks.install(name, Wishes.configured(context.config, context.bucket), progress)
        if context.out.as_json:
            context.out.json({**build.to_dict(), "changed": changed})
        else:
            context.out.line(f"installed {build.tag}" if changed else f"{build.tag} is installed already")
        if changed:
            context.tell_daemon("changed", what="engines")
        return 0


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    later = ", ".join(f"{word} since b{number}" for word, number in sorted(row["superseded"].items()))
    return (row["name"], row["build"].tag if row["build"] else "", ", ".join(row["architectures"]), later,
            row["summary"])


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """The row for JSON."""
    return {**row, "build": row["build"].tag if row["build"] else None}
