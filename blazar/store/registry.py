"""`Registry`: a Hugging-Face-shaped model registry over HTTP: what a repository holds, and where its files are.

The token goes to the registry's own origin only, and never into an error or a log.
"""

import contextlib
import json
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

from blazar.download.client import FAILURES, Client, origin, shown
from blazar.download.remote import BREAKS, Answer
from blazar.download.retry import retry_after
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
from blazar.units import format_bytes, format_duration

DEFAULT_BASE = "https://huggingface.co"
REDIRECTS = 5
MAX_ANSWER = 8 << 20
"""Bytes of the longest listing; 20,000 files take about six million. As values it takes twenty times as much memory."""
ANSWER_TIMEOUT = 60.0
"""Seconds for a whole answer, however it trickles."""
MOST_PAGES = 50

_NEXT = re.compile(r'<([^>]+)>\s*;[^,]*\brel="?next"?')


@dataclass(frozen=True)
class Registry:
    """Where models come from. `offline` names the variable that forbids to ask, or is empty."""

    base: str = DEFAULT_BASE
    token: str | None = field(default=None, repr=False)
    offline: str = ""
    answer_timeout: float = ANSWER_TIMEOUT

    @classmethod
    def configured(cls, runtime: Mapping[str, Any]) -> "Registry":
        """The registry that the product's variables name."""
        offline = "BLAZAR_OFFLINE" if runtime.get("BLAZAR_OFFLINE") else ""
        if str(runtime.get("HF_HUB_OFFLINE")).strip().lower() in ("1", "on", "yes", "true"):
            offline = offline or "HF_HUB_OFFLINE"
        return cls((runtime.get("BLAZAR_REGISTRY_BASE") or DEFAULT_BASE).rstrip("/"),
                   runtime.get("BLAZAR_REGISTRY_TOKEN") or None, offline)

    @property
    def shown(self) -> str:
        """The address for people and for the database: it may hold a password."""
        return shown(self.base)

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
            raise RegistryUnreachable(base=self.shown, repo=repo, reason=str(error)) from error
        return listing

    def url(self, listing: Listing, file: RemoteFile) -> str:
        """Where a file of this very listing is to be had."""
        return f"{self.base}/{quote(listing.repo)}/resolve/{quote(listing.commit, safe='')}/{quote(file.path)}"

    def token_for(self, url: str) -> str | None:
        """The token, when `url` is of the registry's own origin."""
        return self.token if origin(url) == origin(self.base) else None

    def check_online(self, name: str) -> None:
        if self.offline:
            raise PullOffline(name=name, variable=self.offline)

    def refusal(self, status: int, repo: str, gated: bool = False) -> BlazarError:
        """What a 401, 403 or 404 about `repo` means."""
        kind: type[BlazarError] = RepositoryGated
        if status == 404 or (status == 401 and not self.token and not gated):
            kind = RepositoryMissing
        elif self.token and not gated:
            kind = TokenRefused
        return kind(base=self.shown, repo=repo)

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
        with contextlib.closing(Client()) as client, self._in_time(client, repo):
            answer = self._follow(client, url, repo)
            try:
                body = self._body(Answer(answer), repo)
            except BREAKS as error:
                raise self._unreachable(repo, error) from error
            finally:
                answer.close()
        if answer.status != 200:
            raise self._told(answer.status, answer.headers, repo)
        try:
            return json.loads(body), answer.headers.get("Link", "")
        except (ValueError, RecursionError) as error:
            raise RegistryUnreachable(base=self.shown, repo=repo, reason="its answer is not JSON") from error

    def _follow(self, client: Client, url: str, repo: str) -> Any:
        """The answer to a GET of `url`, at the end of its redirects. The token goes along to our own origin only."""
        for _ in range(REDIRECTS):
            try:
                token = self.token_for(url)
                headers = {"Accept": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
                answer = client.get(url, headers)
            except FAILURES as error:
                raise self._unreachable(repo, error) from error
            target = answer.headers.get("Location") if answer.status in (301, 302, 303, 307, 308) else None
            if not target:
                return answer
            answer.close()
            try:
                before, url = urlsplit(url).scheme, urljoin(url, target)
                if urlsplit(url).scheme not in (before, "https"):
                    break  # to what is no HTTP, or is not protected any more
            except ValueError:
                break
        raise RegistryUnreachable(base=self.shown, repo=repo, reason="it redirects to nowhere")

    @contextlib.contextmanager
    def _in_time(self, client: Client, repo: str) -> Iterator[None]:
        """Hang up when the block takes too long, wherever it waits. Raises RegistryUnreachable."""
        late = threading.Event()

        def hang_up() -> None:
            late.set()
            client.close()

        timer = threading.Timer(self.answer_timeout, hang_up)
        timer.daemon = True
        timer.start()
        try:
            yield
        except RegistryUnreachable as error:
            if not late.is_set():
                raise
            reason = f"its answer takes over {format_duration(self.answer_timeout)}"
            raise RegistryUnreachable(base=self.shown, repo=repo, reason=reason) from error
        finally:
            timer.cancel()

    def _body(self, answer: Answer, repo: str) -> bytes:
        """All of an answer, which may not be endless. Raises RegistryUnreachable or BREAKS."""
        body = bytearray()
        for block in answer.blocks():
            body += block
            if len(body) > MAX_ANSWER:
                raise RegistryUnreachable(base=self.shown, repo=repo,
                                          reason=f"its answer is over {format_bytes(MAX_ANSWER)}")
        if answer.length is not None and len(body) < answer.length:
            raise RegistryUnreachable(base=self.shown, repo=repo, reason=f"its answer ended after {len(body)} of "
                                                                         f"{answer.length} bytes")
        return bytes(body)

    def _unreachable(self, repo: str, error: Exception) -> RegistryUnreachable:
        return RegistryUnreachable(base=self.shown, repo=repo, reason=_reason(error))

    def _told(self, status: int, headers: Mapping[str, str], repo: str) -> BlazarError:
        if status in (401, 403, 404):
            return self.refusal(status, repo, headers.get("X-Error-Code", "") == "GatedRepo")
        if status == 429:
            wait = retry_after(headers.get("Retry-After"))
            when = "in some minutes" if wait is None else f"in {format_duration(max(1.0, wait))}"
            return PullFailed(name=repo, reason=f"{self.shown} is asked too often", remedy=f"try again {when}, or set "
                              f"BLAZAR_REGISTRY_TOKEN, for which most registries allow more",
                              retry_after=wait)
        return RegistryUnreachable(base=self.shown, repo=repo, reason=f"it answers with status {status}")


def _reason(error: BaseException) -> str:
    """Why no answer came, in the system's words where it has some."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror[:1].lower() + cause.strerror[1:200]
        cause = cause.__cause__ or cause.__context__
    return str(error)[:200] or type(error).__name__
