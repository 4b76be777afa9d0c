import os

import pytest

from blazar.download.sweep import KEPT, is_given_up
from tests.support.downloads import leave_partial

NOW = 2_000_000_000.0


@pytest.mark.parametrize(("touched", "given_up"), [((), True), (("",), False), (("m.part",), False),
                                                   (("m.part.json",), False)])
def test_one_change_within_two_weeks_keeps_it(tmp_path, touched, given_up):
    leave_partial(tmp_path / "m", b"abc", "u", None, 9, [(0, 3)])
    for path in (*tmp_path.iterdir(), tmp_path):
        os.utime(path, (NOW - KEPT - 1,) * 2)
    for name in touched:
        os.utime(tmp_path / name, (NOW - KEPT + 1,) * 2)
    assert is_given_up(tmp_path, NOW) is given_up
