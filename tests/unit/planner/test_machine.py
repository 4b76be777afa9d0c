"""The memory of a census that counts, and whether its cards can be told apart."""

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from blazar.hardware.census import Census, read_census
from blazar.hardware.cpu import Cpu
from blazar.hardware.device import Device
from blazar.hardware.memory import Memory
from blazar.planner.machine import Card, Worker, machine_of

CENSUS = Path(__file__).parents[2] / "data" / "census"
GIB = 1 << 30


def recorded(name):
    return read_census(CENSUS / f"{name}.json")


@pytest.mark.parametrize(("name", "cards", "doubt"), [
    ("no-gpu", [], "there is no card with memory of its own that is known"),
    ("driver-missing", [], "there is no card with memory of its own that is known"),
    ("unified-arm", [], "there is no card with memory of its own that is known"),
    ("amd-apu", [], "there is no card with memory of its own that is known"),
    ("laptop-8gb", [8188], ""), ("pair-12-8", [12288, 7979], ""), ("four-48", [46068] * 4, ""),
    ("amd-24", [24560], "only NVIDIA's cards can be numbered"),
    ("mixed-vendors", [16384], "there are cards of several vendors"),
    ("cards-hidden", [24576], "CUDA_VISIBLE_DEVICES is set"),
])
def test_recorded_machines(name, cards, doubt):
    found = machine_of(recorded(name))
    assert [card.memory >> 20 for card in found.cards] == cards and found.doubt == doubt
    assert all(card.budget == int(card.memory * 0.9) for card in found.cards)
    assert found.ram == int(recorded(name).memory.usable * 0.9)


def cards(*sizes, bus=True):
    return tuple(Device("nvidia", f"0000:0{number}:00.0" if bus else None, f"card {number}", "nvidia", size * GIB,
                        size * GIB - number, uuid=f"GPU-{number}aaa") for number, size in enumerate(sizes, 1))


def census(gpus, **variables):
    return Census(Cpu("x86_64"), Memory(total=64 * GIB, available=9 * GIB), gpus,
                  variables=MappingProxyType(variables))


@pytest.mark.parametrize(("told", "order", "seen"), [
    ("1", "PCI_BUS_ID", [8]), ("1,0", "PCI_BUS_ID", [8, 24]), ("", "PCI_BUS_ID", []), ("-1", "PCI_BUS_ID", []),
    ("0,7,1", "PCI_BUS_ID", [24]), ("1,1", "PCI_BUS_ID", [8]), ("GPU-2", None, [8]),
    ("GPU-1aaa,GPU-2aaa", None, [24, 8]), ("GPU-", None, []), ("MIG-7", None, []),
    ("²", "PCI_BUS_ID", []), ("٣", "PCI_BUS_ID", []), ("9" * 5000, "PCI_BUS_ID", []), ("0,1\udcff", "PCI_BUS_ID", [24]),
    # in an order that nobody knows the smaller ones are counted
    ("0", None, [8]), ("1", None, [8]), ("0,1", None, [8, 24]),
])
def test_hidden_cards(told, order, seen):
    variables = {"CUDA_VISIBLE_DEVICES": told, **({"CUDA_DEVICE_ORDER": order} if order else {})}
    found = machine_of(census(cards(24, 8), **variables))
    assert [card.memory // GIB for card in found.cards] == seen and found.doubt == "CUDA_VISIBLE_DEVICES is set"


def test_cards_are_numbered_by_their_place():
    found = machine_of(census(tuple(reversed(cards(24, 8, 24)))))
    assert [(card.name, card.index) for card in found.cards] == [("card 1", 0), ("card 2", 1), ("card 3", 2)]


@pytest.mark.parametrize("more", [Device("nvidia", "0000:00:00.0"), Device("nvidia", memory=24 * GIB)])
def test_a_card_that_tells_too_little_makes_for_doubt(more):
    found = machine_of(census((*cards(24, 24), more)))
    assert found.doubt == "not every card tells its memory and place"


def test_what_is_free_now():
    gpus = (replace(cards(24)[0], free=3 * GIB),)
    assert machine_of(census(gpus), now=True).cards[0].budget == 3 * GIB
    assert machine_of(census(gpus)).cards[0].budget == int(24 * GIB * 0.9)
    assert machine_of(census(cards(24)), now=True).cards[0].budget == int(24 * GIB * 0.9)
    assert machine_of(census(())).free == 9 * GIB


def test_an_engine_without_cards():
    found = machine_of(census(cards(24)), [Worker("far:1", 24 * GIB, GIB)], cards=False)
    assert (found.cards, len(found.workers), found.doubt) == ((), 1, "the engine uses no card")


def test_workers():
    worker = Worker("far:50052", 10 * GIB, 2 * GIB)
    assert machine_of(census(()), [worker]).workers == (Card("far:50052", 10 * GIB, 9 * GIB),)
    assert machine_of(census(()), [worker], now=True).workers[0].budget == 2 * GIB


def test_unknown_memory_stays_unknown():
    found = machine_of(Census(Cpu("x86_64"), Memory()))
    assert (found.ram, found.main, found.free) == (None, None, None)
