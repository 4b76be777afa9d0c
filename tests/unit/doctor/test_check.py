"""Which state counts, and that a whole examination never raises."""

import pytest

from blazar.doctor.check import Finding, Surroundings, worst
from blazar.doctor.checklist import CHECKS, examine
from blazar.paths import locate

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
