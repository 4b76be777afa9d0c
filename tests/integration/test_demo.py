"""What `make run` does, with the real model: the answer, the lines to copy, a second start, and Ctrl-C."""

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.support.needs import need
from tests.support.shell import Shell

DEMO = [sys.executable, "tools/demo.py"]


@pytest.fixture
def shell(tmp_path):
    shell = Shell(tmp_path)
    shell.find_engine()
    pulled = shell("pull", "smollm2-135m")
    if pulled.returncode != 0:
        pytest.skip(pulled.stderr)
    return shell


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.timeout(300)
def test_the_demo_answers_and_its_examples_work_as_printed(shell):
    need("curl")
    demo = subprocess.Popen(DEMO, env=shell.env, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        shown = []
        for line in demo.stdout:
            shown.append(line.rstrip("\n"))
            if line.startswith("Ctrl-C"):
                break
        answer = shown[shown.index(">>> Write two sentences about a quiet library.") + 1]
        assert "library" in answer and answer.endswith("."), shown
        replies = [subprocess.run(["bash", "-c", line], capture_output=True, text=True).stdout
                   for line in shown if line.startswith("curl")]
        openai, ollama, anthropic = replies
        assert json.loads(openai)["choices"][0]["message"]["content"] == answer
        assert "".join(json.loads(line)["response"] for line in ollama.splitlines()) == answer
        assert json.loads(anthropic)["content"][0]["text"] == answer

        second = subprocess.run(DEMO, env=shell.env, capture_output=True, text=True)
        assert second.returncode == 3 and "already runs" in second.stdout
    finally:
        os.killpg(demo.pid, signal.SIGINT)
        code = demo.wait(timeout=20)
        demo.stdout.close()
    assert code == 0
