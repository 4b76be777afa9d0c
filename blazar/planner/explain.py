"""The choice in words and as settings: every line with its number, its reason, and the setting that changes it."""

from types import MappingProxyType
from typing import Any

from blazar.planner.demand import Demand
from blazar.planner.kv import Grade, Window, token_bytes
from blazar.planner.ladder import FINEST
from blazar.planner.machine import SHARE, Machine
from blazar.planner.place import Load
from blazar.planner.plan import THE_CARDS, Line, Part, Plan, Refusal
from blazar.planner.program import checkpoint_bytes
from blazar.planner.room import MAIN_MEMORY
from blazar.store.shape import Shape
from blazar.units import format_bytes

CACHE_SHARE = 0.3
"""Of main memory, what a child's prompt cache may take."""
MIB = 1 << 20


def planned(shape: Shape, demand: Demand, machine: Machine, window: Window, grade: Grade, parts: tuple[Part, ...],
            moe: int | None, asked: Window) -> Plan:
    """The plan of a choice; `asked` is the window before anything was given up."""
    on_cards = [part for part in parts if part.place not in (MAIN_MEMORY, THE_CARDS)]
    split, env = _pinned(machine, on_cards)
    settings: dict[str, Any] = {"slots": window.slots}
    if window.ctx:
        settings["default_ctx"] = window.ctx
    if not (demand.keys or demand.values) and grade != FINEST:
        settings |= {"cache_type_k": grade.keys, "cache_type_v": grade.values}
    if moe:
        settings["cpu_moe_n"] = moe
    if split:
        settings["tensor_split"] = split
    cap = cache_cap(demand, machine)
    if cap is not None:
        settings["cache_ram_mb"] = cap
    count = len(shape.layers) + 1
    placed = sum(part.layers for part in on_cards)
    spilled = bool(machine.pool) and not demand.placed and placed < count
    whole = not (spilled or moe)
    spare = shape.rearranged if machine.rearranges and demand.rearranged and not machine.pool else 0
    lines = [*_model_lines(shape, demand, window, grade, parts, asked, whole), *_spare_lines(spare),
             *_place_lines(parts, count, machine, env), *_worker_lines(machine),
             *_memory_lines(demand, machine, moe, cap)]
    return Plan(window.ctx, window.slots, grade, parts, placed if spilled else None, MappingProxyType(env),
                MappingProxyType(settings), tuple(lines),
                _warnings(shape, demand, machine, window, grade, parts, moe, asked), spare)


def refusal(shape: Shape, demand: Demand, machine: Machine, least: Load, largest: int) -> Refusal:
    """`least` is the smallest way to load the model; `largest` the context that would fit, 0 when none would."""
    cards = sum(card.budget for card in machine.pool)
    limit, where = (machine.ram or 0) + cards, f"{SHARE:.0%} of this machine's memory"
    if cards:
        where = f"{SHARE:.0%} of {_cards_of(machine)} and main memory together"
    needed = least.total + least.compute * len(machine.pool)
    if needed <= limit:
        where += ", in pieces that its layers do not fill"
    levers = [f"start the RPC worker {address}, which does not answer" for address, _ in machine.gone]
    if largest:
        levers.append(f"set a smaller ctx: {largest} would fit")
    if demand.slots > 1:
        levers.append("set fewer slots")
    if demand.keys or demand.values:
        levers.append("leave cache_type empty, or set q4_0")
    smaller = "take a smaller build of the model" + ("" if cards else ", or a machine with more memory or a card")
    levers.append(smaller)
    lines = (Line("weights", format_bytes(shape.weights), f"{len(shape.layers)} layers"),
             Line("kv cache", format_bytes(sum(item.cache for item in least.items) + least.kept.cache),
                  "at the least that was tried", "ctx, slots, cache_type"),
             Line("compute", format_bytes(least.compute), "on each device", "ubatch_size"),
             *([Line("beside it", format_bytes(least.beside), "projector and draft")] if least.beside else []),
             Line("program", format_bytes(least.program), "the engine itself, and its checkpoints", "ctx_checkpoints"),
             *_worker_lines(machine),
             Line("needed", format_bytes(needed)), Line("to be had", format_bytes(limit), where))
    return Refusal(needed, limit, where, tuple(levers), lines)


def cache_cap(demand: Demand, machine: Machine) -> int | None:
    """MiB of the prompt cache where what was asked for is more than its share of main memory."""
    if machine.main is None:
        return None
    cap = int(machine.main * CACHE_SHARE) // MIB
    return cap if demand.cache_ram > cap else None


def _pinned(machine: Machine, parts: list[Part]) -> tuple[str, dict[str, str]]:
    """How a model over several cards is split and which it sees; nothing on any doubt, and none needed for one card
    of one."""
    known = {card.key: card.index for card in machine.cards if card.index is not None}
    numbers = [known[part.memory] for part in parts if part.memory in known]
    if machine.doubt or machine.workers or len(machine.cards) < 2 or not parts or len(numbers) != len(parts):
        return "", {}
    return (",".join(str(part.layers) for part in parts) if len(parts) > 1 else "",
            {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(map(str, numbers))})


def _model_lines(shape: Shape, demand: Demand, window: Window, grade: Grade, parts: tuple[Part, ...],
                 asked: Window, whole: bool) -> list[Line]:
    """`whole` says whether the cards, or main memory, hold all of it."""
    lines = [Line("weights", format_bytes(shape.weights), f"{len(shape.layers)} layers, what stands before them "
                  f"({format_bytes(shape.entry)}) in main memory")]
    reason = f"at most what it was trained with, {shape.context}" if shape.context else "its file does not say more"
    if demand.stretch > 1:
        reason = f"trained with {shape.context}, stretched by {demand.stretch:g}"
    if window.ctx < asked.ctx:
        reason = f"as much as fits, of {asked.ctx}"
    lines.append(Line("context", f"{window.ctx or 'unknown'} tokens a slot", reason, "default_ctx, ctx"))
    slots = "as asked for" if demand.slots else "one, where nothing more is certain to pay"
    if not demand.slots and window.slots > 1:
        slots = "as many as fit, up to four"
    lines.append(Line("slots", str(window.slots), slots, "slots, deterministic"))
    cache = sum(part.cache for part in parts)
    each = token_bytes(shape, grade)
    graded = "the finest that fits" if whole else "since the cards do not hold all of the model"
    graded = "set by hand" if demand.keys or demand.values else graded
    windows = sum(1 for layer in shape.layers if layer.window)
    more = f"; {windows} layers keep a window only" if windows and not window.whole else ""
    states = sum(1 for layer in shape.layers if layer.state)
    more += f"; {states} layers keep a state of fixed size" if states else ""
    lines.append(Line("kv cache", f"{format_bytes(cache)} as {grade}",
                      f"{graded}; {format_bytes(each)} a token{more}", "cache_type, cache_type_k, cache_type_v"))
    lines.append(Line("compute", format_bytes(max(part.compute for part in parts)),
                      f"{window.batch} tokens in one pass, on each device", "ubatch_size"))
    beside = sum(part.beside for part in parts)
    if beside:
        lines.append(Line("beside it", format_bytes(beside), "projector, adapters and draft model", "mmproj, spec"))
    checkpoint, reason = checkpoint_bytes(shape, grade, window), "the engine itself and its vocabulary"
    if checkpoint:
        reason += f", checkpoints of {format_bytes(checkpoint)}, more of them as texts get long"
    lines.append(Line("program", format_bytes(parts[-1].program), reason, "ctx_checkpoints" if checkpoint else ""))
    return lines


def _place_lines(parts: tuple[Part, ...], count: int, machine: Machine, env: dict[str, str]) -> list[Line]:
    lines = []
    for part in parts:
        if not part.layers and part.place != MAIN_MEMORY:
            continue
        budget = "" if part.budget is None else f" of {format_bytes(part.budget)}"
        share = f"{part.layers} of {count} layers" if part.layers else "what no card needs"
        setting = "cpu_moe_n, tensor_preset" if part.place == MAIN_MEMORY else "tensor_split, devices"
        lines.append(Line(part.place, f"{format_bytes(part.total)}{budget}", share, setting))
    if sum(part.place != MAIN_MEMORY and part.layers > 0 for part in parts) > 1:
        told = ", ".join(f"{name}={value}" for name, value in env.items())
        lines.append(Line("cards", told or "as the engine sees them",
                          "numbered in the order of the bus" if env else machine.doubt or "workers come first",
                          "tensor_split, devices"))
    return lines


def _spare_lines(spare: int) -> list[Line]:
    reason = "weights rearranged for the processor; those of the file are given back when room is needed"
    return [Line("kept twice", format_bytes(spare), reason, "repack, load_mode")] if spare else []


def _worker_lines(machine: Machine) -> list[Line]:
    """What each worker gives."""
    lines = [Line(f"worker {card.name}", f"{format_bytes(card.budget)} of {format_bytes(card.memory)}",
                  f"{SHARE:.0%} of it" if card.budget == int(card.memory * SHARE) else "what is free of it",
                  "rpc_servers") for card in machine.workers]
    lines += [Line(f"worker {address}", "unknown", "it serves another client", "rpc_servers")
              for address in machine.silent]
    return [*lines, *(Line(f"worker {address}", "nothing", f"it does not answer: {problem}", "rpc_servers")
                      for address, problem in machine.gone)]


def _memory_lines(demand: Demand, machine: Machine, moe: int | None, cap: int | None) -> list[Line]:
    lines = []
    if moe:
        lines.append(Line("experts", f"of {moe} layers in main memory", "the rest fits on the cards so",
                          "cpu_moe_n, tensor_preset"))
    if cap is not None and machine.main is not None:
        lines.append(Line("prompt cache", f"at most {cap} MiB", f"{CACHE_SHARE:.0%} of {format_bytes(machine.main)}",
                          "cache_ram_mb"))
    elif demand.cache_ram:
        lines.append(Line("prompt cache", "without a limit" if demand.cache_ram < 0 else
                          f"at most {demand.cache_ram} MiB", "grows as prompts come", "cache_ram_mb"))
    return lines


def _warnings(shape: Shape, demand: Demand, machine: Machine, window: Window, grade: Grade, parts: tuple[Part, ...],
              moe: int | None, asked: Window) -> tuple[str, ...]:
    count = len(shape.layers) + 1
    found = [f"the RPC worker {address} does not answer ({problem}): the plan is without it, and a load is refused "
             f"until it does" for address, problem in machine.gone]
    found += [f"the RPC worker {address} serves another client, so its memory is not known" for address
              in machine.silent]
    main = next((part for part in parts if part.place == MAIN_MEMORY), None)
    if demand.placed:
        found.append(f"{', '.join(demand.placed)} says where the model goes, so nothing is planned there")
        over = [part for part in parts if part.budget is not None and part.total > part.budget]
        found += [f"{part.place} may be too small: {format_bytes(part.total)} of {format_bytes(part.budget or 0)}"
                  for part in over]
    elif machine.pool and main is not None and main.layers:
        found.append(f"{main.layers} of {count} layers go to main memory, since {_cards_of(machine)} are too small: "
                     f"answers will be slow; a smaller ctx or build may fit")
    if shape.is_latent and grade.keys != grade.values:
        found.append("keys and values of this model lie in one row: cache_type_k and cache_type_v have to be the same")
    if moe:
        found.append(f"the experts of {moe} layers go to main memory, since {_cards_of(machine)} are too small for all")
    if window.ctx < asked.ctx:
        found.append(f"the context is {window.ctx} tokens, less than the {asked.ctx} that the model was trained with")
    return tuple(found)


def _cards_of(machine: Machine) -> str:
    return " and ".join(["the workers"] * bool(machine.workers) + ["the cards"] * bool(machine.cards))
