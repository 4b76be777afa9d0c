"""The clock check at several times."""

import os
import time

import pytest

from blazar.doctor.check import Surroundings
from blazar.doctor.clock import check_clock
from blazar.paths import locate


@pytest.mark.parametrize(("moment", "state", "found"), [
    (0.0, "warn", "it says 1970-01-01 00:00:00 UTC, which is before this version was made"),
    (2_000_000_000.0, "ok", "2033-05-18 03:33:20 UTC"),
    (2_000_000_000.0 - 3600, "warn", "it says 2033-05-18 02:33:20 UTC, and the database was written"),
    (2_000_000_000.0 - 60, "ok", "2033-05-18 03:32:20 UTC"),
])
def test_times(tmp_path, moment, state, found):
    located = locate({"HOME": str(tmp_path)}, data_dir=str(tmp_path))
    located.paths.database.write_text("")
    os.utime(located.paths.database, (2_000_000_000, 2_000_000_000))
    finding = check_clock(Surroundings(located, {}), lambda: moment)
    assert finding.state == state and finding.found.startswith(found)
    assert state == "ok" or "`sudo timedatectl set-ntp true`" in finding.remedy


def test_now(tmp_path):
    finding = check_clock(Surroundings(locate({"HOME": str(tmp_path)}), {}))
    assert finding.state == "ok" and finding.found.startswith(time.strftime("%Y-%m-%d"))
