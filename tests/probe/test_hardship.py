"""What the system may do to a daemon: refuse descriptors and files, freeze it, take its folder away."""

import os
import resource
import shutil
import signal
import time

import pytest

from blazar.errors import SupervisorGone
from blazar.store.store import Store
from blazar.supervisor import processes
from tests.support.daemon import DAEMONS, Daemon
from tests.support.stub_model import write_header
from tests.support.transports import BY_END
from tests.support.waiting import until


@pytest.fixture(params=["tcp"])
def daemon(request, tmp_path):
    with DAEMONS[request.param](tmp_path) as daemon:
        daemon.model = daemon.install("solo")
        yield daemon


def blocked(file):
    """Put a folder where a file must go: as a full disk, it refuses the write and the removal."""
    file.unlink(missing_ok=True)
    file.mkdir()
    return file


# -- signals ---------------------------------------------------------------------------------------------


def test_children_are_reaped_although_sigchld_came_ignored(daemon):
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        daemon.launch()
    finally:
        signal.signal(signal.SIGCHLD, before)
    daemon.url = daemon.process.stdout.readline().split()[-1]
    _, endpoint = daemon.get(f"/load/{daemon.model}")
    os.kill(endpoint["pid"], signal.SIGKILL)
    until(lambda: daemon.state(daemon.model) == "absent", 3)
    assert daemon.stop() == 0


def test_hangup_is_told_and_ends_nothing(daemon):
    daemon.start()
    tree = daemon.tree()
    daemon.process.send_signal(signal.SIGHUP)
    until(lambda: "it was started without a configuration file" in daemon.log())
    assert daemon.get("/ok")[0] == 200
    assert daemon.tree() == tree


@pytest.mark.debian
def test_supervisor_that_stood_still_does_not_blame_the_gateway(daemon):
    daemon.start()
    gateway = daemon.status()["gateway"]
    daemon.process.send_signal(signal.SIGSTOP)
    time.sleep(11.5)  # longer than BEAT_LIMIT
    daemon.process.send_signal(signal.SIGCONT)
    time.sleep(2.5)
    assert daemon.status()["gateway"] == gateway
    assert "no heartbeat" not in daemon.log()


# -- files, descriptors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("daemon", BY_END, indirect=True)
def test_child_whose_files_cannot_be_written_does_not_run_unwatched(daemon):
    daemon.start()
    before = daemon.tree()
    pid_file = blocked(daemon.paths.run / "solo%3Af32.pid")
    status, error = daemon.get(f"/load/{daemon.model}")
    assert (status, error["slug"]) == (503, "load-failed")
    assert "Is a directory" in error["message"]
    assert daemon.tree() == before
    pid_file.rmdir()
    assert daemon.get(f"/load/{daemon.model}")[0] == 200


@pytest.mark.parametrize("daemon", BY_END, indirect=True)
def test_end_of_a_child_is_told_although_its_files_stay(daemon):
    daemon.start()
    _, endpoint = daemon.get(f"/load/{daemon.model}")
    blocked(daemon.paths.run / "solo%3Af32.pid").rmdir()
    blocked(daemon.paths.run / ("solo%3Af32.sock" if daemon.unix else "solo%3Af32.apikey"))
    os.kill(endpoint["pid"], signal.SIGKILL)
    until(lambda: daemon.state(daemon.model) == "absent", 3)


def test_gateway_that_cannot_be_started_is_tried_again(daemon):
    daemon.start()
    gateway = daemon.status()["gateway"]
    pid_file = blocked(daemon.paths.run / "gateway.pid")
    os.kill(gateway["pid"], signal.SIGKILL)
    until(lambda: "gunicorn cannot be started" in daemon.log())
    pid_file.rmdir()
    until(lambda: daemon.status()["gateway"]["workers"] not in ([], gateway["workers"]), what="a new worker")
    assert daemon.get("/ok")[0] == 200


def test_control_socket_outlives_a_lack_of_descriptors(daemon):
    daemon.start()
    pid = daemon.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{pid}/fd")), before[1]))
    link = daemon.control()  # the kernel takes it; the daemon cannot
    until(lambda: "Too many open files" in daemon.log())
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    assert link.ask("status", 5)["pid"] == pid
    assert daemon.get(f"/load/{daemon.model}")[0] == 200


def test_daemon_whose_folder_is_gone_ends_with_words_once_it_needs_it(daemon):
    daemon.start()
    gateway = daemon.status()["gateway"]
    shutil.rmtree(daemon.paths.data_dir)
    assert daemon.get("/ok")[0] == 200
    os.kill(gateway["pid"], signal.SIGKILL)
    assert daemon.process.wait(10) == 1
    said = daemon.process.stderr.read()
    assert "control.sock is gone" in said
    assert "Traceback" not in said


def test_second_serve_in_a_folder_that_was_removed_touches_nothing_of_the_first(daemon, tmp_path):
    daemon.start()
    daemon.get(f"/load/{daemon.model}")
    tree = daemon.tree()
    shutil.rmtree(daemon.paths.data_dir)
    second = Daemon(tmp_path, port=daemon.port).launch()
    _, said = second.communicate(timeout=20)
    assert second.returncode == 3
    assert f"pid {daemon.process.pid} (" in said
    assert [pid for pid in tree if processes.is_alive(pid)] == tree


# -- engines -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("daemon", BY_END, indirect=True)
def test_child_that_is_healthy_and_says_nothing_more_is_not_ready(daemon):
    model = daemon.install("mute", props_delay=60)
    daemon.settings["model_load_timeout_secs"] = 1
    daemon.start()
    status, error = daemon.get(f"/load/{model}")
    assert (status, error["slug"]) == (504, "load-timeout")


# -- the store ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("daemon", BY_END, indirect=True)
def test_replaced_file_is_taken_up_when_the_running_requests_have_ended(daemon, tmp_path):
    daemon.start()
    _, first = daemon.get(f"/lease/{daemon.model}")
    Store(daemon.paths).install_file(write_header(tmp_path / "new.gguf", "newer"), "solo")
    link = daemon.control()
    link.ask("changed", 5, what="store")
    until(lambda: daemon.state(daemon.model) == "draining")
    assert processes.is_alive(first["pid"])
    daemon.get(f"/return/{daemon.model}")
    _, second = daemon.get(f"/load/{daemon.model}")
    assert second["pid"] != first["pid"]
    assert str(daemon.file(daemon.model)) in processes.command_of(second["pid"])
    link.ask("changed", 5, what="store")
    assert daemon.state(daemon.model) == "ready", "what is up to date stays"
    link.close()


def test_model_that_was_replaced_while_it_loaded_serves_who_waits_and_then_goes(daemon, tmp_path):
    daemon.play(daemon.model, load_delay=1)
    daemon.start()
    link = daemon.control()
    answers = []
    link.ask_later("ensure_ready", answers.append, model=daemon.model)
    until(lambda: daemon.starts(daemon.model))
    Store(daemon.paths).remove(daemon.model)
    link.ask("changed", 5, what="store")
    assert "endpoint" in until(lambda: answers)[0]
    until(lambda: daemon.state(daemon.model) == "absent", 3)
    with pytest.raises(Exception, match="not found, try pulling it first"):
        link.ask("ensure_ready", 5, model=daemon.model)
    link.close()


def test_many_questions_about_the_store_share_a_few_threads(daemon):
    daemon.start()
    link, answers = daemon.control(), []
    before = len(os.listdir(f"/proc/{daemon.process.pid}/task"))
    most = 0

    def all_are_answered():
        nonlocal most
        most = max(most, len(os.listdir(f"/proc/{daemon.process.pid}/task")))
        return len(answers) == 500

    for _ in range(500):
        link.ask_later("describe", answers.append, model=daemon.model)
    until(all_are_answered, 20)
    assert {answer["model"]["name"] for answer in answers} == {daemon.model}
    assert most <= before + 8
    link.close()
    with pytest.raises(SupervisorGone):
        link.ask("status", 1)
