"""A person's data dir with engines, and a release server beside it; what is on disk and in the database afterwards."""

import contextlib
import json
import sqlite3
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from blazar.paths import Paths
from blazar.supervisor import processes
from tests.servers.releases import ReleaseServer
from tests.support.engine_builds import build_of
from tests.support.shell import Shell


class EngineShell(Shell):
    """A shell whose releases come from `server`. The gate is off unless a test turns it on."""

    def __init__(self, home: Path, server: ReleaseServer) -> None:
        super().__init__(home)
        self.server = server
        self.data = home / ".local" / "share" / "blazar"
        self.env |= {"BLAZAR_GH_BASE": server.base, "BLAZAR_ENGINE_GATE": "off"}

    def find_engine(self) -> None:
        """The daemon takes the installed builds."""

    def serving(self) -> set[str]:
        """The tags of the builds that the daemon's children run."""
        return {build_of(pid) for pid in processes.marked(Paths(self.data).data_dir_id)} - {""}

    def ask(self, model: str) -> int:
        """The status of an answer of the daemon; no chat and no chance: what a random model writes may be no
        text."""
        body = json.dumps({"model": model, "prompt": "Once", "max_tokens": 4, "temperature": 0}).encode()
        with urllib.request.urlopen(f"{self.url}/v1/completions", body, timeout=60) as answer:
            return answer.status

    def rows(self) -> dict[str, bool]:
        """Whether each installed build is in use, by tag. The database must be sound."""
        if not (self.data / "blazar.db").exists():
            return {}
        with contextlib.closing(sqlite3.connect(self.data / "blazar.db")) as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            return {tag: bool(active) for tag, active in database.execute("SELECT tag, active FROM engine")}

    def folders(self) -> set[str]:
        """The names of builds that anybody can see."""
        return {path.name for path in (self.data / "engines").iterdir() if path.name != ".incoming"}

    def leftovers(self) -> set[str]:
        """What lies in the folder of unfinished work, without the empty folder of downloads."""
        incoming = self.data / "engines" / ".incoming"
        return {str(path.relative_to(incoming)) for path in incoming.rglob("*")} - {"downloads"}


@contextlib.contextmanager
def engine_shell(home: Path) -> Iterator[EngineShell]:
    with ReleaseServer() as server:
        shell = EngineShell(home, server)
        try:
            yield shell
        finally:
            shell.stop()
