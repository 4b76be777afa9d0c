"""When the daemon looks for a newer engine build."""

import pytest

from blazar.supervisor.policies.engine_check import START_DELAY, wait


@pytest.mark.parametrize(("now", "last", "every", "seconds"), [
    (1000.0, None, 0.0, None),
    (1000.0, 10.0, 0.0, None),
    (1000.0, None, 86400.0, START_DELAY),
    (1000.0, 900.0, 86400.0, 86300.0),
    (100000.0, 100.0, 86400.0, START_DELAY),
    (1000.0, 999.0, 0.5, 0.5),
    (86400.0, 10.0, 86400.0, START_DELAY),
    (1000.0, None, 1.0, 1.0),
])
def test_wait(now, last, every, seconds):
    assert wait(now, last, every) == seconds
