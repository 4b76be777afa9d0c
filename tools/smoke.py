"""What `make smoke` does: every dialect, buffered and streamed, against the real engine and model.

The greedy text that comes through the gateway must equal what the engine answers to the same request sent straight
to it. The daemon gets a temporary data dir and any free port. Exits with 1 when a line says FAIL.
"""

import contextlib
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from blazar.cli.client import daemon_status
from blazar.control import connect
from blazar.paths import Paths
from blazar.transport import Endpoint

MODEL = "smollm2-135m"
PROMPT = "Write two sentences about a quiet library."
TOKENS = 24
START_LIMIT = 30.0
BLAZAR = [sys.executable, "-m", "blazar.cli.main"]

MESSAGES = [{"role": "user", "content": PROMPT}]
OPENAI = {"model": MODEL, "messages": MESSAGES, "temperature": 0, "seed": 1, "max_tokens": TOKENS}
OPTIONS = {"temperature": 0, "seed": 1, "num_predict": TOKENS}

Address = tuple[str, int]
Events = list[dict[str, Any]]

CASES: tuple[tuple[str, str, dict[str, Any], Callable[[Events], str]], ...] = (
    # dialect, path, body without `stream`, the text of a buffered answer (one event) or of a stream
    ("openai chat", "/v1/chat/completions", OPENAI,
     lambda events: "".join((choice.get("delta") or choice["message"]).get("content") or ""
                            for event in events for choice in event["choices"])),
    ("ollama chat", "/api/chat", {"model": MODEL, "messages": MESSAGES, "options": OPTIONS},
     lambda events: "".join(event["message"]["content"] for event in events)),
    ("ollama generate", "/api/generate", {"model": MODEL, "prompt": PROMPT, "options": OPTIONS},
     lambda events: "".join(event["response"] for event in events)),
    ("anthropic messages", "/v1/messages",
     {"model": MODEL, "messages": MESSAGES, "temperature": 0, "max_tokens": TOKENS},
     lambda events: "".join(block["text"] for event in events for block in event.get("content", ()))
     + "".join(event["delta"].get("text", "") for event in events if event.get("type") == "content_block_delta")),
)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="blazar-smoke-") as folder:
        paths = Paths(Path(folder) / "data")
        env = {**os.environ, "XDG_CONFIG_HOME": folder}
        env.pop("BLAZAR_CONFIG", None)
        subprocess.run([*BLAZAR, "--data-dir", str(paths.data_dir), "pull", MODEL], env=env, check=True)
        with serving(paths, env) as gateway:
            return compare(paths, gateway)


@contextlib.contextmanager
def serving(paths: Paths, env: dict[str, str]) -> Iterator[Address]:
    daemon = subprocess.Popen([*BLAZAR, "--data-dir", str(paths.data_dir), "serve", "--port", "0"], env=env)
    try:
        deadline = time.monotonic() + START_LIMIT
        while (running := daemon_status(paths)) is None or not answers(address := address_of(running["url"])):
            if daemon.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the daemon does not answer; it ended with {daemon.poll()}")
            time.sleep(0.05)
        yield address
    finally:
        daemon.terminate()
        daemon.wait()


def compare(paths: Paths, gateway: Address) -> int:
    call(gateway, "/v1/chat/completions", {**OPENAI, "stream": False})  # loads the model, and fills the prompt cache
    child = child_of(paths)
    straight = text_of(CASES[0], child.address, False, child.secret)
    print(f"the engine itself answers: {straight!r}", flush=True)
    failed = 0 if straight else 1
    for case in CASES:
        for stream in (False, True):
            answer = text_of(case, gateway, stream)
            passed = answer == straight
            failed += not passed
            print(f"{'PASS' if passed else 'FAIL'}  {case[0]}, {'streamed' if stream else 'buffered'}"
                  + ("" if passed else f": {answer!r}"), flush=True)
    return 1 if failed else 0


def text_of(case: Any, address: Any, stream: bool, secret: str | None = None) -> str:
    _, path, body, read = case
    return read(events_of(call(address, path, {**body, "stream": stream}, secret)))


def child_of(paths: Paths) -> Endpoint:
    """Where the loaded child listens, and its secret: the control socket tells whoever may open it."""
    link = connect(paths.control_socket)
    try:
        children = link.ask("hello", timeout=5.0, role="cli", pid=os.getpid(), leases={})["snapshot"]["children"]
    finally:
        link.close()
    return Endpoint.from_dict(next(iter(children.values())))


def call(address: Address, path: str, body: dict[str, Any], secret: str | None = None) -> bytes:
    connection = http.client.HTTPConnection(*address, timeout=120)
    try:
        headers = {"Content-Type": "application/json", "anthropic-version": "2023-06-01"}
        if secret:
            headers["Authorization"] = f"Bearer {secret}"
        connection.request("POST", path, json.dumps(body), headers)
        response = connection.getresponse()
        data = response.read()
        if response.status != 200:
            raise SystemExit(f"FAIL  {path} answered {response.status}: {data.decode(errors='replace')}")
        return data
    finally:
        connection.close()


def events_of(data: bytes) -> Events:
    """The JSON objects of a buffered answer, of a line-wise stream or of server-sent events."""
    if data.startswith((b"data:", b"event:")):
        lines = [line[5:].strip() for line in data.splitlines() if line.startswith(b"data:")]
    else:
        lines = data.splitlines()
    return [json.loads(line) for line in lines if line and line != b"[DONE]"]


def answers(address: Address) -> bool:
    connection = http.client.HTTPConnection(*address, timeout=2)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def address_of(url: str) -> Address:
    host, _, port = url.removeprefix("http://").rpartition(":")
    return host, int(port)


if __name__ == "__main__":
    raise SystemExit(main())
