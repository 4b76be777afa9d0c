"""What is read of the kernel."""

import os
import subprocess
import sys

from tests.support.waiting import until
from tools.bench import machine
from tools.bench.machine import Layout


def test_the_layout_is_said_in_words():
    assert str(Layout(0, 1)) == "engine and client on core 0, the gateway on core 1"
    assert str(Layout(3, 3)) == "engine, client and gateway all on core 3"
    assert Layout.here().client in os.sched_getaffinity(0)


def test_a_family_is_a_process_and_its_descendants():
    script = "import subprocess, sys; subprocess.Popen(['sleep', '60']); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE) as parent:
        found = until(lambda: len(family := machine.family(parent.pid)) == 2 and family)
        assert found[0] == parent.pid
        os.kill(found[1], 9)
    assert machine.family(os.getpid())[0] == os.getpid()


def test_cpu_time_grows_with_work_and_is_nothing_for_nobody():
    before = machine.cpu_ns([os.getpid()])
    assert before > 0
    until(lambda: sum(range(10_000)) and machine.cpu_ns([os.getpid()]) > before)
    assert machine.cpu_ns([]) == 0 == machine.cpu_ns([2**22 + 1])


def test_memory_is_in_mib_and_adds_up():
    own = machine.pss_mib([os.getpid()])
    assert 1 < own < 4096
    assert machine.pss_mib([os.getpid(), os.getpid()]) > 1.5 * own
    assert 0 < machine.pss_mib([os.getpid()], "Pss_Anon") < machine.pss_mib([os.getpid()])


def test_a_running_process_can_be_moved_to_a_core():
    core = min(os.sched_getaffinity(0))
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        machine.pin(sleeper.pid, core)
        assert os.sched_getaffinity(sleeper.pid) == {core}
        sleeper.kill()


def test_the_machine_is_described():
    described = machine.describe()
    assert described["cpu"] and described["memory"].endswith(" GiB") and int(described["cores"]) >= 1
