"""`blazar service` with a stub in systemd's place: what it is asked, what is written, and what a person reads."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from blazar.cli.service.install import see_that_it_can_run
from blazar.cli.service.systemd import find, packaged
from blazar.errors import ServiceRefused

ROOT = Path(__file__).parents[4]
STUB = ROOT / "tests" / "stubs" / "stub_systemctl.py"

ACTIVE = """\
LoadState=loaded
ActiveState=active
SubState=running
Result=success
UnitFileState=enabled
FragmentPath=/lib/systemd/system/blazar.service
MainPID=4711
NRestarts=2
MemoryCurrent=3221225472
ActiveEnterTimestamp=Mon 2026-11-30 08:00:00 UTC
StatusText=listening on http://127.0.0.1:11435
ExecMainStatus=0"""


@pytest.fixture
def systemctl(tmp_path):
    """The stub, and a journalctl beside it. tmp_path itself may be closed to others, so they lie in it by name only."""
    for name in ("systemctl", "journalctl"):
        (tmp_path / name).write_text(f"#!{sys.executable}\n{STUB.read_text()}")
        (tmp_path / name).chmod(0o755)
    return tmp_path / "systemctl"


@pytest.fixture
def env(tmp_path, systemctl):
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT),
            "BLAZAR_KEYS": "ann:secret-of-ann", "BLAZAR_SYSTEMCTL": str(systemctl)}


def run(env, *words, code="from blazar.cli.main import main; raise SystemExit(main())"):
    return subprocess.run([sys.executable, "-c", code, "service", *words], env=env, capture_output=True, text=True,
                          cwd=ROOT, timeout=60)


def as_somebody(env, *words):
    """The same by a person who is not root: the user id is the only thing that tells."""
    code = ("import os; os.geteuid = lambda: 1000\n"
            "from blazar.cli.main import main; raise SystemExit(main())")
    return run(env, *words, code=code)


def calls(program):
    file = Path(f"{program}.calls")
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def play(program, **scenario):
    Path(f"{program}.json").write_text(json.dumps(scenario))


not_packaged = pytest.mark.skipif(packaged() is not None, reason="the system's package of Blazar is installed here")


@not_packaged
def test_a_person_gets_a_unit_of_their_own(env, systemctl, tmp_path):
    done = as_somebody(env, "install")
    assert done.returncode == 0, done.stderr
    unit = (tmp_path / ".config/systemd/user/blazar.service").read_text()
    told = ("ExecStart", "Environment", "User", "WantedBy")
    assert [line for line in unit.splitlines() if line.startswith(told)] == [
        f"ExecStart={sys.executable} -P -m blazar.cli.main serve", f"Environment=PYTHONPATH={ROOT}",
        "WantedBy=default.target"]
    assert [call["words"] for call in calls(systemctl)] == [
        ["--user", "daemon-reload"], ["--user", "enable", "--now", "blazar.service"]]
    assert not [name for name in calls(systemctl)[0]["env"] if name.startswith("BLAZAR_")]
    assert "loginctl enable-linger" in done.stderr
    assert as_somebody(env, "install", "--no-start").returncode == 0  # its own unit it writes again
    assert calls(systemctl)[-1]["words"] == ["--user", "enable", "blazar.service"]


@not_packaged
def test_a_unit_that_somebody_else_wrote_stays(env, systemctl, tmp_path):
    file = tmp_path / ".config/systemd/user/blazar.service"
    file.parent.mkdir(parents=True)
    file.write_text("[Service]\nExecStart=/bin/mine\n")
    done = as_somebody(env, "install")
    assert (done.returncode, file.read_text()) == (1, "[Service]\nExecStart=/bin/mine\n")
    assert "move it away" in done.stderr and calls(systemctl) == []


def test_status(env, systemctl):
    play(systemctl, show=ACTIVE)
    done = run(env, "status")
    assert done.returncode == 0
    rows = dict(line.split(None, 1) for line in done.stdout.splitlines())
    assert rows["state"] == "active (running)" and rows["pid"] == "4711" and rows["memory"] == "3.0 GiB"
    assert rows["says"] == "listening on http://127.0.0.1:11435"
    assert json.loads(run(env, "status", "--json").stdout)["restarts"] == "2"


@pytest.mark.parametrize(("changes", "said"), [
    ({"ActiveState": "failed", "Result": "exit-code", "ExecMainStatus": "3"}, "its address is taken"),
    ({"ActiveState": "failed", "Result": "exit-code", "ExecMainStatus": "2"}, "blazar config check"),
    ({"ActiveState": "failed", "Result": "watchdog", "ExecMainStatus": "6"}, "blazar service logs"),
    ({"LoadState": "not-found", "ActiveState": "inactive"}, "blazar service install")])
def test_a_service_that_does_not_run_says_why(env, systemctl, changes, said):
    known = {**dict(line.split("=", 1) for line in ACTIVE.splitlines()), **changes}
    play(systemctl, show="\n".join(f"{name}={value}" for name, value in known.items()))
    done = run(env, "status")
    assert done.returncode == 4 and said in done.stderr


def test_logs_come_from_the_journalctl_beside_it(env, systemctl):
    play(systemctl.with_name("journalctl"), show="Nov 30 blazar[1]: listening")
    done = run(env, "logs", "-n", "5", "--follow")
    assert (done.returncode, done.stdout) == (0, "Nov 30 blazar[1]: listening\n")
    assert calls(systemctl.with_name("journalctl"))[0]["words"] == ["--unit=blazar.service", "--lines=5", "--no-pager",
                                                                    "--follow"]
    assert run(env, "logs", "-n", "-1").returncode == 2


def test_what_systemd_refuses_is_told_in_its_words(env, systemctl):
    play(systemctl, code=1, error="System has not been booted with systemd as init system\nCan't operate.")
    done = run(env, "status")
    assert done.returncode == 1
    assert done.stderr.startswith("blazar: the service cannot be managed: `systemctl show blazar.service --property=")
    assert done.stderr.endswith(
        "` ended with 1: System has not been booted with systemd as init system / Can't operate.; `blazar serve` runs "
        "the daemon without systemd\n")


def test_without_systemctl_or_with_a_broken_configuration(env, tmp_path, systemctl):
    done = run({**env, "BLAZAR_SYSTEMCTL": "/nowhere/systemctl"}, "status")
    assert done.returncode == 1 and "correct BLAZAR_SYSTEMCTL" in done.stderr
    (tmp_path / "broken.toml").write_text("port = [")
    play(systemctl, show=ACTIVE)
    assert run({**env, "BLAZAR_CONFIG": str(tmp_path / "broken.toml")}, "status").returncode == 0


def test_secrets_do_not_go_on(env):
    assert "BLAZAR_KEYS" not in find(env).env


def test_the_machine_s_service_cannot_run_from_a_home():
    with pytest.raises(ServiceRefused, match="/home/ann/venv/bin/python lies in somebody's home"):
        see_that_it_can_run("/home/ann/venv/bin/python", "")
