"""Looks at real processes: one that uses the processor, one that rests, one that is stopped."""

import os
import signal
import subprocess
import sys
import time

import pytest

from blazar.supervisor.examiner import look, processor_time
from tests.support.fake_supervisor import endpoint
from tests.support.scripted_child import ScriptedChild, json_answer


@pytest.fixture
def process():
    found = []

    def start(code):
        found.append(subprocess.Popen([sys.executable, "-c", code], start_new_session=True))
        return found[-1].pid
    yield start
    for one in found:
        one.kill()
        one.wait()


@pytest.mark.parametrize("where", ["tcp", "unix"])
def test_what_a_child_tells_of_its_slots(where, tmp_path):
    def play(talk):
        talk.send(json_answer(b'[{"id":0,"is_processing":true}]'))
    with ScriptedChild(play, 0 if where == "tcp" else str(tmp_path / "s")) as child:
        seen = look(endpoint("m:q4_0", child.address))
        assert seen.slots == [{"id": 0, "is_processing": True}] and seen.total >= seen.used >= 0
        [asked] = child.received
        assert asked.head.startswith(b"GET /slots HTTP/1.1") and asked.fields["authorization"] == "Bearer s3cret"


@pytest.mark.parametrize(("answer", "slots"), [
    (json_answer(b'{"error":{"code":501}}', "501 Not Implemented"), {}), (json_answer(b"{broken"), {}), (b"", None)])
def test_what_is_no_answer(answer, slots):
    def play(talk):
        talk.send(answer)
        talk.close()
    with ScriptedChild(play) as child:
        began = time.monotonic()
        assert look(endpoint("m:q4_0", child.address)).slots == slots
        assert slots is not None or time.monotonic() - began >= 1, "its use of the processor is seen for a while"


def test_processor_time_of_a_process_and_its_group(process):
    busy = process("import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'while True: pass'])")
    rests = process("import time\ntime.sleep(60)")
    deadline = time.monotonic() + 20
    while processor_time(busy) < 30:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(busy, signal.SIGSTOP)
    time.sleep(0.05)
    stopped, resting = processor_time(busy), processor_time(rests)
    time.sleep(0.5)
    assert processor_time(busy) == stopped and processor_time(rests) - resting < 3
    os.killpg(busy, signal.SIGKILL)
