"""`blazar logs`, with real files; following ends with a signal."""

import os
import signal
import subprocess
import sys

import pytest

from tests.support.waiting import until


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "daemon.log").write_text("".join(f"2026-01-02 03:04:05,678 INFO blazar.x: {n}\n" for n in range(60))
                                       + "2026-01-02 03:04:05,678 WARNING blazar.x: careful\nwith this\n")
    (folder / "gateway.log").write_text("INFO blazar.proxy: of the gateway\n")
    (folder / "qwen3%3Aq4_0.log").write_bytes(b"of an engine \xff\n")
    (folder / "qwen2.log").write_text("of another\n")
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "audit.jsonl").write_text('{"a": 1}\n')
    return folder


@pytest.fixture
def logs(tmp_path, run, capsys):
    """Call `blazar logs`: its exit code, and what went to stdout and stderr."""
    from blazar.cli.main import main

    def call(*words):
        code = main(["--data-dir", str(tmp_path), "logs", *words])
        return code, *capsys.readouterr()
    return call


def test_the_last_lines_of_the_daemon(logs):
    code, out, _ = logs()
    assert code == 0 and len(out.splitlines()) == 50
    assert out.endswith("INFO blazar.x: 59\n2026-01-02 03:04:05,678 WARNING blazar.x: careful\nwith this\n")
    assert logs("-n", "1")[1] == "with this\n" and logs("-n", "0")[1:] == ("", "")
    assert logs("--level", "warn")[1] == "2026-01-02 03:04:05,678 WARNING blazar.x: careful\nwith this\n"


def test_other_logs(logs, run):
    assert logs("gateway")[1] == logs("gateway", "--level", "info")[1] == "INFO blazar.proxy: of the gateway\n"
    assert logs("qwen3:q4_0")[1] == logs("Qwen3")[1] == "of an engine \ufffd\n"
    assert logs("--audit")[1] == '{"a": 1}\n'
    (run / "daemon.log").unlink()
    assert logs()[:2] == (0, "")


@pytest.mark.parametrize(("words", "told"), [
    (("qwen",), "there is one of qwen2, qwen3:q4_0"), (("llama",), "there is one of gateway, qwen2, qwen3:q4_0"),
    (("../daemon",), "there is no log of ../daemon"), (("--lines", "-1"), "a number from 0"),
    (("--audit", "--level", "warn"), "without levels"), (("qwen3", "--level", "warn"), "engines have levels"),
])
def test_what_cannot_be_shown(logs, words, told):
    code, out, errors = logs(*words)
    assert (code, out) == (2, "") and told in errors


def test_what_may_not_be_read_is_told_with_the_line_to_type(logs, run):
    (run / "daemon.log").unlink()
    (run / "daemon.log").mkdir()
    code, _, errors = logs()
    assert code == 1 and f"{run}/daemon.log cannot be read: Is a directory" in errors


def test_follow(tmp_path, run):
    log = run / "daemon.log"
    with subprocess.Popen([sys.executable, "-m", "blazar.cli.main", "--data-dir", tmp_path, "logs", "-f", "-n", "1"],
                          env={**os.environ, "PYTHONPATH": os.getcwd()}, stdout=subprocess.PIPE) as following:
        assert following.stdout.readline() == b"with this\n"
        log.replace(run / "daemon.log.1")
        log.write_text("new\n")
        assert following.stdout.readline() == b"new\n"
        following.send_signal(signal.SIGINT)
        until(lambda: following.poll() is not None, 20)
    assert following.returncode == 130
