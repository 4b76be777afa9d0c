import random
import tracemalloc

import pytest

from blazar.proxy.sliding import SPAN, STEPS, WINDOW, SlidingWindow, step_at


class Clock:
    now = 1000.0


@pytest.fixture
def clock():
    return Clock()


def test_an_amount_counts_for_sixty_seconds_and_leaves_within_a_step(clock):
    window = SlidingWindow()
    window.add(step_at(clock.now), 5)
    assert window.total(clock.now + WINDOW) == 5
    assert window.total(clock.now + WINDOW + 1 / STEPS) == 0


def test_the_wait_is_until_enough_has_left(clock):
    window = SlidingWindow()
    for amount in (5, 3, 2):
        window.add(step_at(clock.now), amount)
        clock.now += 10
    assert window.wait(clock.now, 10) == 0
    for most, leaves in ((9, 30), (5, 30), (4, 40), (2, 40), (1, 50), (0, 50)):
        wait = window.wait(clock.now, most)
        assert leaves <= wait + 1e-6 <= leaves + 0.2, most
        assert window.total(clock.now) == 10
    assert window.total(clock.now + window.wait(clock.now, 2)) <= 2


def test_a_busy_window_does_not_grow(clock):
    window = SlidingWindow()
    tracemalloc.start()
    for number in range(100_000):
        window.add(step_at(clock.now), 1)
        clock.now += 0.001
        if number == 1000:
            before, _ = tracemalloc.get_traced_memory()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 1000
    assert abs(window.total(clock.now) - WINDOW * 1000) <= 2000 / STEPS


def test_a_window_is_the_sum_of_what_happened_in_it(clock):
    """Against a list of all that happened, with pauses from a moment to minutes."""
    window, chance, happened = SlidingWindow(), random.Random(3), []
    for _ in range(3000):
        clock.now += chance.choice([0.0, 0.01, 0.3, 2.0, 2.0, 59.9, 60.1, 200.0])
        if chance.random() < 0.7:
            happened.append((int(clock.now * STEPS), chance.randrange(4)))
            window.add(step_at(clock.now), happened[-1][1])
        oldest = int(clock.now * STEPS) - WINDOW * STEPS
        assert window.total(clock.now) == sum(amount for step, amount in happened if step >= oldest)


def test_what_comes_late_counts_where_it_belongs():
    window, now = SlidingWindow(), 1000.0
    step = step_at(now)
    for at, amount in ((step, 1), (step - SPAN, 20), (step - SPAN - 1, 300), (step - 5, 4000)):
        window.add(at, amount)
    assert window.total(now) == 4021
    assert window.total(now + 1 / STEPS) == 4001
    assert window.total(now + WINDOW - 5 / STEPS) == 4001
    assert window.total(now + WINDOW - 4 / STEPS) == 1


def test_it_clears_when_the_newest_has_left(clock):
    window = SlidingWindow()
    assert window.clears(clock.now) == 0
    window.add(step_at(clock.now), 5)
    window.add(step_at(clock.now + 20), 1)
    assert 60 <= window.clears(clock.now + 20) <= 60 + 1.01 / STEPS
    assert window.total(clock.now + 20 + window.clears(clock.now + 20)) == 0
