"""The unit: what systemd says of the shipped one, and what becomes of it where Blazar lies elsewhere."""

import json
import re
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from blazar.cli.service.unit import MARK, quoted, unit
from blazar.config.registry import SETTINGS
from blazar.supervisor.daemon import STOP_MARGIN
from tests.support.needs import need

SHIPPED = Path(__file__).parents[4] / "etc" / "systemd" / "blazar.service"


def values(text, key):
    return re.findall(rf"^{key}=(.*)$", text, re.MULTILINE)


@pytest.fixture
def lying_about(tmp_path):
    """Writes a unit into a folder of its own, with a program that exists."""
    def write(text):
        file = tmp_path / "blazar.service"
        file.write_text(text.replace("/usr/bin/blazar", "/bin/true"))
        return str(file)
    return write


def test_systemd_finds_no_fault(lying_about):
    check = [need("systemd-analyze"), "verify", "--man=no", lying_about(SHIPPED.read_text())]
    done = subprocess.run(check, capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_and_finds_it_safe(lying_about):
    check = [need("systemd-analyze"), "security", "--offline=true", "--threshold=35", "--no-pager",
             lying_about(SHIPPED.read_text())]
    done = subprocess.run(check, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert float(re.search(r"exposure level for \S+: ([\d.]+)", done.stdout)[1]) <= 3.5


def test_what_it_leaves_open_is_named(lying_about):
    """Each point that systemd counts against the unit is a choice: set as far as it can be, or left out in words."""
    check = [need("systemd-analyze"), "security", "--offline=true", "--json=short", lying_about(SHIPPED.read_text())]
    told = subprocess.run(check, capture_output=True, text=True, check=True)
    open_points = {name.strip() for row in json.loads(told.stdout) if row["set"] is False
                   for name in re.findall(r"(\w+)=", row["name"])}
    assert {"PrivateDevices", "MemoryDenyWriteExecute"} <= open_points, "engines compute on GPUs"
    left_out = SHIPPED.read_text().partition("# Left out, since engines compute on GPUs")[2]
    assert {name for name in open_points if not values(SHIPPED.read_text(), name) and name not in left_out} == set()


def test_the_example_of_a_drop_in_is_right(lying_about, tmp_path):
    folder = tmp_path / "blazar.service.d"
    folder.mkdir()
    example = SHIPPED.with_name("blazar.service.d") / "memory.conf.example"
    (folder / "memory.conf").write_text(example.read_text())
    check = [need("systemd-analyze"), "verify", "--man=no", lying_about(SHIPPED.read_text())]
    assert subprocess.run(check, capture_output=True, text=True, check=True).stderr == ""
    (folder / "memory.conf").write_text("[Service]\nMemoryHihg=80%\n")
    assert "MemoryHihg" in subprocess.run(check, capture_output=True, text=True, check=True).stderr


def test_a_unit_of_a_user_is_right_too(lying_about):
    text = unit(SHIPPED.read_text(), ["/bin/true", "serve"], {}, of_user=True)
    done = subprocess.run([need("systemd-analyze"), "--user", "verify", "--man=no", lying_about(text)],
                          capture_output=True, text=True, env={"XDG_RUNTIME_DIR": "/run", "HOME": "/"})
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_times_and_codes_are_those_of_the_daemon():
    text = SHIPPED.read_text()
    assert values(text, "TimeoutStopSec") == [f"{SETTINGS['shutdown_grace_secs'].default + STOP_MARGIN:g}"]
    assert "3" in values(text, "RestartPreventExitStatus")
    assert values(text, "Type") == ["notify"] and values(text, "NotifyAccess") == ["main"]
    assert values(text, "KillMode") == ["mixed"]


def test_every_directive_of_the_hardening_has_its_reason():
    hardening = SHIPPED.read_text().partition("# ---- Hardening")[2].partition("# Left out")[0].splitlines()
    bare = [line for before, line in pairwise(hardening)
            if line and not line.startswith("#") and not before]
    assert bare == []
    together = re.findall(r"(?:^\w+=.*\n){3,}", "\n".join(hardening), re.MULTILINE)
    assert together == [], "a reason stands for two lines at most"


@pytest.mark.parametrize("of_user", [True, False])
def test_another_place(of_user):
    text = unit(SHIPPED.read_text(), ["/opt/my blazar/python", "serve"], {"PYTHONPATH": "/opt/my blazar"}, of_user)
    assert text.startswith(MARK)
    assert values(text, "ExecStart") == ['"/opt/my blazar/python" serve']
    assert values(text, "ExecReload") == ['"/opt/my blazar/python" reload']
    assert values(text, "Environment")[0] == '"PYTHONPATH=/opt/my blazar"'
    assert values(text, "User") == ([] if of_user else ["blazar"])
    assert values(text, "WantedBy") == ["default.target" if of_user else "multi-user.target"]


@pytest.mark.parametrize(("word", "written"), [
    ("/usr/bin/x", "/usr/bin/x"), ("/a b", '"/a b"'), ("/50%", "/50%%"), ("/$x", "/$$x"), ('/a"b\\', '"/a\\"b\\\\"')])
def test_words_that_mean_something_to_systemd(word, written):
    assert quoted(word) == written
