"""A registry that means harm: whatever it answers, a pull ends soon, with words, and nothing is broken or told."""

import hashlib
import json
import time

import pytest

from blazar.errors import BlazarError, PullFailed, RegistryUnreachable
from blazar.models.base import close_database
from blazar.paths import Paths
from blazar.store.registry import MAX_ANSWER
from blazar.store.registry import Registry as Client
from blazar.store.store import Store
from tests.servers.babbler import babbling
from tests.servers.file_server import Reply
from tests.servers.registry import COMMIT, Registry
from tests.support.raw_gguf import gguf_bytes
from tests.support.registry_pull import pulled

REPO = "Owner/Tiny-GGUF"
CONTENT = gguf_bytes({"general.name": "tiny"}, elements=5000)
FILE = {"rfilename": "Tiny-Q8_0.gguf", "size": len(CONTENT),
        "lfs": {"sha256": hashlib.sha256(CONTENT).hexdigest(), "size": len(CONTENT)}}
PLACES = ("http://[bad", "http://[::1", "file:///etc/passwd", "http:///x", "ftp://x/y", "data:text/plain,hi",
          "http://a b/", "http://x:99999/", "http://x:abc/", "http://127.0.0.1\0.evil/", "http://::1/",
          "/" + "x" * 9000)


@pytest.fixture
def store(tmp_path):
    yield Store(Paths(tmp_path / "data"))
    close_database()


@pytest.fixture
def registry():
    with Registry() as running:
        running.add(REPO, {"Tiny-Q8_0.gguf": CONTENT})
        yield running


def refused(store, registry) -> BlazarError:
    began = time.monotonic()
    with pytest.raises(BlazarError) as told:
        pulled(store, registry, REPO)
    assert told.value.status != 500 and time.monotonic() - began < 5
    assert store.list() == [] and list(store.paths.incoming.iterdir()) == []
    return told.value


def listed(registry, answer, **headers) -> None:
    body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    registry.repos[REPO].scripted.append(Reply(200, body, headers))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("asked", ["listing", "file", "next page"])
def test_redirects_to_what_is_no_address(store, registry, asked, place):
    lost = Reply(302, b"", {"Location": place})
    if asked == "listing":
        registry.repos[REPO].scripted.append(lost)
    elif asked == "file":
        registry.server.on(f"/{REPO}/resolve/", lambda seen: lost)
    else:
        registry.repos[REPO].sizes = False
        link = {"Link": f'<{place}>; rel="next"'}
        registry.server.on(f"/api/models/{REPO}/tree/", lambda seen: Reply(200, b"[]", link))
    refused(store, registry)


@pytest.mark.parametrize("wait", ["\xb2", "9" * 5000, "9" * 400, "-1", "nan", "Wed, 99 Foo", " "])
def test_pauses_that_are_none(store, registry, wait):
    registry.repos[REPO].scripted.append(Reply(429, b"", {"Retry-After": wait}))
    error = refused(store, registry)
    assert isinstance(error, PullFailed) and error.retry_after is None and "some minutes" in error.message


@pytest.mark.parametrize("size", [10 ** 4000, 10 ** 400, 1 << 63, 1 << 50, -1, True])
def test_sizes_that_no_file_has(store, registry, size):
    listed(registry, {"sha": COMMIT, "siblings": [{**FILE, "lfs": {**FILE["lfs"], "size": size}}]})
    refused(store, registry)


@pytest.mark.parametrize("more", [
    {"sha": "\ud800"}, {"sha": "a\r\nX: y"}, {"sha": "../../.."}, {"sha": 7}, {"cardData": {"license": "\ud800"}},
    {"cardData": {"license": "\x1b]0;evil\x07"}}, {"cardData": {"license": "a\u202eb"}}, {"cardData": 5}])
def test_texts_that_are_none(store, registry, more):
    """They are left out, and the model is installed."""
    listed(registry, {"sha": COMMIT, "siblings": [FILE], **more})
    assert pulled(store, registry, REPO)["changed"]
    kept = store.describe("owner/tiny-gguf")["license"]
    assert kept.isprintable() and "evil" not in kept
    assert all("\r" not in seen.target and ".." not in seen.target for seen in registry.server.requests)


@pytest.mark.parametrize("body", [b"[" * 1_000_000, b'{"a":' * 500_000, b'{"siblings":' + b"9" * 10_000 + b"}", b"",
                                  b"\xff\xfe", b"NaN", b"null", b'{"siblings": 5}', b'{"siblings": [[], 1, "x", {}]}'])
def test_answers_that_are_no_listing(store, registry, body):
    listed(registry, body)
    refused(store, registry)


def test_an_answer_without_end(store, registry):
    listed(registry, b" " * (MAX_ANSWER + 100_000))
    assert "over 8.0 MiB" in refused(store, registry).message
    assert registry.server.sent() < MAX_ANSWER + 1_000_000


def test_an_answer_that_ends_early(store, registry):
    registry.repos[REPO].scripted.append(Reply(200, b"{}", announced=100))
    assert isinstance(refused(store, registry), RegistryUnreachable)


def test_an_answer_that_trickles(registry):
    registry.server.put(f"/api/models/{REPO}/revision/main", b" " * 16384 * 100, rate=16384 * 20)
    with pytest.raises(RegistryUnreachable, match="takes over 300 ms"):
        Client(registry.base, answer_timeout=0.3).listing(REPO)


@pytest.mark.parametrize("piece", [b"HTTP/1.1 100 Continue\r\n\r\n", b"H", b""], ids=["100 for ever", "slow", "silent"])
def test_an_answer_that_never_begins(piece):
    with babbling(piece) as server, pytest.raises(RegistryUnreachable, match="takes over 300 ms"):
        Client(server.base, answer_timeout=0.3).listing(REPO)
