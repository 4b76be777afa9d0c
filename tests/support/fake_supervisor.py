"""A stand-in for the supervisor: binds, starts the real gateway, answers its control connection as a test says."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import blazar
from blazar.control import Link, Message, short_socket_path
from blazar.errors import BlazarError, LoadFailed
from blazar.paths import Paths
from blazar.telemetry.exposition import Family, page
from blazar.transport import Endpoint
from tests.support.tree_under_test import TREE

MODEL = {"size": 91 << 20, "digest": "d" * 64, "modified_at": "2026-11-01T10:00:00+00:00", "architecture": "llama",
         "family": "llama", "format": "gguf", "parameter_count": 134515008, "parameter_size": "134.5M",
         "quantization": "Q4_1", "context_length": 2048, "capabilities": ["completion"], "embedding_length": 576}


def eventually(check: Callable[[], Any], seconds: float = 10.0, what: str = "") -> Any:
    """The first true value of `check`, polled until `seconds` have passed."""
    deadline = time.monotonic() + seconds
    while not (value := check()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what or check}"
        time.sleep(0.01)
    return value


def endpoint(model: str, address: tuple[str, int] | str, number: int = 1, **changes: Any) -> Endpoint:
    plain = {"child_id": f"{model}#{number}", "model": model, "address": address, "secret": "s3cret",
             "lane": "llamacpp", "pid": os.getpid(), "slots": 4, "ctx": 2048, "size": 1 << 20, "size_vram": 0,
             "keep_alive": 300.0, "ready_at": time.monotonic()}
    return Endpoint(**{**plain, **changes})


class FakeSupervisor:
    """Use as a context manager; `loaded` and `installed` are what it tells the gateway."""

    def __init__(self, folder: Path, installed: list[str], config: dict[str, Any] | None = None,
                 aliases: dict[str, str] | None = None, grace: float = 5.0) -> None:
        self.folder = folder
        self.installed = installed
        self.aliases = aliases or {}
        self.facts: dict[str, dict[str, Any]] = {}
        """What is different about a model, by name."""
        self.loaded: dict[str, Endpoint] = {}
        self.loadable: dict[str, Endpoint] = {}
        """What `ensure_ready` brings up."""
        self.load_seconds = 0.0
        self.config = config or {}
        self.wedged = False
        """What it finds when it examines a child."""
        self.blobs: set[str] = set()
        """Digests of files that clients need not send."""
        self.kept: dict[tuple[str, str, str], dict[str, str]] = {}
        """What is kept for clients, by table, owner and id."""
        self.usage: dict[str, Any] = {"day": "2026-01-31", "tokens": {}}
        self.events: list[Message] = []
        """What a listener is told first."""
        self.missed = False
        self.heard: list[Message] = []
        self.links: list[Link] = []
        self.process: subprocess.Popen[bytes] | None = None
        self._grace = grace
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self.paths = Paths(folder).ensure()
        self._control = self.paths.control_socket
        self._server: socket.socket | None = None

    def __enter__(self) -> "FakeSupervisor":
        self.open_control()
        self.launch()
        self.wait_for_hello(1)
        return self

    def __exit__(self, *_: Any) -> None:
        self.kill()
        self.close_control()
        self._listener.close()

    # -- the gateway -------------------------------------------------------------------------------

    def launch(self) -> None:
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        environment = {"PATH": os.environ["PATH"], "HOME": str(home), "GUNICORN_CMD_ARGS": "--workers 7 --bogus",
                       "PYTHONPATH": os.pathsep.join([str(TREE), os.environ.get("PYTHONPATH", "")])}
        (self.folder / "gunicorn.conf.py").write_text("raise SystemExit('the working directory was read')\n")
        fd = self._listener.fileno()
        self.output = (self.folder / "gateway.log").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", *self.command(fd)], pass_fds=[fd], cwd=self.folder,
            env={**environment, **self.environment()}, start_new_session=True, stdout=self.output, stderr=self.output)

    def command(self, fd: int) -> list[str]:
        """The module that serves the listener `fd`, and its arguments."""
        return ["blazar.proxy.serve", "--fd", str(fd), "--control", str(self._control), "--grace", str(self._grace)]

    def environment(self) -> dict[str, str]:
        """What that needs besides."""
        return {}

    def log(self) -> str:
        return (self.folder / "gateway.log").read_text()

    def kill(self) -> None:
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.output.close()
            self.process = None

    def worker_pid(self) -> int:
        return [message["pid"] for message in self.heard if message["kind"] == "hello"][-1]

    def wait_for_hello(self, number: int) -> None:
        def arrived() -> bool:
            assert self.process.poll() is None, self.log()
            return len(self.notes("hello")) >= number
        eventually(arrived, 20, "hello")

    # -- the control connection --------------------------------------------------------------------

    def open_control(self) -> None:
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with short_socket_path(self._control) as address:
            self._server.bind(address)
        self._server.listen(8)
        threading.Thread(target=self._accept, args=(self._server,), daemon=True).start()

    def close_control(self) -> None:
        if self._server is not None:
            with contextlib.suppress(OSError):
                self._server.shutdown(socket.SHUT_RDWR)
            self._server.close()
            self._server = None
            self._control.unlink(missing_ok=True)
        for link in self.links:
            link.close()

    def _accept(self, server: socket.socket) -> None:
        while True:
            try:
                sock, _ = server.accept()
            except OSError:
                return
            self.links.append(Link(sock, self._hear))
            self.links[-1].start()  # only now: who has heard its hello may ask for the link

    def notes(self, kind: str) -> list[Message]:
        return [message for message in list(self.heard) if message["kind"] == kind]

    def link(self) -> Link:
        return self.links[-1]

    def snapshot(self) -> dict[str, Any]:
        models = {name: {"name": name, **MODEL, **self.facts.get(name, {})} for name in self.installed}
        return {"models": models, "aliases": self.aliases,
                "children": {name: one.to_dict() for name, one in self.loaded.items()}, "started_at": 1.0}

    def push(self) -> None:
        for link in self.links:
            link.note("snapshot", snapshot=self.snapshot())

    def _hear(self, link: Link, message: Message) -> None:
        if message["kind"] == "hello":  # answered before it counts as heard: what a test pushes then comes after that
            self._answer(link, message, self.on_hello)
            self.heard.append(message)
            return
        self.heard.append(message)
        answer = getattr(self, f"on_{message['kind']}", None)
        if answer is not None:
            threading.Thread(target=self._answer, args=(link, message, answer), daemon=True).start()

    @staticmethod
    def _answer(link: Link, message: Message, answer: Callable[[Message], dict[str, Any]]) -> None:
        try:
            link.answer(message, **answer(message))
        except BlazarError as error:
            link.refuse(message, error)

    def on_hello(self, message: Message) -> dict[str, Any]:
        return {"config": self.config, "snapshot": self.snapshot(), "version": blazar.__version__,
                "usage": self.usage}

    def on_ensure_ready(self, message: Message) -> dict[str, Any]:
        time.sleep(self.load_seconds)
        model = message["model"]
        if model not in self.loadable:
            raise LoadFailed(model=model, reason="the stub was told so", output="")
        self.loaded[model] = self.loadable[model]
        self.push()
        return {"endpoint": self.loaded[model].to_dict()}

    def on_requests(self, message: Message) -> dict[str, Any]:
        answer = self.link().ask("requests", 5, **{name: message[name] for name in ("key", "finished", "cancel")})
        return {name: answer[name] for name in ("requests", "finished", "cancelled")}

    def on_metrics(self, message: Message) -> dict[str, Any]:
        told = self.link().ask("metrics", 5)
        return {"text": page(Family.from_plain(plain) for plain in told["families"])}

    def on_events(self, message: Message) -> dict[str, Any]:
        return {"events": self.events, "missed": self.missed}

    def on_evict(self, message: Message) -> dict[str, Any]:
        gone = self.loaded.pop(message["model"], None)
        self.push()
        return {"evicted": gone is not None}

    def on_examine(self, message: Message) -> dict[str, Any]:
        return {"wedged": self.wedged}

    def on_remove(self, message: Message) -> dict[str, Any]:
        self.installed.remove(message["model"])
        self.push()
        return {}

    def on_create(self, message: Message) -> dict[str, Any]:
        return {"model": {"name": message["name"]}, "warnings": []}

    def on_copy(self, message: Message) -> dict[str, Any]:
        return {"model": {"name": message["name"]}}

    def on_blob(self, message: Message) -> dict[str, Any]:
        return {"here": message["digest"] in self.blobs}

    def on_keep(self, message: Message) -> dict[str, Any]:
        place = message["table"], message["owner"], message["object"]
        if message["verb"] == "put":
            self.kept[place] = {name: message[name] for name in ("metadata", "input", "body")}
        if message["verb"] == "forget":
            return {"there": self.kept.pop(place, None) is not None}
        return {"row": self.kept.get(place), "there": place in self.kept}

    def on_batches(self, message: Message) -> dict[str, Any]:
        return {"row": None}

    def on_describe(self, message: Message) -> dict[str, Any]:
        facts = self.facts.get(message["model"], {})
        return {"model": {"name": message["model"], **MODEL, **facts, "template": "T", "parameters": "",
                          "license": "MIT", "model_info": {"general.architecture": "llama"}, "source": "test"}}
