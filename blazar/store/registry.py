"""`Registry`: a Hugging-Face-shaped model registry over HTTP: what a repository holds, and where its files are.

The token goes to the registry's own origin only, and never into an error or a log.
"""

import http.client
import json
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

from blazar import __version__
from blazar.errors import (
    BlazarError,
    PullFailed,
    PullOffline,
    RegistryUnreachable,
    RepositoryGated,
    RepositoryMissing,
    TokenRefused,
)
from blazar.store.huggingface import MOST_FILES, Listing, RemoteFile, lacks_sizes, read_listing, read_tree

DEFAULT_BASE = "https://huggingface.co"
TIMEOUT = 30.0
"""Seconds that the registry may be silent."""
MAX_ANSWER = 32 << 20
"""Bytes of the longest listing."""
MOST_PAGES = 50

_NEXT = re.compile(r'<([^>]+)>\s*;[^,]*\brel="?next"?')


@dataclass(frozen=True)
class Registry:
    """Where models come from. `offline` names the variable that forbids to ask, or is empty."""

    base: str = DEFAULT_BASE
    token: str | None = field(default=None, repr=False)
    offline: str = ""

    @classmethod
    def configured(cls, runtime: Mapping[str, Any]) -> "Registry":
        """The registry that the product's variables name."""
        offline = "BLAZAR_OFFLINE" if runtime.get("BLAZAR_OFFLINE") else ""
        if str(runtime.get("HF_HUB_OFFLINE")).strip().lower() in ("1", "on", "yes", "true"):
            offline = offline or "HF_HUB_OFFLINE"
        return cls((runtime.get("BLAZAR_REGISTRY_BASE") or DEFAULT_BASE).rstrip("/"),
                   runtime.get("BLAZAR_REGISTRY_TOKEN") or None, offline)

    def listing(self, repo: str, revision: str = "main") -> Listing:
        """What `repo` holds. Raises PullOffline, RepositoryMissing, RepositoryGated, TokenRefused, PullFailed or
        RegistryUnreachable."""
        self.check_online(repo)
        where = f"{self.base}/api/models/{quote(repo)}"
        plain, _ = self._ask(f"{where}/revision/{quote(revision, safe='')}?blobs=true", repo)
        try:
            if not isinstance(plain, dict):
                raise ValueError("its answer is no object")
            listing = read_listing(repo, plain)
            if lacks_sizes(plain):
                tree = self._tree(f"{where}/tree/{quote(listing.commit, safe='')}?recursive=true", repo)
                listing = replace(listing, files=tree)
        except ValueError as error:
            raise RegistryUnreachable(base=self.base, repo=repo, reason=str(error)) from error
        return listing

    def url(self, listing: Listing, file: RemoteFile) -> str:
        """Where a file of this very listing is to be had."""
        return f"{self.base}/{quote(listing.repo)}/resolve/{quote(listing.commit, safe='')}/{quote(file.path)}"

    def token_for(self, url: str) -> str | None:
        """The token, when `url` is of the registry's own origin."""
        return self.token if _origin(url) == _origin(self.base) else None

    def check_online(self, name: str) -> None:
        if self.offline:
            raise PullOffline(name=name, variable=self.offline)

    def refusal(self, status: int, repo: str, gated: bool = False) -> BlazarError:
        """What a 401, 403 or 404 about `repo` means."""
        facts = {"base": self.base, "repo": repo}
        if status == 404 or (status == 401 and not self.token and not gated):
            return RepositoryMissing(**facts)
        if self.token and not gated:
            return TokenRefused(**facts)
        return RepositoryGated(**facts)

    # -- asking ----------------------------------------------------------------------------------------------

    def _tree(self, url: str, repo: str) -> tuple[RemoteFile, ...]:
        """The files of all pages."""
        files: tuple[RemoteFile, ...] = ()
        for _ in range(MOST_PAGES):
            plain, link = self._ask(url, repo)
            files += read_tree(plain)
            following = _NEXT.search(link)
            if following is None or len(files) >= MOST_FILES:
                return files
            url = urljoin(url, following[1])
        return files

    def _ask(self, url: str, repo: str) -> tuple[Any, str]:
        """The JSON at `url`, and its Link header."""
        request = urllib.request.Request(url, headers={"Accept": "application/json",
                                                       "User-Agent": f"blazar/{__version__}"})
        token = self.token_for(url)
        if token:
            request.add_unredirected_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.build_opener(_Redirects(token)).open(request, timeout=TIMEOUT) as answer:
                body = answer.read(MAX_ANSWER + 1)
                link = answer.headers.get("Link", "")
        except urllib.error.HTTPError as error:
            with error:
                raise self._told(error, repo) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            words = getattr(reason, "strerror", None) or str(reason) or type(error).__name__
            raise RegistryUnreachable(base=self.base, repo=repo, reason=words) from error
        try:
            if len(body) > MAX_ANSWER:
                raise ValueError
            return json.loads(body), link
        except (ValueError, RecursionError) as error:
            raise RegistryUnreachable(base=self.base, repo=repo, reason="its answer is not JSON") from error

    def _told(self, error: urllib.error.HTTPError, repo: str) -> BlazarError:
        if error.code in (401, 403, 404):
            return self.refusal(error.code, repo, error.headers.get("X-Error-Code", "") == "GatedRepo")
        if error.code == 429:
            wait = error.headers.get("Retry-After", "")
            when = f"in {wait} s" if wait.isdigit() else "in some minutes"
            return PullFailed(name=repo, reason=f"{self.base} is asked too often", remedy=f"try again {when}, or set "
                              f"BLAZAR_REGISTRY_TOKEN, which most registries allow more",
                              retry_after=float(wait) if wait.isdigit() else None)
        return RegistryUnreachable(base=self.base, repo=repo, reason=f"it answers with status {error.code}")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects; the token goes along only within one origin."""

    def __init__(self, token: str | None) -> None:
        self._token = token

    def redirect_request(self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any,
                         newurl: str) -> urllib.request.Request | None:
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        if request is not None and self._token and _origin(newurl) == _origin(req.full_url) and \
                req.has_header("Authorization"):
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        return request


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, (parts.hostname or "").lower(), port
