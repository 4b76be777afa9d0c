"""A catalog of engine lanes on loopback, with archives that hold the stub engine under llama-server's name."""

import hashlib
import json
import platform
import sys
from pathlib import Path
from typing import Any

from tests.servers.file_server import FileServer
from tests.support.engine_builds import tar

STUB = Path(__file__).parent.parent / "stubs" / "stub_llama_server.py"


def stub_archive(mark: str = "", first: str = "") -> bytes:
    """An archive with an engine that reads anything; `first` is put before its start."""
    script = f'#!/bin/sh\n# {mark}\n{first}\nexec {sys.executable} {STUB} "$@"\n'
    return tar({"llama-fork/llama-server": script.encode(), "llama-fork/LICENSE": b"MIT"})


class LaneCatalog(FileServer):
    """`offer` puts lanes into the catalog at `catalog_url`, in place of those before."""

    @property
    def catalog_url(self) -> str:
        return self.url("/lanes/catalog.json")

    def lane(self, name: str, *architectures: str, archive: bytes | None = None,
             superseded: dict[str, int] | None = None, **more: Any) -> dict[str, Any]:
        """A lane as the catalog describes it; `more` replaces fields of its asset."""
        content = stub_archive(name) if archive is None else archive
        self.put(f"/lanes/{name}.tar.gz", content)
        asset = {"flavour": "cpu", "machine": platform.machine(), "url": f"{name}.tar.gz",
                 "sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
        return {"name": name, "summary": f"for {name} models", "architectures": list(architectures),
                "assets": [{**asset, **more}], "superseded": superseded or {}}

    def offer(self, *lanes: dict[str, Any]) -> None:
        self.put("/lanes/catalog.json", json.dumps({"format": 1, "lanes": list(lanes)}).encode())

    def sent(self, name: str) -> int:
        """Body bytes of that lane's archive that were put on the wire."""
        return sum(seen.sent for seen in self.requests if seen.path == f"/lanes/{name}.tar.gz")
