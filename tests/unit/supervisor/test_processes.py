import os
import socket
import subprocess
import sys
import tempfile

import pytest

from blazar.paths import Paths
from blazar.supervisor import processes
from blazar.supervisor.orphans import sweep
from tests.support.waiting import until


@pytest.fixture
def sleeper():
    started = []

    def start(mark=None, **options):
        environment = {"PATH": os.environ["PATH"], **({processes.MARK: mark} if mark else {})}
        process = subprocess.Popen(["sleep", "60"], env=environment, **options)
        until(lambda: "sleep" in processes.command_of(process.pid))
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_alive_zombie_and_gone(sleeper):
    process = sleeper()
    assert processes.is_alive(process.pid)
    assert processes.start_time(process.pid) > 0
    process.kill()
    until(lambda: processes.stat_fields(process.pid)[0] == "Z")
    assert not processes.is_alive(process.pid)
    process.wait()
    assert not processes.is_alive(process.pid)
    assert processes.start_time(process.pid) == 0


def test_marks_tell_data_dirs_and_names_apart(sleeper):
    ours, other, plain = sleeper("abc:m#1"), sleeper("abd:m#1"), sleeper()
    assert processes.mark_of(ours.pid) == "abc:m#1"
    assert processes.mark_of(plain.pid) == ""
    assert ours.pid in processes.marked("abc")
    assert other.pid not in processes.marked("abc")
    assert processes.marked("ab") == []
    assert processes.marked_as("abc:m#1") == [ours.pid]
    assert processes.marked_as("abc:m") == []


@pytest.mark.parametrize("family, host", [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"),
                                          (socket.AF_INET, "0.0.0.0")])
def test_listeners_are_found_with_their_owner(family, host):
    try:
        listener = socket.create_server((host, 0), family=family)
    except OSError:
        pytest.skip("no such address here")
    with listener:
        port = listener.getsockname()[1]
        assert [one.port for one in processes.owned_listeners(os.getpid()) if (one.host, one.port) == (host, port)]
        assert os.getpid() in processes.holders_of_port(port)
    assert port not in [one.port for one in processes.owned_listeners(os.getpid())]
    assert processes.holders_of_port(port) == []


def test_a_connected_socket_is_no_listener():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with socket.create_connection(listener.getsockname()) as client:
            assert client.getsockname()[1] not in [one.port for one in processes.listeners()]


def test_listener_of_a_grandchild_belongs_to_the_group():
    code = ("import os, socket, time\n"
            "if os.fork(): time.sleep(60)\n"
            "s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); time.sleep(60)")
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True)
    try:
        port = int(process.stdout.readline())
        assert [one.port for one in processes.owned_listeners(process.pid)] == [port]
        assert len(processes.in_group(process.pid)) == 2
    finally:
        os.killpg(process.pid, 9)
        process.wait()


def test_sweep_ends_only_its_own_and_clears_the_files(sleeper, tmp_path):
    paths = Paths(tmp_path).ensure()
    ours, stranger = sleeper(f"{paths.data_dir_id}:solo"), sleeper()
    for name in ("solo.pid", "solo.apikey", "solo.sock"):
        (paths.run / name).write_text(str(stranger.pid))
    (paths.run / "daemon.log").write_text("kept")
    assert sweep(paths) == []
    assert ours.wait(5) == -9
    assert stranger.poll() is None
    assert [file.name for file in paths.run.iterdir()] == ["daemon.log"]


def test_a_unix_socket_has_one_owner():
    with tempfile.TemporaryDirectory(prefix="bz-") as folder:
        path = f"{folder}/a b.sock"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            assert not processes.owns_socket(os.getpid(), path), "it does not listen yet"
            listener.listen()
            assert processes.owns_socket(os.getpid(), path)
            assert not processes.owns_socket(1, path)
            assert not processes.owns_socket(os.getpid(), path + "x")
