import queue
import signal
import stat
import sys

import pytest

from blazar.paths import Paths
from blazar.supervisor import processes, spawn
from tests.support.waiting import until


@pytest.fixture
def paths(tmp_path):
    return Paths(tmp_path / "data").ensure()


@pytest.fixture
def start(paths):
    ended = queue.SimpleQueue()
    running = []

    def run(code, name="solo:q4_0", **options):
        process = spawn.spawn([sys.executable, "-c", code], name, paths, ended.put, {"EXTRA": "1"}, **options)
        running.append(process)
        return process, ended

    yield run
    for process in running:
        process.kill()


def test_environment_is_minimal_and_marked():
    environ = {"PATH": "/bin", "HOME": "/h", "LC_ALL": "C", "CUDA_VISIBLE_DEVICES": "0", "BLAZAR_KEYS": "a:b",
               "HF_TOKEN": "t", "NOTIFY_SOCKET": "/n", "WATCHDOG_PID": "1", "LISTEN_FDS": "1", "PYTHONPATH": "/p",
               "LLAMA_API_KEY": "k"}
    assert spawn.child_environment(environ, "id:m", {"X": "1"}) == {
        "PATH": "/bin", "HOME": "/h", "LC_ALL": "C", "CUDA_VISIBLE_DEVICES": "0", "X": "1", "BLAZAR_CHILD": "id:m"}


def test_settings_cannot_take_the_mark_away():
    assert spawn.child_environment({}, "id:m", {"BLAZAR_CHILD": "other"})["BLAZAR_CHILD"] == "id:m"


def test_secret_is_fresh_and_private(paths):
    path = spawn.secret_path(paths, "owner/m:q4_0")
    assert path.name == "owner%2Fm%3Aq4_0.apikey"
    first, second = spawn.write_secret(path), spawn.write_secret(path)
    assert first != second and len(second) >= 40
    assert path.read_text() == second + "\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_life_leaves_only_the_log(start, paths):
    secret = spawn.secret_path(paths, "solo:q4_0")
    spawn.write_secret(secret)
    process, ended = start("import sys; print('out'); print('err', file=sys.stderr); sys.stdin.read(); sys.exit(3)",
                           files=[secret])
    assert ended.get(timeout=5) is process
    assert process.exited.is_set()
    assert process.exit_code == 3
    assert process.describe_exit() == "the engine exited with code 3"
    assert sorted(process.last_lines()) == ["err", "out"]
    assert [file.name for file in paths.run.iterdir()] == ["solo%3Aq4_0.log"]


def test_pid_file_names_the_process_for_good(start, paths):
    process, _ = start("import time; time.sleep(60)")
    pid, started = (paths.run / "solo%3Aq4_0.pid").read_text().split()
    assert int(pid) == process.pid
    assert int(started) == processes.start_time(process.pid)
    until(lambda: processes.mark_of(process.pid) == f"{paths.data_dir_id}:solo:q4_0")


def test_kill_takes_helpers_along_in_whatever_session(start):
    process, ended = start("import subprocess, time; subprocess.Popen(['sleep', '60']); "
                           "subprocess.Popen(['sleep', '60'], start_new_session=True); print('up', flush=True); "
                           "time.sleep(60)")
    until(lambda: process.last_lines() == ["up"])
    family = processes.marked_as(processes.mark_of(process.pid))
    assert len(family) == 3
    process.kill()
    ended.get(timeout=5)
    assert not [pid for pid in family if processes.is_alive(pid)]
    assert process.describe_exit() == "the engine was ended by SIGKILL"


def test_signals_after_the_end_hit_nobody(start):
    process, ended = start("pass")
    ended.get(timeout=5)
    process.terminate()
    process.kill()
    process.signal_leader(signal.SIGTERM)
    assert process.exit_code == 0


def test_output_is_bounded(start):
    process, ended = start("import sys\nfor n in range(5000): print(n)\nprint('x' * 100_000)\nsys.stdout.write('rest')")
    ended.get(timeout=10)
    lines = process.last_lines(1000)
    assert len(lines) <= spawn.LAST_LINES + 1
    assert lines[-1] == "rest"
    assert len(lines[-2]) == spawn.LONGEST_LINE
    assert lines[-3] == "4999"
    assert process.last_lines(2) == lines[-2:]


def test_missing_program_tells_so(paths):
    ended = queue.SimpleQueue()
    process = spawn.spawn(["/nowhere/llama-server"], "m", paths, ended.put, {})
    ended.get(timeout=5)
    assert process.exit_code == 127
    assert "/nowhere/llama-server" in process.last_lines()[0]
