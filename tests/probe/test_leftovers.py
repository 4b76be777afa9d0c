"""FC-26: what is left behind when the daemon dies, and what must be left alone."""

import os
import signal
import subprocess
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

from blazar.supervisor import processes
from tests.support.daemon import DAEMONS
from tests.support.transports import BY_END
from tests.support.waiting import until


@pytest.fixture(params=BY_END)
def daemon(request, tmp_path):
    with DAEMONS[request.param](tmp_path) as daemon:
        yield daemon


def files_of_children(daemon):
    return [file.name for pattern in ("*.pid", "*.apikey", "*.sock") for file in daemon.paths.run.glob(pattern)]


def test_1_and_2_old_child_is_gone_before_a_new_one_starts(daemon):
    model = daemon.install("solo", ignore_term=True, helper=True, helper_session=True)
    daemon.start()
    _, first = daemon.get(f"/load/{model}")
    old = daemon.tree()
    assert len(old) == 4  # gateway master and worker, child, and its helper in another session
    daemon.kill()
    daemon.start()
    assert not [pid for pid in old if processes.is_alive(pid)]
    _, second = daemon.get(f"/load/{model}")
    assert second["pid"] != first["pid"]


def test_3_pid_file_that_names_a_stranger(daemon):
    stranger = subprocess.Popen(["sleep", "60"])
    try:
        (daemon.paths.run / "solo.pid").write_text(f"{stranger.pid} {processes.start_time(stranger.pid)}\n")
        daemon.start()
        assert stranger.poll() is None
        assert files_of_children(daemon) == ["gateway.pid", "control.sock"]
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.parametrize("text", ["", "garbage", "4194303 1", "-1", "0", "1"])
def test_4_useless_pid_files_and_stale_sockets(daemon, text):
    (daemon.paths.run / "solo.pid").write_text(text)
    (daemon.paths.run / "solo.sock").write_text("")
    (daemon.paths.run / "solo.apikey").write_text("old")
    daemon.start()
    assert files_of_children(daemon) == ["gateway.pid", "control.sock"]


@pytest.mark.parametrize("transport", BY_END)
def test_5_two_data_dirs_do_not_touch_each_other(tmp_path, transport):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with DAEMONS[transport](tmp_path / "a") as one, DAEMONS[transport](tmp_path / "b") as two:
        model = one.install("solo")
        assert two.install("solo") == model
        one.start()
        two.start()
        _, of_one = one.get(f"/load/{model}")
        _, of_two = two.get(f"/load/{model}")
        one.kill()
        one.start()
        assert processes.is_alive(of_two["pid"])
        assert not processes.is_alive(of_one["pid"])
        assert two.get(f"/load/{model}") == (200, of_two)


def test_6_many_cycles_leave_nothing(daemon):
    models = [daemon.install(f"m{number}", helper=True) for number in range(5)]
    daemon.start()
    quiet = set(daemon.tree())
    open_files = len(os.listdir(f"/proc/{daemon.process.pid}/fd"))

    def cycle(model):
        for _ in range(10):
            assert daemon.get(f"/load/{model}")[0] == 200
            assert daemon.get(f"/evict/{model}")[1]["evicted"] is True

    with ThreadPoolExecutor(5) as pool:
        list(pool.map(cycle, models))
    until(lambda: set(daemon.tree()) == quiet, what="only the gateway left")
    zombies = [pid for pid in processes.all_pids() if (fields := processes.stat_fields(pid))
               and fields[0] == "Z" and int(fields[1]) == daemon.process.pid]
    assert zombies == []
    assert files_of_children(daemon) == ["gateway.pid", "control.sock"]
    assert [len(daemon.starts(model)) for model in models] == [10] * 5
    assert len(os.listdir(f"/proc/{daemon.process.pid}/fd")) <= open_files, "descriptors leak"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_7_asked_to_stop_during_a_load(daemon, number):
    model = daemon.install("slow", load_delay=60)
    daemon.start()
    answers = []
    asking = threading.Thread(target=lambda: answers.append(daemon.get(f"/load/{model}")))
    asking.start()
    until(lambda: daemon.starts(model), what="the load")
    tree = daemon.tree()
    began = time.monotonic()
    assert daemon.stop(number) == 0
    assert time.monotonic() - began < 2 + 3
    daemon.wait_gone(tree, 0.5)
    asking.join(5)
    assert answers[0][0] == 503
    assert answers[0][1]["slug"] == "shutting-down"


def test_8_asked_to_stop_during_a_stream(daemon):
    daemon.start()
    lines = []

    def read():
        with urllib.request.urlopen(daemon.url + "/stream", timeout=30) as answer:
            for line in answer:
                lines.append(line)

    reading = threading.Thread(target=read)
    reading.start()
    until(lambda: lines, what="the first line of the stream")
    assert daemon.stop() == 0
    reading.join(5)
    assert lines[-1] == b"the server stops\n"


def test_second_signal_ends_everything_at_once(daemon):
    model = daemon.install("stubborn", ignore_term=True)
    daemon.settings["shutdown_grace_secs"] = 60
    daemon.start()
    daemon.get(f"/load/{model}")
    stream = urllib.request.urlopen(daemon.url + "/stream", timeout=30)
    assert stream.readline() == b"x\n"
    tree = daemon.tree()
    daemon.process.send_signal(signal.SIGTERM)
    until(lambda: "stopping" in daemon.log())
    began = time.monotonic()
    assert daemon.stop() == 0
    assert time.monotonic() - began < 2
    daemon.wait_gone(tree, 2)
    stream.close()
