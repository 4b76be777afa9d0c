"""What is free, and what will be, while children load and after they have ended: on a clock of the test's own."""

from blazar.hardware.census import Census
from blazar.hardware.cpu import Cpu
from blazar.hardware.device import Device
from blazar.hardware.memory import Memory as MainMemory
from blazar.planner.room import MAIN_MEMORY, Held
from blazar.supervisor.outlook import LATE, Outlook, free_of

CARD = "0000:01:00.0"


def seen(card, main=100):
    return Census(Cpu("x86_64"), MainMemory(total=200, available=main),
                  (Device("nvidia", CARD, memory=24, free=card), Device("intel", "0000:00:02.0")))


def test_what_a_census_tells_of_free_memory():
    assert free_of(seen(20)) == {CARD: 20, MAIN_MEMORY: 100}
    limited = Census(Cpu("x86_64"), MainMemory(total=200, available=100, limit=50, limit_rest=30))
    assert free_of(limited) == {MAIN_MEMORY: 30}
    assert free_of(Census(Cpu("x86_64"), MainMemory())) == {}


def test_a_child_that_loads_counts_whole_from_its_start_and_once():
    outlook, held = Outlook(), Held({CARD: 10, MAIN_MEMORY: 5}, mapped=4)
    outlook.look(seen(24), True, 0.0)
    outlook.started(held)
    for shown in (24, 19, 14):  # it takes its memory bit by bit
        outlook.look(seen(shown), False, 1.0)
        memory = outlook.memory([held])
        assert memory.soon == memory.now == {CARD: 14, MAIN_MEMORY: 99} and not memory.late
    outlook.look(seen(15, 98), True, 2.0)
    assert outlook.memory([]).soon == {CARD: 15, MAIN_MEMORY: 98}, "from then on as it is"


def test_memory_of_a_child_that_has_ended_is_late_until_it_is_seen():
    outlook, held = Outlook(), Held({CARD: 10})
    outlook.look(seen(14), True, 0.0)
    outlook.ended(held, 0.0)
    for now in (0.0, 2.0):
        outlook.look(seen(14), True, now)
        memory = outlook.memory([])
        assert (memory.soon[CARD], memory.now[CARD], memory.late) == (24, 14, True)
    outlook.look(seen(24), True, 2.5)
    memory = outlook.memory([])
    assert (memory.soon[CARD], memory.now[CARD], memory.late) == (24, 24, False)


def test_what_never_comes_back_is_waited_for_only_so_long():
    outlook = Outlook()
    outlook.look(seen(14), True, 0.0)
    outlook.ended(Held({CARD: 10}), 0.0)
    outlook.look(seen(14), True, LATE - 0.1)
    assert outlook.memory([]).late
    outlook.look(seen(14), True, LATE)
    memory = outlook.memory([])
    assert (memory.soon[CARD], memory.now[CARD], memory.late) == (14, 14, False)


def test_one_loads_while_the_memory_of_another_is_late():
    outlook, held = Outlook(), Held({CARD: 6})
    outlook.look(seen(14), True, 0.0)
    outlook.ended(Held({CARD: 10}), 0.0)
    outlook.started(held)
    outlook.look(seen(14), False, 0.5)
    memory = outlook.memory([held])
    assert (memory.soon[CARD], memory.now[CARD]) == (18, 8)


def test_a_load_that_came_to_nothing_gives_all_back():
    outlook, held = Outlook(), Held({CARD: 6})
    outlook.look(seen(20), True, 0.0)
    outlook.started(held)
    outlook.ended(held, 0.1)
    outlook.look(seen(20), True, 0.2)
    memory = outlook.memory([])
    assert (memory.soon[CARD], memory.late) == (20, False)
