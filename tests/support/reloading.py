"""A daemon with a configuration file that a test rewrites, and streams that end when it says so."""

import json
import threading
import urllib.request
from pathlib import Path
from typing import Any

from blazar.supervisor.gateway import LAUNCHER
from tests.support.daemon import Daemon

PIECE = 'data: {"choices":[{"index":0,"delta":{"content":"%s"},"finish_reason":%s}]}\n\n'


class ReloadedDaemon(Daemon):
    """`write` writes the file, `reload` has it read."""

    def __init__(self, folder: Path, text: str = "", **settings: Any) -> None:
        self.config_file = folder / "config.toml"
        self.gate = folder / "gate"
        self.write(text)
        super().__init__(folder, launcher=LAUNCHER, file=str(self.config_file), **settings)

    def write(self, text: str) -> None:
        fresh = self.config_file.with_suffix(".new")
        fresh.write_text(text)
        fresh.replace(self.config_file)

    def reload(self) -> dict[str, Any]:
        link = self.control()
        try:
            return link.ask("reload", 120)
        finally:
            link.close()

    def pids(self) -> dict[str, int]:
        return {child["model"]: child["pid"] for child in self.status()["children"] if child["state"] == "ready"}

    def workers(self) -> list[int]:
        return self.status()["gateway"]["workers"]

    def install_slow(self, name: str) -> str:
        """A model whose streams wait in the middle for the gate."""
        return self.install(name, headers={"Content-Type": "text/event-stream"}, chunks=[
            PIECE % ("one", "null"), {"until": str(self.gate)}, PIECE % ("two", '"stop"'), "data: [DONE]\n\n"])


class Stream:
    """A streamed chat, read on a thread; `begun` once its first piece is there."""

    def __init__(self, daemon: Daemon, model: str, **options: Any) -> None:
        self.begun = threading.Event()
        self.text = b""
        self.error: BaseException | None = None
        body = {"model": model, "stream": True, "messages": [{"role": "user", "content": "hi"}]}
        self._request = urllib.request.Request(daemon.url + "/v1/chat/completions", json.dumps(body).encode())
        self._options = options
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        try:
            with urllib.request.urlopen(self._request, timeout=120, **self._options) as answer:
                while line := answer.readline():
                    self.text += line
                    self.begun.set()
        except BaseException as error:
            self.error = error
            self.begun.set()

    def whole(self) -> bytes:
        """All of it, once it has ended."""
        self._thread.join(120)
        assert self.error is None and not self._thread.is_alive(), self.error
        return self.text
