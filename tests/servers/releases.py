"""A release server in the shape of GitHub's API, over loopback; its archives are files of a `FileServer`, faults too.

    with ReleaseServer() as server:
        file = server.release("b100", {"cpu": archive})["cpu"]     # a prerelease, as llama.cpp's builds are
        server.stable("v0.1.0", "b100")                            # a release with nothing but a pointer
        ... {"BLAZAR_GH_BASE": server.base} ...
        server.archive_bytes()                                     # bytes of archives put on the wire
"""

import hashlib
import json
import time
from collections.abc import Mapping
from typing import Any

from tests.servers.file_server import File, FileServer, Reply, Seen

REPO = "ggml-org/llama.cpp"


class ReleaseServer(FileServer):
    def __init__(self, repo: str = REPO, arch: str = "x64") -> None:
        super().__init__()
        self.fault: Reply | None = None
        """What every question to the API gets instead of its answer."""
        self.releases: list[dict[str, Any]] = []
        """As the API lists them, the newest first."""
        self._arch = arch
        self._api = f"/repos/{repo}/releases"
        self._files = f"/{repo}/releases/download"
        self.on(self._api, self._answer)
        self.on(self._api + "/", self._answer)

    def release(self, tag: str, archives: Mapping[str, bytes], *, form: str = "tar.gz", digest: str = "right",
                prerelease: bool = True, runtimes: Mapping[str, bytes] = {}) -> dict[str, File]:
        """Publish a build with an archive for each flavour; the files, whose switches may be changed.

        `digest` is right, wrong, missing, or sums: then it stands in a file of the release.
        """
        files, assets = {}, []
        for flavour, content in archives.items():
            middle = "" if flavour == "cpu" else f"{flavour}-"
            name = f"llama-{tag}-bin-ubuntu-{middle}{self._arch}.{form}"
            files[flavour] = self.put(f"{self._files}/{tag}/{name}", content)
            assets.append(self._asset(tag, name, content, digest))
            if flavour in runtimes:
                files[f"cudart {flavour}"] = self.put(f"{self._files}/{tag}/cudart-{name}", runtimes[flavour])
                assets.append(self._asset(tag, f"cudart-{name}", runtimes[flavour], digest))
        if digest == "sums":
            sums = "".join(f"{hashlib.sha256(archives[flavour]).hexdigest()} *{asset['name']}\n"
                           for flavour, asset in zip(archives, assets, strict=True)).encode()
            self.put(f"{self._files}/{tag}/SHA256SUMS", sums)
            assets.append(self._asset(tag, "SHA256SUMS", sums, "missing"))
        self._publish(tag, assets, prerelease)
        return files

    def stable(self, marker: str, tag: str) -> None:
        """Publish the stable release `marker`, which stamps the build `tag`."""
        content = f"{tag}\n".encode()
        self.put(f"{self._files}/{marker}/nightly-tag.txt", content)
        self._publish(marker, [self._asset(marker, "nightly-tag.txt", content, "right")], prerelease=False)

    def archive_bytes(self) -> int:
        """Body bytes of archives that were put on the wire."""
        return sum(seen.sent for seen in self.requests if seen.path.endswith((".tar.gz", ".zip")))

    def questions(self) -> list[str]:
        """What the API was asked, in order."""
        return [seen.target.removeprefix(self._api) for seen in self.requests if seen.path.startswith(self._api)]

    def _publish(self, tag: str, assets: list[dict[str, Any]], prerelease: bool) -> None:
        self.releases.insert(0, {"tag_name": tag, "name": tag, "draft": False, "prerelease": prerelease,
                                 "published_at": "2026-10-10T10:10:10Z", "assets": assets})

    def _asset(self, tag: str, name: str, content: bytes, digest: str) -> dict[str, Any]:
        told = {"right": f"sha256:{hashlib.sha256(content).hexdigest()}", "wrong": f"sha256:{'0' * 64}"}.get(digest)
        return {"name": name, "size": len(content), "digest": told, "state": "uploaded",
                "browser_download_url": self.url(f"{self._files}/{tag}/{name}")}

    def _answer(self, seen: Seen) -> Reply:
        if self.fault is not None:
            return self.fault
        what = seen.path.removeprefix(self._api)
        if what == "":
            return _json(self.releases)
        if what == "/latest":
            found = [one for one in self.releases if not one["prerelease"] and not one["draft"]]
        else:
            found = [one for one in self.releases if what == f"/tags/{one['tag_name']}"]
        return _json(found[0]) if found else _json({"message": "Not Found", "status": "404"}, 404)


def rate_limited(seconds: int) -> Reply:
    """GitHub's answer to whoever has asked too often without an account."""
    return Reply(403, b'{"message": "API rate limit exceeded"}',
                 {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(time.time()) + seconds)})


def _json(value: Any, status: int = 200) -> Reply:
    return Reply(status, json.dumps(value).encode(), {"Content-Type": "application/json; charset=utf-8"})
