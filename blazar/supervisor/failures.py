"""Why a load failed, in words that say what was started, what it was to take, and what to do about it."""

import re
import shlex
from collections.abc import Iterable

from blazar.engines.lane import Command, Launch
from blazar.errors import ArchitectureUnknown, LoadFailed
from blazar.planner.plan import Part, Plan
from blazar.supervisor.health import quote_output
from blazar.supervisor.spawn import LAST_LINES, Process
from blazar.units import format_bytes

UNKNOWN = re.compile(r"unknown model architecture: '([^']{1,64})'")
"""How llama.cpp says that it is too old, or never learnt to read this."""
PORT_TROUBLE = re.compile(r"address already in use|(couldn't|could not|cannot|failed to) bind|invalid .*\bport\b", re.I)
LONGEST_COMMAND = 2000
"""Characters of a command that are told."""
LEVERS = (
    # what an engine's last words, or its end, look like; what to do then
    (r"lora adapter", "mend `loras` in its [model_overrides]: an adapter has to be made for this very model"),
    (r"chat template", "mend chat_template, chat_template_file or chat_template_kwargs"),
    (r"cache type \S+ with block size|quantized v cache|v cache quantization", "leave cache_type empty, or set f16"),
    (r"out of memory|(failed|unable) to allocate|cannot allocate|bad_alloc|OutOfDeviceMemory|ended by SIGKILL",
     "it wants less memory with a smaller ctx, fewer slots, cache_type = \"q8_0\" or a smaller build of the model; "
     "`blazar stop` unloads others"),
    (r"(invalid|unknown) argument|unrecognized arguments|error while handling argument|error: argument ",
     "mend the setting, or the flag in extra_args, that is named above"),
    (r"invalid magic|gguf_init|corrupt|file bounds", "its file may be damaged: `blazar pull` gets it anew"),
)
"""The first that is found counts."""
NO_LEVER = "`blazar explain {model}` tells where each of its flags comes from, `blazar engine use` takes another engine"


def load_failure(launch: Launch, command: Command, fork: str | None, process: Process,
                 found: LoadFailed | None = None) -> LoadFailed:
    """The error for a child that never got ready. `found` is what was wrong with it while it ran, None when it ended by
    itself; `fork` is a lane that could serve the model, None = none."""
    last = "\n".join(process.last_lines(LAST_LINES))
    unknown = UNKNOWN.search(last) if found is None else None
    if unknown:
        remedy = (f"`blazar engine lane {fork}` installs an engine that does" if fork else
                  "`blazar engine update` may bring one that does, and `blazar engine lane` lists engines for single "
                  "architectures")
        return ArchitectureUnknown(model=launch.model, architecture=unknown[1], remedy=remedy)
    failure = found or LoadFailed(model=launch.model, reason=process.describe_exit(), output=quote_output(process))
    lines = [failure.message, f"it was started as: {_told(command)}"]
    if launch.plan is not None:
        lines.append(f"it was to take: {_arithmetic(launch.plan)}")
    lever = "" if found else _lever(f"{last}\n{process.describe_exit()}", launch.model)
    return type(failure)("\n".join([*lines, *([f"what may help: {lever}"] if lever else [])]))


def _told(command: Command) -> str:
    words = shlex.join(command.argv)
    return words if len(words) <= LONGEST_COMMAND else f"{words[:LONGEST_COMMAND]}…"


def _arithmetic(plan: Plan) -> str:
    parts = "; ".join(_part(part) for part in plan.parts if part.total)
    return f"{parts} (context {plan.ctx or 'as trained'}, slots {plan.slots}, cache {plan.grade})"


def _part(part: Part) -> str:
    sizes = [(part.weights, "weights"), (part.cache, "kv cache"), (part.compute, "compute"), (part.beside, "beside it")]
    budget = "" if part.budget is None else f" of {format_bytes(part.budget)}"
    return (f"{format_bytes(part.total)}{budget} in {part.place}: "
            + " + ".join(f"{format_bytes(size)} {what}" for size, what in sizes if size))


def _lever(text: str, model: str) -> str:
    found = next((lever for pattern, lever in LEVERS if re.search(pattern, text, re.IGNORECASE)), NO_LEVER)
    return found.format(model=model)


def port_was_the_trouble(lines: Iterable[str]) -> bool:
    """Whether an engine's last words are about its port, so that it may be started again with another one."""
    return any(PORT_TROUBLE.search(line) for line in lines)
