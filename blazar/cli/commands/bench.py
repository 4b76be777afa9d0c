"""`blazar bench`: how fast a model reads and writes here."""

import argparse
from typing import TYPE_CHECKING, Any

from blazar.cli.command import Command, add_json
from blazar.cli.context import Context

if TYPE_CHECKING:
    from blazar.engines.bench import Figure, Wanted
    from blazar.engines.program import Program
    from blazar.store.installed import Installed

COLUMNS = ("TASK", "TOKENS", "TOKENS/S", "+-", "RUNS", "ENGINE", "METHOD", "MEASURED")


class Bench(Command):
    name = "bench"
    help = "Measure how fast a model reads and writes here"
    about = ("Works on this machine, beside a daemon or without one: a busy machine gives lower figures. It runs the "
             "llama-bench of the engine build, or its server when it has no llama-bench, and keeps the figures in the "
             "data dir.")
    examples = ("blazar bench smollm2-135m", "blazar bench qwen3-8b --prompt 2048 --generate 256 --json",
                "blazar bench qwen3-8b --build b11434-cpu", "blazar bench qwen3-8b --history")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("model", metavar="MODEL", help="an installed model")
        parser.add_argument("--prompt", metavar="N", type=int, default=512, help="tokens to read, 0 = none (512)")
        parser.add_argument("--generate", metavar="N", type=int, default=128, help="tokens to write, 0 = none (128)")
        parser.add_argument("--runs", metavar="N", type=int, default=3, help="how often each is measured (3)")
        parser.add_argument("--build", metavar="TAG", help="the engine build (otherwise the one that serves the "
                                                                  "model)")
        parser.add_argument("--history", action="store_true", help="measure nothing, show the figures kept")
        add_json(parser)

    def run(self, args: argparse.Namespace, context: Context) -> int:
        from blazar.engines.bench import Wanted
        from blazar.models.measurement import Measurement
        from blazar.units import timestamp
        model = context.store.get(args.model)
        if not args.history:
            wanted = Wanted(args.prompt, args.generate, args.runs)
            wanted.check(model)
            rows = [figure.row(model, timestamp()) for figure in self._figures(args, context, model, wanted)]
            Measurement.add(rows)
        else:
            rows = Measurement.of(model.digest, "bench")
        context.out.table(COLUMNS, [_cells(row) for row in rows], [_plain(row) for row in rows])
        return 0

    def _figures(self, args: argparse.Namespace, context: Context, model: "Installed",
                 wanted: "Wanted") -> "list[Figure]":
        from blazar.engines import bench
        from blazar.engines.tools import tool_beside
        program = self._program(args, context, model)
        tool = tool_beside(program, bench.TOOL)
        if tool is None:
            extra = {str(name): str(value) for name, value in (context.config.engine_env or {}).items()}
            context.out.note(f"there is no {bench.TOOL}; asking the server of {program.source}")
            return bench.by_server(program, program.tag or program.source, model, wanted, extra)
        context.out.note(f"running {tool.path}")
        return bench.by_tool(tool, model, wanted, context.env)

    def _program(self, args: argparse.Namespace, context: Context, model: "Installed") -> "Program":
        """The build that was named, else what would serve the model if nothing had been measured."""
        from blazar.config.effective import overlay
        from blazar.engines.builds import Builds
        from blazar.engines.routing import Routing, find_program
        builds = Builds(context.located.paths)
        if args.build:
            return builds.find(args.build).program
        routing = Routing(overlay(context.config, model.name).get("engine"), context.config.engine_routing["mode"])
        return find_program(model.name, context.env.get("BLAZAR_ENGINE_PATH"), context.env, builds.every(), routing)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (row["task"], str(row["tokens"]), f"{row['rate']:.1f}", f"{row['deviation']:.1f}", str(row["runs"]),
            row["engine"], row["method"], row["measured_at"][:16].replace("T", " "))


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """The row for JSON."""
    import json
    return {**{name: value for name, value in row.items() if name != "id"}, "conditions": json.loads(row["conditions"])}
