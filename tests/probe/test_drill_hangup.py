"""Drill: SIGHUP while the configuration file is broken, in every way, under running streams: what stood in it before
holds, nobody is cut short, and nothing ends."""

import os
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from blazar.control import connect
from tests.support.crowd import SCENARIO, TEXT
from tests.support.shell import StubShell
from tests.support.soak.questions import Question, ask
from tests.support.stub_model import install_stub
from tests.support.waiting import until

STREAMS = 4
GOOD = 'slots = 8\nkeys = [{name = "ann", key = "sk-ann"}]\n'


def written(content):
    return lambda file: file.write_bytes(content)


def gone(file):
    file.unlink()


def a_folder(file):
    file.mkdir()


def a_pipe(file):
    """Whoever opened it would wait for somebody to write, and every reload after it too."""
    file.rmdir()
    os.mkfifo(file)


BROKEN = {
    "cut short": written(GOOD.encode()[:-9]), "a key that is not known": written(GOOD.encode() + b"max_loadet = 2\n"),
    "a value out of range": written(GOOD.replace("8", "-8").encode()), "empty keys": written(b'keys = [{name = ""}]\n'),
    "UTF-16": written(GOOD.encode("utf-16")), "noise": written(bytes(range(256)) * 40),
    "empty, as by a full disk": written(b""), "gone": gone,
    "a folder": a_folder, "a pipe": a_pipe,
}


@pytest.fixture
def shell(tmp_path):
    shell = StubShell(tmp_path)
    install_stub(shell.paths, "words", tmp_path, **SCENARIO)
    shell.config.write_text(shell.config.read_text() + GOOD)
    shell.start()
    yield shell
    shell.stop()


def question(shell, number, key="sk-ann"):
    port = int(shell.url.rpartition(":")[2])
    return ask(port, Question("openai", True, "words", f"{number} {time.monotonic()}", 50), key)


def status(shell):
    link = connect(shell.paths.control_socket)
    try:
        return link.ask("status", 20)
    finally:
        link.close()


def test_whatever_is_wrong_with_the_file_the_old_one_holds(shell):
    assert question(shell, 0).text == TEXT
    before = status(shell)
    with ThreadPoolExecutor(STREAMS) as pool:
        for spoil in BROKEN.values():
            running = [pool.submit(question, shell, number) for number in range(STREAMS)]
            spoil(shell.config)
            shell.daemon.send_signal(signal.SIGHUP)
            assert [stream.result().text for stream in running] == [TEXT] * STREAMS
            assert question(shell, 9, "sk-eve").status == 401
            after = status(shell)
            assert after["gateway"] == before["gateway"] and after["pid"] == before["pid"]
            assert [child["pid"] for child in after["children"]] == [child["pid"] for child in before["children"]]
    until(lambda: len(re.findall("SIGHUP: |is refused", shell.paths.daemon_log.read_text())) >= len(BROKEN), 20)
    assert "Traceback" not in shell.paths.daemon_log.read_text()
