"""`plan`: how a model is loaded on a machine, or why it cannot be. Pure, and the order of all decisions.

The finest grade of the KV cache comes first, on one card, else on as few as will do; then the next rung. What does not
fit even on the last gets less context, where nobody asked for a certain one; then parts go to main memory: experts
first, else whole layers. Slots are added last. So more memory never makes a plan worse.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from blazar.planner import explain
from blazar.planner.demand import ALL_LAYERS, Demand
from blazar.planner.kv import Grade, Window
from blazar.planner.ladder import rungs, spilled
from blazar.planner.machine import Machine
from blazar.planner.place import Load, in_ram, load_of, main_part, on_all, on_both, on_one, on_several
from blazar.planner.plan import THE_CARDS, Part, Plan, Refusal
from blazar.planner.room import MAIN_MEMORY
from blazar.store.shape import Shape

MOST_SLOTS = 4
"""Slots at most, when nobody asked for a number."""
GOOD_CONTEXT, LEAST_CONTEXT = 16384, 2048
"""Tokens: a context that nobody asked for is not made smaller than the first to avoid main memory, nor than the
second to be loaded at all."""
STEP = 256
"""Tokens by which such a context gets smaller."""

Places = tuple[Part, ...]


@dataclass(frozen=True)
class Choice:
    """What was decided so far."""

    window: Window
    grade: Grade
    parts: Places
    moe: int | None = None
    """Layers whose experts go to main memory, where the plan says so."""


@dataclass(frozen=True)
class Task:
    """One planning: the three inputs, and the window before anything was given up."""

    shape: Shape
    demand: Demand
    machine: Machine
    window: Window

    def load(self, grade: Grade, window: Window, moe: int | None = None) -> Load:
        return load_of(self.shape, self.demand, grade, window, moe)

    def whole(self, grade: Grade, window: Window) -> Places | None:
        """Everything in one kind of memory."""
        load, machine = self.load(grade, window), self.machine
        return self._on_cards(load, machine.ram) if machine.pool else in_ram(load, machine.ram)

    def both(self, grade: Grade, window: Window) -> tuple[Places, int | None] | None:
        """A part of it in main memory, and the layers whose experts are."""
        pool = self.machine.pool
        if self.shape.experts and not self.demand.moe_in_ram:
            moe = self._experts(grade, window)
            load = self.load(grade, window, moe)
            found = on_both(load, pool, self.machine.ram)
            return (found, moe) if found else None
        found = on_both(self.load(grade, window), pool, self.machine.ram)
        return (found, None) if found else None

    def _experts(self, grade: Grade, window: Window) -> int:
        """In how few layers the experts have to go for the rest to fit on the cards; in all if that is not enough."""
        low, high = 0, len(self.shape.layers)
        while low < high:
            middle = (low + high) // 2
            load = self.load(grade, window, middle)
            if self._on_cards(load, None):
                high = middle
            else:
                low = middle + 1
        return low

    def _on_cards(self, load: Load, ram: int | None) -> Places | None:
        """All of `load` on as few cards as will do; an engine that has workers spreads it over everything."""
        machine = self.machine
        if machine.workers:
            return on_all(load, machine.pool, ram)
        return on_one(load, machine.cards, ram) or on_several(load, machine.cards, ram)


def plan(shape: Shape, demand: Demand, machine: Machine) -> Plan | Refusal:
    """How `shape` is loaded on `machine` so that the `demand` is met."""
    if machine.silent:
        demand = replace(demand, placed=(*demand.placed, "rpc_servers"))
    trained = int(shape.context * demand.stretch)
    ctx = min(demand.ctx or trained, trained or demand.ctx)
    window = Window(ctx, demand.slots or 1, ctx if shape.embedding and ctx else demand.batch, demand.unified,
                    demand.swa_full, demand.drafted)
    task = Task(shape, demand, machine, window)
    grades = rungs(shape, demand.keys, demand.values)
    if demand.placed:
        choice = _as_placed(task, grades)
    else:
        found = _decide(task, grades)
        if found is None:
            return explain.refusal(shape, demand, machine, _least(task, grades), _largest_context(task, grades))
        choice = found
    return explain.planned(shape, demand, machine, choice.window, choice.grade, choice.parts, choice.moe, window)


def _decide(task: Task, grades: tuple[Grade, ...]) -> Choice | None:
    window, coarsest = task.window, grades[-1]
    for grade in grades:
        parts = task.whole(grade, window)
        if parts:
            return _more_slots(task, Choice(window, grade, parts))
    is_open = not task.demand.ctx and not task.shape.embedding
    if is_open and (smaller := _shrunk(window, GOOD_CONTEXT, lambda one: task.whole(coarsest, one) is not None)):
        parts = task.whole(coarsest, smaller)
        return Choice(smaller, coarsest, parts) if parts else None
    for floor in (GOOD_CONTEXT, LEAST_CONTEXT) if is_open else (window.ctx,):
        found = _spilled(task, grades, replace(window, ctx=min(window.ctx, floor)))
        if found:
            return found
    return None


def _spilled(task: Task, grades: tuple[Grade, ...], window: Window) -> Choice | None:
    if not task.machine.pool:
        parts = task.whole(grades[-1], window)
        return Choice(window, grades[-1], parts) if parts else None
    for grade in dict.fromkeys((spilled(grades), grades[-1])):
        found = task.both(grade, window)
        if found:
            return Choice(window, grade, *found)
    return None


def _more_slots(task: Task, choice: Choice) -> Choice:
    """Slots are added as far as they fit on the cards at the same grade, where nobody asked for a number."""
    asked = task.demand.slots or task.shape.embedding or task.demand.kv_in_ram
    if asked or not choice.window.ctx or choice.parts[0].place == MAIN_MEMORY:
        return choice
    for slots in range(MOST_SLOTS, 1, -1):
        window = replace(choice.window, slots=slots)
        parts = task.whole(choice.grade, window)
        if parts and len(parts) <= len(choice.parts):  # not at the price of another card
            return replace(choice, window=window, parts=parts)
    return choice


def _shrunk(window: Window, floor: int, fits: Callable[[Window], bool]) -> Window | None:
    """The largest context from `floor` up that fits; None when not even that does."""
    if window.ctx <= floor or not fits(replace(window, ctx=floor)):
        return None
    low, high = floor // STEP, window.ctx // STEP
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(replace(window, ctx=middle * STEP)) else (low, middle - 1)
    return replace(window, ctx=low * STEP)


def _as_placed(task: Task, grades: tuple[Grade, ...]) -> Choice:
    """A person has placed it: the grade is chosen for all cards together, and nothing is refused."""
    cards = task.machine.pool
    room = sum(card.budget for card in cards) if cards else task.machine.ram
    for grade in grades:
        load = task.load(grade, task.window)
        needed = load.on_card if cards else load.total
        if room is None or needed <= room:
            break
    if not cards:
        return Choice(task.window, grade, (main_part(load, load.items, room, load.compute, load.beside),))
    weights, cache = sum(item.weights for item in load.items), sum(item.cache for item in load.items)
    on_cards = Part(THE_CARDS, weights, cache, load.compute, load.beside, room, len(load.items))
    return Choice(task.window, grade, (on_cards, main_part(load, (), task.machine.ram)))


def _least(task: Task, grades: tuple[Grade, ...]) -> Load:
    """The smallest of all ways to load it."""
    ctx = min(task.window.ctx, LEAST_CONTEXT) if not task.demand.ctx else task.window.ctx
    return task.load(grades[-1], replace(task.window, ctx=ctx), ALL_LAYERS if task.shape.experts else None)


def _largest_context(task: Task, grades: tuple[Grade, ...]) -> int:
    """The largest context at which the demand could be met; 0 when none is."""
    def fits(window: Window) -> bool:
        return _spilled(task, grades, window) is not None

    found = _shrunk(task.window, STEP, fits)
    return found.ctx if found else 0
