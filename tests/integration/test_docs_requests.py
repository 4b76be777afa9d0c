"""docs/requests.md: its commands print what it says, against a daemon with a request that does not end."""

import json
import os
import re
import shlex
import subprocess
import threading
from pathlib import Path

from blazar.supervisor.gateway import LAUNCHER
from tests.support.daemon import Daemon
from tests.support.shell import BLAZAR
from tests.support.waiting import until

PAGE = (Path(__file__).parent.parent.parent / "docs" / "requests.md").read_text()
BLOCKS = [block.partition("\n") for block in re.findall(r"```\n\$ (.*?)```", PAGE, re.DOTALL)]
CHUNK = 'data: {"choices":[{"index":0,"delta":{"content":"one"},"finish_reason":null}]}\n\n'


def alike(text: str) -> str:
    """`text` with its numbers and the width of its columns made alike."""
    text = re.sub(r"\[ip\]:\d+", "CLIENT", text)
    return re.sub(r" {2,}", "  ", re.sub(r"\b\d+(\.\d+)? (ms|s)\b|\b\d+ \+ \d+", "N", text))


def test_its_commands(tmp_path):
    def ask() -> None:
        body = {"model": model, "stream": True, "messages": [{"role": "user", "content": "hi"}]}
        subprocess.run(["curl", "-sN", f"{daemon.url}/v1/chat/completions", "-H", "X-Request-Id: long-1", "-H",
                        "Content-Type: application/json", "-d", json.dumps(body)], timeout=60,
                       stdout=subprocess.DEVNULL)

    def run(command: str, ends_with: int = 0, **env: str) -> str:
        words = shlex.split(command)[1:]
        done = subprocess.run([*BLAZAR, "--data-dir", str(daemon.paths.data_dir), *words], text=True, timeout=60,
                              capture_output=True, env={**os.environ, "HOME": str(tmp_path), **env})
        assert done.returncode == ends_with, done.stderr
        return done.stdout + done.stderr

    with Daemon(tmp_path, tuple(LAUNCHER)) as daemon:
        model = daemon.install("smollm2-135m", chunks=[CHUNK, {"pause": 60}])
        daemon.start()
        asker = threading.Thread(target=ask, daemon=True)
        asker.start()
        until(lambda: "running" in run("blazar requests") and "  1  " in alike(run("blazar requests")), 30, "a stream")
        for command, _, printed in BLOCKS:
            assert alike(run(command)) == alike(printed), command
            if "--cancel" in command:
                asker.join(30)
                assert not asker.is_alive()
        command, _, printed = BLOCKS[-1]
        assert alike(run(command, BLAZAR_HOST=daemon.url)) == alike(printed), "over HTTP"
        for env in ({}, {"BLAZAR_HOST": daemon.url}):
            assert "no request 'a%b?c' is under way" in run("blazar requests --cancel 'a%b?c'", 1, **env)
