"""`Releases`: the engine releases of a GitHub-shaped API, as values. Nothing is downloaded but small answers.

llama.cpp publishes builds as `bNNNN`, marked as prereleases, with one archive for each flavour. A stable release
(`v0.6.0`) holds no archive but `nightly-tag.txt`, which names the build that it stamps.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from blazar.engines.install.answers import NoAnswer, get, is_address
from blazar.errors import ReleaseNotFound, ReleasesUnreachable

API = "https://api.github.com"
REPO = "ggml-org/llama.cpp"
POINTER = "nightly-tag.txt"
SUMS = ("sha256sums.txt", "sha256sums", "checksums.txt", "checksums.sha256")
"""What a release may call the file with all its checksums."""

LOOKED_AT = 20
"""How many releases back one with a build for this machine is looked for: the newest may still be uploading."""
MOST_BYTES = 8 << 20
"""Of one answer of the API; twenty releases of llama.cpp are a megabyte."""
LARGEST = 1 << 40
"""Bytes of a file that may be true."""
ACCEPT = "application/vnd.github+json, */*"

_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,199}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Asset:
    """One file of a release. `size` is in bytes; `sha256` is 64 hex digits, None when the API does not tell it."""

    name: str
    url: str
    size: int | None
    sha256: str | None


@dataclass(frozen=True)
class Release:
    tag: str
    assets: tuple[Asset, ...]

    def asset(self, name: str) -> Asset | None:
        return next((asset for asset in self.assets if asset.name == name), None)


@dataclass(frozen=True)
class Stable:
    """What upstream calls stable: the build `tag`, and the `marker` that stamps it, None when there is no such word."""

    tag: str
    marker: str | None


class Releases:
    """The releases of one repository. Every method asks the server; every failure is told in words."""

    def __init__(self, base: str | None = None, repo: str | None = None, files: str | None = None) -> None:
        """`base` stands for GitHub's API; with `files` the files of a release are fetched as `files/TAG/NAME`."""
        self.repo = repo or REPO
        self._root = f"{(base or API).rstrip('/')}/repos/{self.repo}/releases"
        self._files = files.rstrip("/") if files else None

    @classmethod
    def configured(cls, runtime: Mapping[str, Any]) -> "Releases":
        """Those that the environment names: BLAZAR_GH_BASE, BLAZAR_REPO, BLAZAR_INSTALL_BASE_URL."""
        return cls(runtime.get("BLAZAR_GH_BASE"), runtime.get("BLAZAR_REPO"), runtime.get("BLAZAR_INSTALL_BASE_URL"))

    def newest(self) -> list[Release]:
        """The last releases, the newest first, prereleases among them."""
        try:
            found = self._json(f"{self._root}?per_page={LOOKED_AT}")
        except ReleaseNotFound as error:
            raise ReleasesUnreachable(url=self._root, reason=f"the server knows no repository {self.repo}") from error
        if not isinstance(found, list):
            raise ReleasesUnreachable(url=self._root, reason="the answer is no list of releases")
        releases = [self._release(plain) for plain in found if isinstance(plain, dict) and not plain.get("draft")]
        return sorted((one for one in releases if one is not None), key=_by_number, reverse=True)

    def of_tag(self, tag: str) -> Release:
        """The release of that tag; for a stable one the build that it stamps. Raises ReleaseNotFound."""
        release = self._one(f"tags/{tag}", tag) if _TAG.fullmatch(tag) else None
        if release is None:
            raise ReleaseNotFound(tag=tag, repo=self.repo)
        stamped = self._stamped(release)
        if stamped is None:
            return release
        build = self._one(f"tags/{stamped}", stamped)  # one step: stamps may stand in a circle
        if build is None:
            raise ReleaseNotFound(tag=stamped, repo=self.repo)
        return build

    def stable(self) -> Stable | None:
        """What is marked stable, None when nothing is."""
        release = self._one("latest")
        if release is None:
            return None
        stamped = self._stamped(release)
        return Stable(release.tag, None) if stamped is None else Stable(stamped, release.tag)

    def checksum(self, release: Release, asset: Asset) -> str | None:
        """The sha256 that the release tells of one of its files: in the API, else in a file beside it."""
        if asset.sha256:
            return asset.sha256
        own = release.asset(f"{asset.name}.sha256")
        listings = {one.name.lower(): one for one in release.assets if one.name.lower() in SUMS}
        for listing in (*([own] if own else []), *listings.values()):
            for line in self._get(listing.url, MOST_BYTES).decode(errors="replace").splitlines():
                words = line.lower().split()
                if words and _SHA256.fullmatch(words[0]) and (
                        words[-1].lstrip("*") == asset.name.lower() or (len(words) == 1 and listing is own)):
                    return words[0]
        return None

    def _stamped(self, release: Release) -> str | None:
        """The build that a stable release stands for; None when it has files of its own."""
        pointer = release.asset(POINTER)
        if pointer is None:
            return None
        tag = self._get(pointer.url, 200).decode(errors="replace").strip()
        if not _TAG.fullmatch(tag) or tag == release.tag:
            raise ReleasesUnreachable(url=pointer.url, reason=f"it names no build but {tag[:60]!r}")
        return tag

    def _one(self, what: str, tag: str = "") -> Release | None:
        try:
            plain = self._json(f"{self._root}/{what}")
        except ReleaseNotFound:
            return None
        release = self._release(plain) if isinstance(plain, dict) else None
        if release is None or (tag and release.tag != tag):
            raise ReleasesUnreachable(url=f"{self._root}/{what}", reason="the answer is no release")
        return release

    def _release(self, plain: Mapping[str, Any]) -> Release | None:
        """A release out of the API's words; None for one whose tag could not be the name of a folder."""
        tag, assets = plain.get("tag_name"), plain.get("assets")
        if not isinstance(tag, str) or not _TAG.fullmatch(tag) or not isinstance(assets, list):
            return None
        found = (self._asset(tag, one) for one in assets if isinstance(one, dict))
        return Release(tag, tuple(asset for asset in found if asset is not None))

    def _asset(self, tag: str, plain: Mapping[str, Any]) -> Asset | None:
        name, url = plain.get("name"), plain.get("browser_download_url")
        if not isinstance(name, str) or not _NAME.fullmatch(name) or not isinstance(url, str) or not is_address(url):
            return None
        size, digest = plain.get("size"), str(plain.get("digest") or "").lower()
        kind, _, value = digest.partition(":")
        return Asset(name, f"{self._files}/{tag}/{name}" if self._files else url,
                     size if type(size) is int and 0 < size <= LARGEST else None,
                     value if kind == "sha256" and _SHA256.fullmatch(value) else None)

    def _json(self, url: str) -> Any:
        try:
            return json.loads(self._get(url, MOST_BYTES))
        except (ValueError, RecursionError) as error:
            raise ReleasesUnreachable(url=url, reason="the answer is not JSON") from error

    def _get(self, url: str, most: int) -> bytes:
        """The body of an answer of at most `most` bytes. A 404 raises ReleaseNotFound."""
        try:
            return get(url, most, ACCEPT)
        except NoAnswer as error:
            if error.status == 404:
                raise ReleaseNotFound(tag="of this name", repo=self.repo) from error
            raise ReleasesUnreachable(url=url, reason=str(error)) from error


def build_number(tag: str) -> int | None:
    """The number in `b11434`, `b11434-cpu` or `embedded-2026.10.11549`; None when the tag has none."""
    found = re.match(r"b(\d+)(?:-|$)", tag) or re.match(r"embedded-(?:\d+\.)*(\d+)$", tag)
    return int(found[1]) if found else None


def _by_number(release: Release) -> int:
    return build_number(release.tag) or -1
