"""Which state counts, and that a whole examination never raises."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from blazar.doctor.check import Finding, Surroundings, worst
from blazar.doctor.checklist import CHECKS, examine
from blazar.paths import locate

ROOT = Path(__file__).parents[3]
AS_NOBODY = """
import json, os, sys
from dataclasses import asdict
from blazar.doctor.check import Surroundings
from blazar.doctor.checklist import examine
from blazar.paths import locate
located = locate({"HOME": "/nonexistent"}, data_dir=sys.argv[1])
env = {"PATH": "/usr/bin:/bin"}
examine(Surroundings(located, env))  # whatever is imported late may not be readable afterwards
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
print(json.dumps([asdict(one) for one in examine(Surroundings(located, env))]))
"""
NAMES = ["config", "data dir", "permissions", "clock", "machine", "drivers", "programs", "limits", "engine", "lanes",
         "devices", "rpc workers", "model", "port"]


@pytest.mark.parametrize(("states", "outcome"), [
    ((), "ok"), (("ok", "ok"), "ok"), (("ok", "warn"), "warn"), (("fail", "warn", "ok"), "fail")])
def test_the_worst_finding_decides(states, outcome):
    assert worst(Finding("x", state, "") for state in states) == outcome


@pytest.mark.parametrize("config", ["port = 0\n", "port = \n", "no_such_key = 1\n", "\x00"])
def test_an_examination_answers_whatever_the_configuration_holds(tmp_path, config):
    file = tmp_path / "config.toml"
    file.write_text(config)
    located = locate({"HOME": str(tmp_path)}, str(file), str(tmp_path / "data"))
    findings = examine(Surroundings(located, {"PATH": str(tmp_path)}))
    assert len(findings) == len(CHECKS)
    assert [finding.check for finding in findings] == NAMES
    assert findings[0].state == ("ok" if config == "port = 0\n" else "fail")
    assert all("`" in finding.remedy for finding in findings if finding.state != "ok"), "each has its command"
    assert not (tmp_path / "data").exists(), "looking must not create anything"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_what_another_user_may_not_see_is_a_finding():
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "run").mkdir()
        Path(folder).chmod(0o755)
        (Path(folder) / "run").chmod(0o700)
        done = subprocess.run([sys.executable, "-c", AS_NOBODY, folder], capture_output=True, text=True, cwd=ROOT)
    told = {finding["check"]: finding for finding in json.loads(done.stdout)}
    assert told["data dir"]["state"] == "fail"
    assert told["permissions"]["found"] == f"{folder}/run cannot be looked at: Permission denied"
    assert all("`" in finding["remedy"] for finding in told.values() if finding["state"] != "ok")
