"""A Hugging-Face-shaped model registry over loopback: listings, trees in pages, and files that lie on another host.

    with Registry() as registry:
        repo = registry.add("owner/Tiny-GGUF", {"tiny-Q8_0.gguf": content})
        ... BLAZAR_REGISTRY_BASE=registry.base ...
        registry.file("owner/Tiny-GGUF", "tiny-Q8_0.gguf").cut_every = 10_000      # the switches of file_server.File

The files' bytes come from `store`, a second server, to which `/resolve/` redirects.
"""

import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from tests.servers.file_server import File, FileServer, Reply, Seen

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Repo:
    """One repository, and its switches."""

    files: dict[str, bytes]
    license: str | None = "apache-2.0"
    token: str | None = None
    """Private: others are told 401, as for a repository that does not exist."""
    gated: bool = False
    """Anybody sees the listing; the files are for `token` alone."""
    sizes: bool = True
    """Whether the listing tells sizes, or only the tree does."""
    page: int = 1000
    """Entries of a page of the tree."""
    digests: dict[str, str] = field(default_factory=dict)
    """What is claimed in place of a file's sha256."""
    scripted: list[Reply] = field(default_factory=list)
    """Answers to the first requests for the listing."""

    def lfs(self, path: str) -> dict[str, Any]:
        content = self.files[path]
        digest = self.digests.get(path) or hashlib.sha256(content).hexdigest()
        return {"sha256": digest, "size": len(content), "pointerSize": 134}

    def lets_in(self, seen: Seen) -> bool:
        return self.token is None or seen.headers.get("authorization") == f"Bearer {self.token}"


class Registry:
    """Both servers; use it as a context manager."""

    def __init__(self) -> None:
        self.server = FileServer()
        self.store = FileServer()
        self.repos: dict[str, Repo] = {}
        self.server.on("/api/models/", self._api)

    def __enter__(self) -> "Registry":
        self.server.__enter__()
        self.store.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.store.__exit__()
        self.server.__exit__()

    @property
    def base(self) -> str:
        return self.server.base

    def add(self, name: str, files: dict[str, bytes], **switches: Any) -> Repo:
        repo = self.repos[name] = Repo(files, **switches)
        for path, content in files.items():
            self.store.put(f"/{name}/{path}", content)
        self.server.on(f"/{name}/resolve/", lambda seen: self._resolve(name, repo, seen))
        return repo

    def file(self, name: str, path: str) -> File:
        """The switches of one file."""
        found = self.store.route(f"/{name}/{path}")
        assert isinstance(found, File)
        return found

    def sent(self, name: str, path: str) -> int:
        """Bytes of that file that were put on the wire."""
        return self.store.sent(f"/{name}/{path}")

    def tokens(self) -> set[str | None]:
        """What the host of the files was told as Authorization."""
        return {seen.headers.get("authorization") for seen in self.store.requests}

    def _api(self, seen: Seen) -> Reply:
        found = re.fullmatch(r"/api/models/([^/]+/[^/]+)/(revision|tree)/([^/]+)", seen.path)
        repo = self.repos.get(found[1]) if found else None
        if found is None or repo is None or (not repo.gated and not repo.lets_in(seen)):
            return _json({"error": "Invalid username or password."}, 401)
        if found[3] not in ("main", COMMIT):
            return _json({"error": "Revision not found"}, 404)
        if repo.scripted:
            return repo.scripted.pop(0)
        return self._tree(found[1], repo, seen) if found[2] == "tree" else _json(self._about(found[1], repo))

    def _about(self, name: str, repo: Repo) -> dict[str, Any]:
        siblings = [{"rfilename": ".gitattributes", "size": 1519}, {"rfilename": "README.md", "size": 40}]
        siblings += [{"rfilename": path, **({"size": len(content), "lfs": repo.lfs(path)} if repo.sizes else {})}
                     for path, content in repo.files.items()]
        card = {"license": repo.license} if repo.license else {}
        return {"id": name, "sha": COMMIT, "gated": "auto" if repo.gated else False, "cardData": card,
                "siblings": siblings}

    def _tree(self, name: str, repo: Repo, seen: Seen) -> Reply:
        entries: list[dict[str, Any]] = [{"type": "directory", "path": "folder", "oid": "1"}]
        for path, content in repo.files.items():
            lfs = repo.lfs(path)
            entries.append({"type": "file", "path": path, "size": len(content), "oid": "2",
                            "lfs": {"oid": lfs["sha256"], "size": lfs["size"], "pointerSize": 134}})
        cursor = int((re.search(r"cursor=(\d+)", seen.query) or [0, 0])[1])
        reply = _json(entries[cursor:cursor + repo.page])
        if cursor + repo.page < len(entries):
            following = self.server.url(f"{seen.path}?recursive=true&cursor={cursor + repo.page}")
            reply.headers["Link"] = f'<{following}>; rel="next"'
        return reply

    def _resolve(self, name: str, repo: Repo, seen: Seen) -> Reply:
        path = unquote(seen.path.removeprefix(f"/{name}/resolve/").partition("/")[2])
        if path not in repo.files:
            return Reply(404, b"Entry not found")
        if not repo.lets_in(seen):
            return Reply(403 if "authorization" in seen.headers else 401, b"Access to model is restricted")
        return Reply(302, headers={"Location": self.store.url(f"/{name}/{path}"),
                                   "X-Linked-Size": str(len(repo.files[path]))})


def _json(plain: Any, status: int = 200) -> Reply:
    return Reply(status, json.dumps(plain).encode(), {"Content-Type": "application/json"})
