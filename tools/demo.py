"""What `make run` does: install the small model if it is missing, serve, show one streamed answer, keep serving.

Everything goes through the command line that a person would type, and through the daemon's own HTTP.
"""

import os
import subprocess
import sys
import time

from blazar.cli.client import Client, daemon_status
from blazar.paths import Paths, locate

MODEL = "smollm2-135m"
PROMPT = "Write two sentences about a quiet library."
OPTIONS = {"temperature": 0, "num_predict": 90}
"""The model is tiny: most of what it says is poor. This prompt with these options gave a whole, sensible answer."""

START_LIMIT = 30.0
"""Seconds after which a daemon that does not answer is given up."""

BLAZAR = [sys.executable, "-P", "-m", "blazar.cli.main"]
"""From where this program has it: from the checkout, or from the compiled form of it."""


def main() -> int:
    paths = locate(os.environ).paths
    running = daemon_status(paths)
    if running is not None:
        print(f"Blazar already runs (pid {running['pid']}) at {running['url']}; `kill {running['pid']}` stops it")
        return 3
    if not installed():
        print(f"pulling {MODEL}, about 95 MB ...", flush=True)
        if (code := blazar("pull", MODEL)) != 0:
            return code
    daemon = subprocess.Popen([*BLAZAR, "serve"])
    try:
        url = wait_until_ready(daemon, paths)
        if url is not None:
            show(Client(url))
        return daemon.wait()
    except KeyboardInterrupt:
        # The terminal sent Ctrl-C to the daemon as well: it is stopping already.
        return daemon.wait()
    finally:
        if daemon.poll() is None:
            daemon.terminate()
            daemon.wait()


def blazar(*arguments: str, quiet: bool = False) -> int:
    return subprocess.call([*BLAZAR, *arguments], stdout=subprocess.DEVNULL if quiet else None,
                           stderr=subprocess.DEVNULL if quiet else None)


def installed() -> bool:
    return blazar("show", MODEL, quiet=True) == 0


def wait_until_ready(daemon: "subprocess.Popen[bytes]", paths: Paths) -> str | None:
    """The URL of the daemon once it answers; None when it ended instead, having said why."""
    deadline = time.monotonic() + START_LIMIT
    while time.monotonic() < deadline and daemon.poll() is None:
        running = daemon_status(paths)
        if running is not None and Client(running["url"]).answers():
            return running["url"]
        time.sleep(0.05)
    if daemon.poll() is None:
        print(f"the daemon does not answer after {START_LIMIT:.0f} s; its log is {paths.daemon_log}", file=sys.stderr)
        daemon.terminate()
    return None


def show(client: Client) -> None:
    print(f"\n>>> {PROMPT}")
    body = {"model": MODEL, "messages": [{"role": "user", "content": PROMPT}], "options": OPTIONS, "stream": True}
    for event in client.stream("/api/chat", body):
        print(event.get("message", {}).get("content", ""), end="", flush=True)
    print("\n\nBlazar serves on " + client.url + ". Try it from another terminal:\n")
    for dialect, command in examples(client.url).items():
        print(f"# {dialect}\n{command}\n")
    print("Ctrl-C stops it.", flush=True)


def examples(url: str) -> dict[str, str]:
    """One command line a dialect."""
    chat = f'"model":"{MODEL}","max_tokens":90,"temperature":0,"messages":[{{"role":"user","content":"{PROMPT}"}}]'
    ask = f'"model":"{MODEL}","prompt":"{PROMPT}","options":{{"temperature":0,"num_predict":90}}'
    send = "-H 'Content-Type: application/json'"
    return {
        "OpenAI": f"curl -s {url}/v1/chat/completions {send} -d '{{{chat}}}'",
        "Ollama": f"curl -s {url}/api/generate -d '{{{ask}}}'",
        "Anthropic": f"curl -s {url}/v1/messages {send} -H 'anthropic-version: 2023-06-01' -d '{{{chat}}}'",
    }


if __name__ == "__main__":
    raise SystemExit(main())
