"""`blazar fit`: does a model fit, how is it loaded, and what could be changed."""

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from blazar.cli.command import Command, add_json
from blazar.cli.context import Context

if TYPE_CHECKING:
    from blazar.planner.machine import Machine


class Fit(Command):
    name = "fit"
    help = "Tell whether and how a model fits this machine"
    about = ("Works on this machine, as if nothing else were loaded; RPC workers of rpc_servers are asked for their "
             "memory, and a daemon of this data dir is asked who would have to go for it now. MODEL is an installed "
             "model or the path of a GGUF file. Each line ends with the setting that changes it. Exits with 1 when the "
             "model does not fit.")
    examples = ("blazar fit qwen3-8b", "blazar fit ./weights.gguf --ctx 32768 --slots 2",
                "blazar fit qwen3-8b --census other-machine.json --json")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("model", metavar="MODEL", help="an installed model, or the path of a GGUF file")
        parser.add_argument("--ctx", type=_whole, metavar="TOKENS", help="context of each slot; 0 = as much as can be")
        parser.add_argument("--slots", type=_whole, metavar="N", help="requests at the same time; 0 = as many as fit")
        parser.add_argument("--census", metavar="FILE", help="the machine that `blazar doctor --census FILE` saved")
        add_json(parser)

    def run(self, args: argparse.Namespace, context: Context) -> int:
        from blazar.cli.planning import tell_plan
        asked = {name: value for name, value in (("default_ctx", args.ctx), ("slots", args.slots)) if value is not None}
        name, plan, is_installed = _plan(args, context, asked)
        beside = _beside(context, name, asked) if is_installed and args.census is None else {}
        return tell_plan(context.out, {"model": name, "plan": plan, **beside})


def _plan(args: argparse.Namespace, context: Context, asked: dict[str, int]) -> tuple[str, dict[str, Any], bool]:
    """The model's name, its plan, and whether it is an installed one."""
    from pathlib import Path

    from blazar.config.effective import effective
    from blazar.errors import NotGguf
    from blazar.planner.demand import demand_of
    from blazar.planner.installed import plan_installed
    from blazar.planner.planner import plan
    from blazar.store.pairs import pair_of
    path = Path(args.model).expanduser()
    if path.suffix.lower() == ".gguf" or ("/" in args.model and path.is_file()):
        from blazar.store.shape import read_shape
        from blazar.store.splits import neighbours
        settings = {**effective(context.config, path.stem), **asked}
        found = plan(read_shape(neighbours(path)), demand_of(settings), _machine(args, context, settings))
        return path.name, found.to_dict(), False
    model = context.store.get(args.model)
    if model.facts.format != "gguf":
        raise NotGguf(model=model.name, format=model.facts.format)
    settings = {**effective(context.config, model.name, model.preset.settings()), **asked}
    pair = pair_of(model, context.store.every())
    return model.name, plan_installed(model, settings, _machine(args, context, settings), pair).to_dict(), True


def _beside(context: Context, model: str, asked: dict[str, int]) -> dict[str, Any]:
    """What the daemon of this data dir would do for the model now; empty without one."""
    from blazar.cli.client import ask_daemon_of
    told = ask_daemon_of(context.located.paths, "explain", model=model, settings=asked)
    return {key: told["explained"][key] for key in ("loaded", "goes", "refused")} if told else {}


def _machine(args: argparse.Namespace, context: Context, settings: Mapping[str, Any]) -> "Machine":
    """The machine that is meant, with its workers. The cards of this one count only if its engine can use them."""
    from blazar.cli.census import census_of
    from blazar.engines.builds import Builds, uses_cards
    from blazar.engines.routing import find_program
    from blazar.engines.rpc import machine_with, split_addresses, workers_at
    from blazar.errors import LoadFailed
    census = census_of(args.census, context.out)
    workers = workers_at(split_addresses(settings.get("rpc_servers") or ""))
    if args.census is not None:
        return machine_with(census, workers)
    builds = Builds(context.located.paths).every()
    try:
        program = find_program(args.model, context.env.get("BLAZAR_ENGINE_PATH"), context.env, builds)
    except LoadFailed:
        return machine_with(census, workers)
    return machine_with(census, workers, uses_cards(program, builds))


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at most nine digits")
    return int(text)
