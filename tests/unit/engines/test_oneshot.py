"""Programs that run once: what they get, what is kept of them, and that nothing of them is left."""

import os
import signal
import sys

import pytest

from blazar.engines import oneshot
from tests.support.waiting import until

ENV = oneshot.kept(os.environ)


def python(code):
    return [sys.executable, "-c", code]


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_output_and_last_words_are_kept_apart():
    done = oneshot.run(python("import sys; print('one'); print('bad', file=sys.stderr); sys.exit(3)"), ENV)
    assert (done.code, done.output, done.said) == (3, "one\n", "bad\n")
    assert done.ending == "it ended with exit code 3; it said: bad"


def test_lines_come_as_they_are_printed_and_merged():
    seen = []
    done = oneshot.run(["sh", "-c", "echo a; echo b >&2; printf c"], ENV, on_line=seen.append)
    assert seen == ["a", "b", "c"] and done.output == "" and done.said == "a\nb\nc"


def test_an_end_by_signal_is_named():
    assert oneshot.run(["sh", "-c", "kill -9 $$"], ENV).ending == "it was ended by SIGKILL, without a word"


def test_only_the_last_lines_are_kept_for_a_message():
    done = oneshot.run(["sh", "-c", "seq 1 1000 >&2"], ENV, on_line=lambda line: None)
    assert done.said.split() == [str(number) for number in range(989, 1001)]


def test_our_secrets_stay_here():
    env = {"PATH": os.environ["PATH"], "BLAZAR_KEYS": "a:secret", "HF_TOKEN": "x", "CUDA_VISIBLE_DEVICES": "1",
           "CC": "gcc"}
    assert oneshot.kept(env) == {"PATH": os.environ["PATH"], "CUDA_VISIBLE_DEVICES": "1"}
    assert oneshot.kept(env, "CC")["CC"] == "gcc"


def test_what_it_started_ends_with_it_when_we_are_interrupted():
    """The grandchild is in the program's group, and goes with it."""
    pids = []

    def interrupt(line):
        pids.extend(int(word) for word in line.split())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        oneshot.run(["sh", "-c", "sleep 100 & echo $$ $!; wait"], ENV, on_line=interrupt)
    assert len(pids) == 2
    until(lambda: not any(is_alive(pid) for pid in pids), what=f"{pids} end")


def test_with_grace_it_may_tidy_up_first(tmp_path):
    code = f"""
import signal, sys, time
def tidy(*_): open({str(tmp_path / 'tidy')!r}, 'w').close(); sys.exit(0)
signal.signal(signal.SIGINT, tidy)
print('ready', flush=True)
time.sleep(100)
"""

    def interrupt(line):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        oneshot.run(python(code), ENV, on_line=interrupt, grace=20.0)
    assert (tmp_path / "tidy").exists()


def test_it_ends_when_we_are_killed(tmp_path):
    """A process of its own runs the tool and is killed without a chance to do anything."""
    code = ("import os\nfrom blazar.engines import oneshot\n"
            f"oneshot.run(['sh', '-c', 'echo $$ > {tmp_path}/pid; exec sleep 100'], oneshot.kept(os.environ))")
    env = {**os.environ, "PYTHONPATH": os.getcwd()}
    pid = os.spawnve(os.P_NOWAIT, sys.executable, [sys.executable, "-c", code], env)
    try:
        tool = int(until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip()))
        assert is_alive(tool)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    until(lambda: not is_alive(tool), what="the tool ends")


def test_a_program_that_is_not_there_raises():
    with pytest.raises(FileNotFoundError):
        oneshot.run(["/no/such/program"], ENV)
    with pytest.raises(FileNotFoundError):
        oneshot.run(["no-such-program"], ENV)
