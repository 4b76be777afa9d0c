"""The data dir and model checks on real folders."""

import os
import re
import subprocess

import pytest

from blazar.doctor.check import Surroundings
from blazar.doctor.store import check_data_dir, check_models
from blazar.paths import locate
from tests.support.small_disk import small_disk


def surroundings(tmp_path, data_dir):
    return Surroundings(locate({"HOME": str(tmp_path)}, data_dir=str(data_dir)), {})


def test_a_data_dir_that_can_be_made_is_fine_and_is_not_made(tmp_path):
    finding = check_data_dir(surroundings(tmp_path, tmp_path / "a" / "b"))
    assert finding.state in ("ok", "warn") and str(tmp_path / "a" / "b") in finding.found
    assert not (tmp_path / "a").exists()


def test_a_data_dir_under_a_file_fails(tmp_path):
    (tmp_path / "file").write_text("")
    assert check_data_dir(surroundings(tmp_path, tmp_path / "file" / "data")).state == "fail"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_data_dir_without_write_permission_fails(tmp_path):
    tmp_path.chmod(0o500)
    finding = check_data_dir(surroundings(tmp_path, tmp_path / "data"))
    tmp_path.chmod(0o700)
    assert finding.state == "fail" and "cannot be written" in finding.found


def test_a_disk_that_is_mounted_read_only_until_its_remedy_is_run(tmp_path):
    with small_disk(tmp_path / "a disk") as disk:
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        finding = check_data_dir(surroundings(tmp_path, disk / "data"))
        assert finding.state == "fail" and "mounted read-only" in finding.found
        subprocess.run(["sh", "-c", re.search("`sudo (mount .+?)`", finding.remedy)[1]], check=True)
        assert check_data_dir(surroundings(tmp_path, disk / "data")).state == "warn", "it is small, but can be written"


def test_an_empty_store_is_a_warning_with_the_line_to_type(tmp_path):
    finding = check_models(surroundings(tmp_path, tmp_path / "data"))
    assert (finding.state, finding.found) == ("warn", "none installed")
    assert "blazar pull" in finding.remedy
    assert not (tmp_path / "data").exists()
