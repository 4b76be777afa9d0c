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
from dataclasses import dataclass
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

Address = tuple[str, int]
Events = list[dict[str, Any]]


@dataclass(frozen=True)
class Case:
    """One route: its body without `stream`, and how its text is read from the events of an answer or a stream."""

    name: str
    path: str
    body: dict[str, Any]
    read: Callable[[Events], str]


def openai_text(events: Events) -> str:
    choices = [choice for event in events for choice in event["choices"]]
    return "".join(choice.get("text") or (choice.get("delta") or choice.get("message") or {}).get("content") or ""
                   for choice in choices)


def anthropic_text(events: Events) -> str:
    whole = [block["text"] for event in events for block in event.get("content", ())]
    return "".join(whole + [event["delta"].get("text", "") for event in events
                            if event.get("type") == "content_block_delta"])


MESSAGES = [{"role": "user", "content": PROMPT}]
GREEDY = {"model": MODEL, "temperature": 0, "seed": 1, "max_tokens": TOKENS}
OPTIONS = {"temperature": 0, "seed": 1, "num_predict": TOKENS}

CHAT = Case("openai chat", "/v1/chat/completions", {**GREEDY, "messages": MESSAGES}, openai_text)
COMPLETIONS = Case("openai completions", "/v1/completions", {**GREEDY, "prompt": "A quiet library is"}, openai_text)

CASES = (
    # through the gateway, and the case that goes straight to the engine with the same request
    (CHAT, CHAT),
    (COMPLETIONS, COMPLETIONS),
    (Case("ollama chat", "/api/chat", {"model": MODEL, "messages": MESSAGES, "options": OPTIONS},
          lambda events: "".join(event["message"]["content"] for event in events)), CHAT),
    (Case("ollama generate", "/api/generate", {"model": MODEL, "prompt": PROMPT, "options": OPTIONS},
          lambda events: "".join(event["response"] for event in events)), CHAT),
    (Case("anthropic messages", "/v1/messages",
          {"model": MODEL, "messages": MESSAGES, "temperature": 0, "max_tokens": TOKENS}, anthropic_text), CHAT),
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
    """Each route once whole and once streamed. The engine is asked twice, so that its prompt cache is in the same
    state for everybody who follows."""
    failed = 0
    text_of(CHAT, gateway, False)  # loads the model
    child = child_of(paths)
    for case, same in CASES:
        straight = [text_of(same, child.address, False, child.secret) for _ in range(2)][-1]
        for stream in (False, True):
            answer = text_of(case, gateway, stream)
            passed = answer == straight != ""
            failed += not passed
            print(f"{'PASS' if passed else 'FAIL'}  {case.name}, {'streamed' if stream else 'buffered'}: {answer!r}"
                  + ("" if passed else f"\n      the engine itself: {straight!r}"), flush=True)
    return 1 if failed else 0


def text_of(case: Case, address: Any, stream: bool, secret: str | None = None) -> str:
    return case.read(events_of(call(address, case.path, {**case.body, "stream": stream}, secret)))


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
