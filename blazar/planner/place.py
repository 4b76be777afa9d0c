"""Where the parts of a model go: one card, several in a row, or cards and main memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from blazar.planner.compute import compute_bytes
from blazar.planner.demand import Demand
from blazar.planner.kv import Grade, Window, kv_bytes, layer_bytes
from blazar.planner.machine import Card
from blazar.planner.plan import Part
from blazar.planner.program import program_bytes
from blazar.planner.room import MAIN_MEMORY
from blazar.store.shape import Shape


@dataclass(frozen=True)
class Item:
    """What goes to one card as a whole: a layer, or the head behind them."""

    weights: int
    cache: int

    @property
    def total(self) -> int:
        return self.weights + self.cache


@dataclass(frozen=True)
class Load:
    """The bytes of one way to load a model: with this grade, this window, and these parts kept in main memory."""

    items: tuple[Item, ...]
    """Layers in their order, the head last."""
    entry: int
    """Weights that stay in main memory whatever happens."""
    copied: int
    """Bytes of the head that lie in the entry too, and need no second copy in main memory."""
    kept: Item
    """What was kept in main memory of the items: experts, feed-forward parts, or all of the cache."""
    compute: int
    beside: int
    program: int
    """What the engine takes of main memory for itself."""

    @property
    def total(self) -> int:
        """All in main memory."""
        return self.in_ram + self.on_card - self.copied

    @property
    def on_card(self) -> int:
        """All that a card takes when one has everything."""
        return sum(item.total for item in self.items) + self.compute + self.beside

    @property
    def in_ram(self) -> int:
        """What main memory holds besides, then."""
        return self.entry + self.kept.total + self.program


def load_of(shape: Shape, demand: Demand, grade: Grade, window: Window, moe: int | None = None) -> Load:
    """`moe` layers keep their experts in main memory; None = as the demand says."""
    moe = demand.moe_in_ram if moe is None else moe
    items, kept_weights, kept_cache = [], 0, 0
    for number, layer in enumerate(shape.layers):
        kept = (layer.experts if number < moe else 0) + (layer.dense if number < demand.dense_in_ram else 0)
        cache = layer_bytes(layer, grade, window)
        items.append(Item(layer.weights - kept, 0 if demand.kv_in_ram else cache))
        kept_weights += kept
        kept_cache += cache if demand.kv_in_ram else 0
    items.append(Item(shape.head + shape.tied, 0))
    beside = demand.projector + (draft_bytes(demand.draft, grade, window) if demand.draft else 0)
    return Load(tuple(items), shape.entry, shape.tied, Item(kept_weights, kept_cache), compute_bytes(shape, window),
                beside, program_bytes(shape, grade, window, demand.checkpoints))


def draft_bytes(draft: Shape, grade: Grade, window: Window) -> int:
    """A small model that drafts for the large one lies whole beside it."""
    return draft.weights + draft.tied + kv_bytes(draft, grade, window) + compute_bytes(draft, window)


def in_ram(load: Load, budget: int | None) -> tuple[Part, ...] | None:
    """Everything in main memory; None when it does not fit."""
    if budget is not None and load.total > budget:
        return None
    return (main_part(load, load.items, budget, load.compute, load.beside),)


def on_one(load: Load, cards: Sequence[Card], ram: int | None) -> tuple[Part, ...] | None:
    """Everything on the card with most room; None when it does not fit."""
    best = max(cards, key=lambda card: card.budget, default=None)
    if best is None or load.on_card > best.budget or (ram is not None and load.in_ram > ram):
        return None
    return (_part(best, load.items, load.compute, load.beside), main_part(load, (), ram))


def on_several(load: Load, cards: Sequence[Card], ram: int | None) -> tuple[Part, ...] | None:
    """Everything on the first cards, as few as will do, each with layers that follow each other."""
    found = (on_all(load, cards[:count], ram) for count in range(2, len(cards) + 1))
    return next((parts for parts in found if parts is not None), None)


def on_all(load: Load, cards: Sequence[Card], ram: int | None) -> tuple[Part, ...] | None:
    """Everything on these cards, none left out that is large enough to compute on."""
    if ram is not None and load.in_ram > ram:
        return None
    spread = _spread(load, load.items, cards)
    return None if spread is None else (*spread, main_part(load, (), ram))


def on_both(load: Load, cards: Sequence[Card], ram: int | None) -> tuple[Part, ...] | None:
    """The last layers on the cards, as many as fit, the others in main memory; None when that has no room for them."""
    count = len(load.items)
    low, high = 0, count  # the largest number of items that fits, found by halving
    best: tuple[Part, ...] = ()
    while low < high:
        middle = (low + high + 1) // 2
        spread = _spread(load, load.items[count - middle:], cards)
        if spread is None:
            high = middle - 1
        else:
            low, best = middle, spread
    rest = load.items[:count - low]
    main = main_part(load, rest, ram, load.compute if rest else 0, 0 if low else load.beside)
    return None if ram is not None and main.total > ram else (*best, main)


def main_part(load: Load, items: Sequence[Item], budget: int | None, compute: int = 0, beside: int = 0) -> Part:
    """What lies in main memory when these `items` do."""
    shared = load.copied if items and items[-1] is load.items[-1] else 0
    return Part(MAIN_MEMORY, load.entry + load.kept.weights + sum(item.weights for item in items) - shared,
                load.kept.cache + sum(item.cache for item in items), compute, beside, budget, len(items),
                program=load.program)


def _part(card: Card, items: Sequence[Item], compute: int, beside: int) -> Part:
    return Part(card.name, sum(item.weights for item in items), sum(item.cache for item in items), compute, beside,
                card.budget, len(items), card.key)


def _spread(load: Load, items: Sequence[Item], cards: Sequence[Card]) -> tuple[Part, ...] | None:
    """`items` in a row over the `cards`, in proportion to their room if that fits, else filled one after the other.
    A card that is too small to compute on gets none; what lies beside the model goes to the first."""
    if cards[0].budget < load.beside:
        return None
    rooms = [max(0, card.budget - load.compute - (0 if number else load.beside)) for number, card in enumerate(cards)]
    counts = _in_proportion(items, rooms) or _filled(items, rooms)
    if counts is None:
        return None
    starts = [0, *accumulate(counts)]
    return tuple(_part(card, items[start:start + taken], load.compute if taken else 0, 0 if number else load.beside)
                 for number, (card, start, taken) in enumerate(zip(cards, starts, counts, strict=False)))


def _in_proportion(items: Sequence[Item], rooms: Sequence[int]) -> list[int] | None:
    """How many items each card takes when all get equally full; None when one of them gets too much."""
    whole, room = sum(item.total for item in items), sum(rooms)
    ends = [whole * sum(rooms[:number + 1]) // max(room, 1) for number in range(len(rooms))]
    counts, sizes, done, card = [0] * len(rooms), [0] * len(rooms), 0, 0
    for item in items:
        while card < len(rooms) - 1 and done + item.total / 2 > ends[card]:
            card += 1
        counts[card] += 1
        sizes[card] += item.total
        done += item.total
    return counts if all(size <= room for size, room in zip(sizes, rooms, strict=True)) else None


def _filled(items: Sequence[Item], rooms: Sequence[int]) -> list[int] | None:
    """How many items each card takes when each is filled before the next; None when they do not fit at all."""
    counts, card, left = [0] * len(rooms), 0, rooms[0]
    for item in items:
        while item.total > left:
            card += 1
            if card == len(rooms):
                return None
            left = rooms[card]
        counts[card] += 1
        left -= item.total
    return counts


