"""Pulling from a registry over loopback: what is chosen, what lies on the disk and in the database, what is told."""

import hashlib
import sqlite3
import threading

import pytest

from blazar.errors import (
    BuildMissing,
    DigestMismatch,
    DownloadFailed,
    DownloadStopped,
    ModelFileRefused,
    NothingFits,
    PullFailed,
    RegistryUnreachable,
    RepositoryGated,
    RepositoryMissing,
    TokenRefused,
)
from blazar.models.base import close_database
from blazar.paths import Paths
from blazar.store.pull import pull
from blazar.store.store import Store
from tests.servers.file_server import Reply
from tests.servers.registry import Registry
from tests.support.raw_gguf import gguf_bytes
from tests.support.registry_pull import Told, means, pulled
from tests.support.waiting import until

REPO = "Owner/Tiny-GGUF"
SMALL = gguf_bytes({"general.name": "tiny", "general.file_type": 15}, elements=50_000, fill=b"s")
LARGE = gguf_bytes({"general.name": "tiny", "general.file_type": 7}, elements=100_000, fill=b"l")
PROJECTOR = gguf_bytes({"general.architecture": "clip", "general.type": "mmproj", "general.file_type": 1}, fill=b"p")
FILES = {"Tiny-Q4_K_M.gguf": SMALL, "Tiny-Q8_0.gguf": LARGE}


@pytest.fixture
def store(tmp_path):
    yield Store(Paths(tmp_path / "data"))
    close_database()


@pytest.fixture
def registry():
    with Registry() as running:
        running.add(REPO, FILES)
        yield running


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def on_disk(store) -> set[str]:
    """Every file below models/, the lock of nobody and no empty folder forgotten."""
    return {str(path.relative_to(store.paths.models)) for path in store.paths.models.rglob("*")
            if path.is_file() or path.parent == store.paths.partial}


def blobs(*contents: bytes) -> set[str]:
    return {f"blobs/{sha(content)}.gguf" for content in contents}


def assert_sound(store, *contents: bytes) -> None:
    """The blobs of these contents are all there is, each with the content of its name, and the database is sound."""
    assert on_disk(store) == blobs(*contents)
    for content in contents:
        assert (store.paths.blobs / f"{sha(content)}.gguf").read_bytes() == content
    close_database()
    with sqlite3.connect(store.paths.database) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


# -- what is meant, and what is chosen ---------------------------------------------------------------------------


def test_the_chooser_s_build_is_taken_and_told(store, registry):
    told = Told()
    model = pulled(store, registry, REPO, teller=told)
    assert (model["name"], model["digest"], model["changed"]) == ("owner/tiny-gguf:q8_0", sha(LARGE), True)
    assert told.sentences == ["took the largest of 2"] and told.files == [("Tiny-Q8_0.gguf", sha(LARGE), len(LARGE))]
    assert told.steps[-1] == ("install", len(LARGE), len(LARGE))
    assert store.describe("owner/tiny-gguf")["license"] == "apache-2.0"
    assert store.describe("owner/tiny-gguf")["source"] == f"{registry.base}/{REPO}"
    assert registry.sent(REPO, "Tiny-Q8_0.gguf") == len(LARGE) and registry.sent(REPO, "Tiny-Q4_K_M.gguf") == 0
    assert_sound(store, LARGE)


@pytest.mark.parametrize("reference", [
    f"{REPO}:q4_k_m", f"{REPO}:Q4_K_M", f"hf.co/{REPO}:Q4_K_M", f"huggingface.co/{REPO}:Q4_K_M",
    f"https://huggingface.co/{REPO}:q4_k_m", f"https://hf.co/{REPO}/blob/main/Tiny-Q4_K_M.gguf",
    f"https://huggingface.co/{REPO}/resolve/main/Tiny-Q4_K_M.gguf?download=true", f"{REPO}:Tiny-Q4_K_M.gguf"])
def test_a_build_that_is_asked_for(store, registry, reference):
    told = Told()
    assert pulled(store, registry, reference, teller=told)["name"] == "owner/tiny-gguf:q4_k_m"
    assert told.sentences == [] and pulled(store, registry, reference)["changed"] is False
    if not reference.startswith("https://"):
        assert store.get(reference).digest == sha(SMALL), "it is found by what it was pulled as"
    assert registry.sent(REPO, "Tiny-Q4_K_M.gguf") == len(SMALL), "the second one downloads nothing"
    assert_sound(store, SMALL)


@pytest.mark.parametrize("reference", [f"https://huggingface.co/{REPO}", f"https://hf.co/{REPO}/tree/main",
                                       "{base}/" + REPO, f"hf.co/{REPO}:latest"])
def test_a_page_of_the_registry(store, registry, reference):
    assert pulled(store, registry, reference.format(base=registry.base))["name"] == "owner/tiny-gguf:q8_0"


def test_a_name_of_the_catalog_and_its_other_names(store, registry):
    registry.add("unsloth/Qwen3-8B-GGUF", {"Qwen3-8B-Q4_K_M.gguf": SMALL})
    assert pulled(store, registry, "qwen3:8b")["name"] == "qwen3-8b:q4_k_m"
    assert store.aliases() == {"qwen3:8b": "qwen3-8b:q4_k_m"} and store.get("qwen3:8b").digest == sha(SMALL)
    assert pulled(store, registry, "Qwen3-8B:Q4_K_M")["changed"] is False
    assert pulled(store, registry, "qwen3-8b", name="mine")["name"] == "mine:q4_k_m"
    assert_sound(store, SMALL)


def test_a_build_that_is_not_there_is_told_with_those_that_are(store, registry):
    with pytest.raises(BuildMissing) as caught:
        pulled(store, registry, f"{REPO}:q2_k")
    assert caught.value.message == f"{REPO} has no build q2_k; it has Q4_K_M, Q8_0" and caught.value.status == 404


def test_nothing_that_fits_downloads_nothing(store, registry):
    def none(name, builds):
        raise NothingFits(name=name, smallest="q4_k_m", size="1 GiB", budget="80% of memory is 0.5 GiB")

    with pytest.raises(NothingFits, match="ask for a build by name"):
        pull(store, REPO, means(registry, choose=none))
    assert registry.store.requests == []


def test_a_repository_without_models(store, registry):
    registry.add("o/r", {"model.safetensors": b"x", "imatrix.gguf": SMALL, "mmproj-F16.gguf": PROJECTOR})
    with pytest.raises(PullFailed, match="o/r holds no GGUF file"):
        pulled(store, registry, "o/r")


def test_sizes_that_only_the_tree_tells_in_pages(store, registry):
    registry.add("o/r", {**FILES, **{f"note{number}.txt": b"x" for number in range(7)}}, sizes=False, page=3)
    assert pulled(store, registry, "o/r:q8_0")["digest"] == sha(LARGE)
    assert sum("cursor=" in seen.query for seen in registry.server.requests) == 3


# -- several files -----------------------------------------------------------------------------------------------


def parts_of(count: int) -> list[bytes]:
    """A set of `count` GGUF files."""
    first = gguf_bytes({"general.name": "set", "general.file_type": 7, "split.no": 0, "split.count": count,
                        "split.tensors.count": count}, fill=b"0")
    return [first, *(gguf_bytes({"general.architecture": None, "general.file_type": None, "split.no": number,
                                 "llama.context_length": None, "split.count": count, "split.tensors.count": count},
                                fill=b"%d" % number) for number in range(1, count))]


def names_of(count: int, stem: str = "Q8_0/Set-Q8_0") -> list[str]:
    return [f"{stem}-{number:05}-of-{count:05}.gguf" for number in range(1, count + 1)]


def test_a_split_set_comes_as_a_whole(store, registry):
    parts = parts_of(3)
    registry.add("o/set", dict(zip(names_of(3), parts, strict=True)))
    told = Told()
    model = pulled(store, registry, "o/set", teller=told)
    assert model["name"] == "o/set:q8_0" and [name for name, _, _ in told.files] == [
        name.partition("/")[2] for name in names_of(3)]
    assert [(piece.role, piece.sha256) for piece in store.get("o/set").pieces] == [
        ("model", sha(parts[0])), ("part", sha(parts[1])), ("part", sha(parts[2]))]
    assert_sound(store, *parts)
    assert store.remove("o/set")["freed"] == sum(map(len, parts)) and on_disk(store) == set()


def test_a_set_with_a_wrong_part_installs_nothing_and_keeps_what_is_right(store, registry):
    parts = parts_of(3)
    repo = registry.add("o/set", dict(zip(names_of(3), parts, strict=True)))
    repo.digests[names_of(3)[2]] = "0" * 64
    with pytest.raises(DigestMismatch):
        pulled(store, registry, "o/set")
    assert store.list() == [] and not list(store.paths.blobs.iterdir())
    repo.digests.clear()
    pulled(store, registry, "o/set")
    assert_sound(store, *parts)


def test_an_incomplete_set_is_refused(store, registry):
    registry.add("o/set", dict(list(zip(names_of(3), parts_of(3), strict=True))[:2]))
    with pytest.raises(PullFailed, match="holds 2 of the 3 parts"):
        pulled(store, registry, "o/set")
    assert registry.store.requests == []


def test_a_projector_and_a_draft_come_along(store, registry):
    draft = gguf_bytes({"general.name": "draft", "general.file_type": 7}, fill=b"d")
    registry.add("o/sees", {**FILES, "mmproj-F32.gguf": PROJECTOR + b"\0" * 64, "mmproj-F16.gguf": PROJECTOR,
                            "Tiny-draft-Q8_0.gguf": draft})
    told = Told()
    pulled(store, registry, "o/sees:q4_k_m", teller=told)
    assert [(piece.role, piece.sha256) for piece in store.get("o/sees").pieces] == [
        ("model", sha(SMALL)), ("projector", sha(PROJECTOR)), ("draft", sha(draft))]
    assert_sound(store, SMALL, PROJECTOR, draft)
    pulled(store, registry, "o/sees:q8_0")
    assert registry.sent("o/sees", "mmproj-F16.gguf") == len(PROJECTOR), "it was here already"


# -- URLs --------------------------------------------------------------------------------------------------------


def test_a_url_of_a_file(store, registry):
    registry.store.put("/files/Any%20Name-Q8_0.gguf", gguf_bytes({"general.name": None, "general.file_type": 7}))
    model = pulled(store, registry, registry.store.url("/files/Any%20Name-Q8_0.gguf?x=1"))
    assert model["name"] == "any-name:q8_0"
    assert store.describe("any-name")["source"] == registry.store.url("/files/Any%20Name-Q8_0.gguf"), "without query"


def test_a_url_of_a_part_brings_the_set(store, registry):
    parts = parts_of(2)
    for name, content in zip(names_of(2, "/any/Set"), parts, strict=True):
        registry.store.put(name, content)
    assert pulled(store, registry, registry.store.url(names_of(2, "/any/Set")[1]))["name"] == "set:q8_0"
    assert_sound(store, *parts)


def test_a_url_of_what_is_no_model_leaves_nothing(store, registry):
    registry.store.put("/page.gguf", b"<!doctype html>")
    with pytest.raises(ModelFileRefused):
        pulled(store, registry, registry.store.url("/page.gguf"))
    assert on_disk(store) == set() and store.list() == []


# -- who may -----------------------------------------------------------------------------------------------------


def test_what_is_missing_private_or_gated_is_explained(store, registry):
    registry.add("o/private", FILES, token="right")
    registry.add("o/gated", FILES, token="right", gated=True)
    for repo in ("o/nothing", "o/private"):
        with pytest.raises(RepositoryMissing, match=f"shows no model {repo}.*BLAZAR_REGISTRY_TOKEN") as caught:
            pulled(store, registry, repo)
        assert caught.value.status == 404
    with pytest.raises(TokenRefused, match="not expired"):
        pulled(store, registry, "o/private", token="wrong")
    for token in (None, "wrong"):
        with pytest.raises(RepositoryGated, match=f"accept its terms at {registry.base}/o/gated") as caught:
            pulled(store, registry, "o/gated", token=token)
        assert caught.value.status == 403 and "wrong" not in caught.value.message
    assert on_disk(store) == set() and store.list() == []
    assert pulled(store, registry, "o/private", token="right")["changed"] is True
    assert pulled(store, registry, "o/gated", token="right")["digest"] == sha(LARGE)


def test_the_token_reaches_no_other_origin(store, registry):
    registry.add("o/private", FILES, token="right")
    pulled(store, registry, "o/private", token="right")
    registry.store.put("/x.gguf", SMALL)
    pulled(store, registry, registry.store.url("/x.gguf"), token="right", name="x")
    assert registry.store.requests and registry.tokens() == {None}
    registry.server.on("/api/models/o/moved/", lambda seen: Reply(307, headers={
        "Location": registry.store.url("/api/models/o/private/revision/main")}))
    with pytest.raises(RepositoryMissing):
        pulled(store, registry, "o/moved", token="right")
    assert registry.tokens() == {None}


# -- faults ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("reply", "error", "words"), [
    (Reply(429, b"", {"Retry-After": "7"}), PullFailed, "is asked too often; try again in 7 s"),
    (Reply(500, b"oops"), RegistryUnreachable, "it answers with status 500"),
    (Reply(200, b"<html>"), RegistryUnreachable, "its answer is not JSON"),
    (Reply(200, b"[]"), RegistryUnreachable, "its answer is no object"),
    (Reply(200, b"{}"), RegistryUnreachable, "lists no files"),
    (Reply(200, b"[" * 100_000), RegistryUnreachable, "not JSON"),
    (Reply(302, b"", {"Location": "file:///etc/passwd"}), RegistryUnreachable, "redirects to nowhere")])
def test_a_registry_that_answers_nonsense(store, registry, reply, error, words):
    registry.repos[REPO].scripted.append(reply)
    with pytest.raises(error, match=words):
        pulled(store, registry, REPO)
    assert pulled(store, registry, REPO)["changed"] is True


def test_a_registry_that_is_not_there(store, registry):
    with Registry() as other:
        gone = other.base
    with pytest.raises(RegistryUnreachable, match="BLAZAR_REGISTRY_BASE") as caught:
        pull(store, REPO, means(other))
    assert gone in caught.value.message and len(caught.value.message) < 400


def test_hostile_listings_reach_no_file_outside(store, registry):
    registry.repos[REPO].files = {"../../evil-Q8_0.gguf": LARGE, "/abs-Q8_0.gguf": LARGE, "a\n-Q8_0.gguf": LARGE,
                                  **{"ok-Q4_0.gguf": SMALL}}
    registry.store.put(f"/{REPO}/ok-Q4_0.gguf", SMALL)
    assert pulled(store, registry, REPO)["digest"] == sha(SMALL)
    assert_sound(store, SMALL)


FAULTS = {
    # switches of the file: whether the pull still succeeds
    "cut": ({"cut_every": 100_000}, True),
    "reset once": ({"cut_every": 50_000, "cuts": 1, "reset": True}, True),
    "no ranges": ({"ranges": "none", "cut_every": 100_000, "cuts": 1}, True),
    "wrong range": ({"ranges": "512 early", "cut_every": 100_000, "cuts": 1}, True),
    "changed": ({"stale": LARGE[:-5] + b"stale", "changes_after": 1, "cut_every": 100_000, "cuts": 1}, True),
    "429 first": ({"scripted": [Reply(429, b"", {"Retry-After": "0"})]}, True),
    "chunked": ({"chunked": True}, True),
    "corrupt": ({"corrupt": True}, False),
    "404": ({"status": 404}, False),
    "another file": ({"content": SMALL}, False),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_the_files_host(store, registry, fault):
    switches, succeeds = FAULTS[fault]
    file = registry.file(REPO, "Tiny-Q8_0.gguf")
    for name, value in switches.items():
        setattr(file, name, value)
    if succeeds:
        assert pulled(store, registry, f"{REPO}:q8_0")["digest"] == sha(LARGE)
        assert registry.sent(REPO, "Tiny-Q8_0.gguf") >= len(LARGE)
    else:
        with pytest.raises((DownloadFailed, DigestMismatch)) as caught:
            pulled(store, registry, f"{REPO}:q8_0")
        assert len(caught.value.message) < 400 and not list(store.paths.blobs.iterdir()) and store.list() == []
        fixed = registry.store.put(f"/{REPO}/Tiny-Q8_0.gguf", LARGE)
        assert fixed.content == LARGE and pulled(store, registry, f"{REPO}:q8_0")["changed"] is True
    assert_sound(store, LARGE)


def test_a_pull_that_is_stopped_goes_on_where_it_was(store, registry):
    file = registry.file(REPO, "Tiny-Q8_0.gguf")
    file.held = threading.Event()
    stop, failed = threading.Event(), []

    def run():
        try:
            pull(store, f"{REPO}:q8_0", means(registry, stop=stop))
        except DownloadStopped as error:
            failed.append(error.message)
        finally:
            close_database()

    thread = threading.Thread(target=run)
    thread.start()
    until(lambda: registry.sent(REPO, "Tiny-Q8_0.gguf") >= len(LARGE) // 2, 10, "half of the file")
    stop.set()
    thread.join(10)
    file.held.set()
    assert "what has come is kept" in failed[0]
    assert [path.suffix for path in store.paths.partial.rglob("*") if path.is_file()].count(".part") == 1
    file.held = None
    before = registry.sent(REPO, "Tiny-Q8_0.gguf")
    assert pulled(store, registry, f"{REPO}:q8_0")["digest"] == sha(LARGE)
    assert 0 < registry.sent(REPO, "Tiny-Q8_0.gguf") - before < len(LARGE)
    assert_sound(store, LARGE)


def test_two_pulls_of_one_model_share_one_download(store, registry):
    file = registry.file(REPO, "Tiny-Q8_0.gguf")
    file.held = threading.Event()
    results, second = [], Told()

    def run(reference, teller):
        results.append(pulled(store, registry, reference, teller=teller))
        close_database()

    threads = [threading.Thread(target=run, args=(f"{REPO}:q8_0", Told()))]
    threads[0].start()
    until(lambda: registry.sent(REPO, "Tiny-Q8_0.gguf") > 0, 10, "the first one's download")
    threads.append(threading.Thread(target=run, args=(f"hf.co/{REPO}:Q8_0", second)))
    threads[1].start()
    until(lambda: [step for step in second.steps if step[0] == "download" and step[1] > 0], 10, "the second follows")
    file.held.set()
    for thread in threads:
        thread.join(20)
    assert sorted(result["changed"] for result in results) == [False, True]
    assert registry.sent(REPO, "Tiny-Q8_0.gguf") == len(LARGE)
    assert second.sentences == ["another pull of the same model is under way; this one follows it"]
    assert_sound(store, LARGE)
