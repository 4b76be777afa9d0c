import pytest

from blazar.supervisor.policies.wedged import RESTING, Look, is_wedged

IDLE = [{"id": 0, "is_processing": False}, {"id": 1, "is_processing": False}]
WORKS = [{"id": 0, "is_processing": True, "n_decoded": 5}, {"id": 1, "is_processing": False}]
FURTHER = [{"id": 0, "is_processing": True, "n_decoded": 6}, {"id": 1, "is_processing": False}]


def seen(slots, used=0, total=100):
    return Look(slots, used, total)


@pytest.mark.parametrize(("now", "before", "wedged"), [
    (seen(IDLE), None, True),
    (seen(IDLE, used=50), None, True),
    (seen(WORKS), None, False),
    (seen(None), None, True),
    (seen(None, used=RESTING), None, False),
    (seen(WORKS), seen(WORKS), True),
    (seen(FURTHER), seen(WORKS), False),
    (seen(WORKS, total=100 + RESTING), seen(WORKS), False),
    (seen(IDLE), seen(WORKS), True),
    (seen(None), seen(WORKS), True),
], ids=str)
def test_when_a_child_is_wedged(now, before, wedged):
    assert is_wedged(now, before) is wedged


@pytest.mark.parametrize("told", [{}, [], [1], [{"id": 0}], "busy", 5])
def test_an_engine_that_does_not_tell_is_left_alone(told):
    assert is_wedged(seen(told)) is False
