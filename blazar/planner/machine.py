"""`Machine`: the memory of a census that a model may have, in the order in which an engine sees it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from blazar.hardware.census import Census
from blazar.hardware.device import Device
from blazar.planner.room import MAIN_MEMORY, Room

SHARE = 0.9
"""Of any memory, what one model may take."""
FAST = frozenset({"avx2", "asimddp"})
"""What processors can do for which weights are rearranged."""
SMALLEST = 1 << 30
"""Bytes under which a card is not worth a part of a model."""


@dataclass(frozen=True)
class Card:
    """One card, or the memory of a worker on another machine."""

    name: str
    memory: int
    budget: int
    """Bytes of it that a model may take."""
    index: int | None = None
    """Its number among all of NVIDIA's cards in the order of the bus; None for others."""
    bus: str | None = None

    @property
    def key(self) -> str:
        """What tells it from every other memory."""
        return self.bus or self.name


@dataclass(frozen=True)
class Worker:
    """One device of a worker of llama.cpp's RPC, as that tells of it."""

    endpoint: str
    """The worker's address, with the device's number behind it when it has several."""
    memory: int
    free: int


@dataclass(frozen=True)
class Machine:
    """Everything in bytes; None = not known."""

    cards: tuple[Card, ...]
    workers: tuple[Card, ...]
    """The devices of workers on other machines."""
    ram: int | None
    """What a model may take of main memory."""
    main: int | None
    """Main memory in all that this process may ever have."""
    free: int | None
    """Main memory that can be had now."""
    silent: tuple[str, ...] = ()
    """Workers that serve somebody else and tell nothing: then nothing is placed, since much may go to them."""
    gone: tuple[tuple[str, str], ...] = ()
    """Workers that do not answer, and why; they are planned without."""
    doubt: str = ""
    """Why an engine's own numbering of the cards is left alone; empty when the cards can be told apart."""
    rearranges: bool = False
    """Whether engines keep a second copy of some weights here, in an order that the processor multiplies faster."""

    @property
    def pool(self) -> tuple[Card, ...]:
        """Workers and cards, in the order in which an engine fills them."""
        return (*self.workers, *self.cards)

    @property
    def is_spread(self) -> bool:
        """Whether an engine lays a model over all cards by itself, whatever was planned for a single one."""
        return len(self.pool) > 1 and (bool(self.doubt) or any(device.index is None for device in self.pool))

    def beside(self, room: Room) -> "Machine":
        """What others leave of it. The card with most room comes first when each can be named."""
        cards = [replace(card, budget=_left(card, room)) for card in self.cards]
        if not self.doubt and any(room.taken.get(card.key) for card in cards):
            cards.sort(key=lambda card: -card.budget)
        workers = tuple(replace(worker, budget=_left(worker, room)) for worker in self.workers)
        ram = None if self.ram is None else max(0, self.ram - room.taken.get(MAIN_MEMORY, 0))
        return replace(self, cards=tuple(cards), workers=workers, ram=ram, free=room.free.get(MAIN_MEMORY, self.free))


def machine_of(census: Census, workers: Sequence[Worker] = (), cards: bool = True, now: bool = False,
               silent: Sequence[str] = (), gone: Sequence[tuple[str, str]] = ()) -> Machine:
    """What `census` tells. `cards` says whether the engine can use any of this machine; `now` counts only what is free
    at present. The last two are workers whose memory is not known, as in `Machine`."""
    found, doubt = _cards(census, now) if cards else ((), "the engine uses no card")
    main = census.memory.usable
    ram = None if main is None else int(main * SHARE)
    return Machine(found, tuple(_worker(worker, now) for worker in workers), ram, main, census.memory.free,
                   tuple(silent), tuple(gone), doubt, bool(FAST & (census.cpu.features or frozenset())))


def _worker(worker: Worker, now: bool) -> Card:
    return Card(worker.endpoint, worker.memory, _budget(worker.memory, worker.free, now))


def _budget(memory: int, free: int | None, now: bool) -> int:
    budget = int(memory * SHARE)
    return budget if free is None or not now else min(budget, free)


def _left(card: Card, room: Room) -> int:
    """Bytes of a card that a model may take beside others."""
    most = card.budget if card.key not in room.free else min(int(card.memory * SHARE), room.free[card.key])
    return max(0, min(most, int(card.memory * SHARE) - room.taken.get(card.key, 0)))


def _cards(census: Census, now: bool) -> tuple[tuple[Card, ...], str]:
    """The cards of one vendor, that with most memory, and whether they can be told apart."""
    known = sorted((gpu for gpu in census.gpus or () if gpu.is_card and (gpu.memory or 0) >= SMALLEST),
                   key=lambda gpu: gpu.bus or "")
    vendors = {gpu.vendor: 0 for gpu in known}
    for gpu in known:
        vendors[gpu.vendor] += gpu.memory or 0
    if not vendors:
        return (), "there is no card with memory of its own that is known"
    vendor = max(sorted(vendors), key=lambda name: vendors[name])
    own = [gpu for gpu in known if gpu.vendor == vendor]
    doubt = ""
    if len(vendors) > 1:
        doubt = "there are cards of several vendors"
    elif vendor != "nvidia":
        doubt = "only NVIDIA's cards can be numbered"
    elif any(gpu.vendor == "nvidia" and gpu not in own for gpu in census.gpus or ()) or any(not gpu.bus for gpu in own):
        doubt = "not every card tells its memory and place"
    chosen, hidden = _visible(own, census) if vendor == "nvidia" else (own, "")
    numbers = {gpu: number for number, gpu in enumerate(own)} if vendor == "nvidia" else {}
    made = tuple(Card(gpu.name or f"{gpu.vendor} card at {gpu.bus}", gpu.memory or 0,
                      _budget(gpu.memory or 0, gpu.free, now), numbers.get(gpu), gpu.bus) for gpu in chosen)
    return made, doubt or hidden


def _visible(cards: list[Device], census: Census) -> tuple[list[Device], str]:
    """What CUDA_VISIBLE_DEVICES leaves of NVIDIA's cards, and the doubt that it raises."""
    told = census.variables.get("CUDA_VISIBLE_DEVICES")
    if told is None:
        return cards, ""
    doubt = "CUDA_VISIBLE_DEVICES is set"
    chosen: list[Device] = []
    for word in (part.strip() for part in told.split(",")):
        if word.isascii() and word.isdigit() and len(word) < 9 and int(word) < len(cards):
            found = cards[int(word)]
        else:
            matching = [card for card in cards if word.startswith("GPU-") and (card.uuid or "").startswith(word)]
            if len(matching) != 1:
                break  # CUDA stops at the first that it does not know
            found = matching[0]
        if found not in chosen:
            chosen.append(found)
    is_ordered = census.variables.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    if not is_ordered and len({card.memory for card in cards}) > 1 and "GPU-" not in told:
        # The fastest comes first then, and nobody knows which that is: count with the smaller ones.
        chosen = sorted(cards, key=lambda card: card.memory or 0)[:len(chosen)]
    return chosen, doubt
