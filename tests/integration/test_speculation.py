"""Speculation with the real engine: n-grams, a draft pair, and what does not stop a load.

Texts are not compared: this model's are noise, whose likeliest tokens are so close to each other that the size of a
batch decides between them.
"""

import hashlib
import json
import struct
import urllib.request

import pytest

from blazar.models.base import close_database
from blazar.store import speccache
from blazar.store.pieces import Piece
from blazar.store.store import Store
from blazar.supervisor.gateway import LAUNCHER
from tests.support.daemon import Daemon
from tests.support.raw_gguf import write_gguf
from tests.support.real_engine import engine_path
from tests.support.tiny_gguf import tiny_gguf

OVERRIDES = {"lookup": {"spec": "ngram-cache"}, "mixed": {"spec": "mtp-adaptive"}}
"""`solo` and `pair` are left to `spec = "auto"`."""
BROKEN = b"not a cache at all"
CACHE = struct.pack("=7i", 1, 2, -1, -1, 1, 3, 1)


def piece(store, role, path):
    content = path.read_bytes()
    return Piece(role, path, hashlib.sha256(content).hexdigest(), len(content), path.name)


def install(store, folder, name, draft=None):
    """The same model under many names; with a draft, one of fewer layers and other weights."""
    pieces = [piece(store, "model", tiny_gguf(folder / f"{name}.gguf", ctx=512, name=name))]
    if draft is not None:
        pieces.append(piece(store, "draft", draft))
    store.adopt_pieces(pieces, name, name, "test")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    folder = tmp_path_factory.mktemp("speculation")
    with Daemon(folder, LAUNCHER, engine_path=engine_path(), max_loaded_models=1, model_overrides=OVERRIDES) as daemon:
        store = Store(daemon.paths)
        for name in ("solo", "lookup", "mixed"):
            install(store, folder, name)
        install(store, folder, "pair", tiny_gguf(folder / "small.gguf", ctx=512, layers=1, seed=0, name="small"))
        install(store, folder, "odd", write_gguf(folder / "odd-draft.gguf", {"tokenizer.ggml.model": "gpt2"}))
        for model, content in (("solo", BROKEN), ("lookup", CACHE)):
            speccache.cache_of(daemon.paths, f"{model}:f32").write_bytes(content)
        close_database()
        yield daemon.start()


def ask(daemon, path, **body):
    request = urllib.request.Request(daemon.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.loads(answer.read())


def chat(daemon, model):
    """What it says to a text that repeats itself, as greedily as can be, and the engine's counts."""
    said = ask(daemon, "/v1/chat/completions", model=model, temperature=0, max_tokens=24, cache_prompt=False,
               messages=[{"role": "user", "content": "one two three four five six seven eight " * 6}])
    return said["choices"][0]["message"]["content"], said["timings"]


def explained(daemon, model):
    found = ask(daemon, "/api/explain", model=model)
    line = next(line for line in found["plan"]["lines"] if line["what"] == "speculation")
    return found, line


def test_without_a_draft_n_grams_are_looked_up(daemon):
    assert chat(daemon, "solo")[0]
    found, line = explained(daemon, "solo")
    assert found["argv"][found["argv"].index("--spec-type") + 1] == "ngram-mod" and found["skipped"] == []
    assert (line["value"], line["setting"]) == ("looked up in the text so far (ngram-mod)", "spec, spec_auto_ngram")
    assert "solo:f32: tokens are guessed from the text so far (ngram-mod), since no draft came with it" in daemon.log()


def test_a_broken_cache_does_not_stop_a_load(daemon):
    chat(daemon, "solo")
    file = speccache.cache_of(daemon.paths, "solo:f32")
    argv = explained(daemon, "solo")[0]["argv"]
    assert argv[argv.index("--lookup-cache-dynamic") + 1] == str(file) and file.read_bytes() == b""
    assert "solo:f32: its n-gram cache is broken, and begins anew" in daemon.log()


def test_the_engine_reads_the_cache_of_its_model(daemon):
    assert chat(daemon, "lookup")[0]
    found, line = explained(daemon, "lookup")
    assert found["argv"][found["argv"].index("--spec-type") + 1] == "ngram-cache"
    assert speccache.cache_of(daemon.paths, "lookup:f32").read_bytes() == CACHE
    assert (line["value"], line["reason"]) == ("ngram-cache", "as it was set")


def test_a_draft_pair_drafts(daemon):
    text, timings = chat(daemon, "pair")
    assert text and timings["draft_n"] > 0
    found, line = explained(daemon, "pair")
    argv = found["argv"]
    draft = next(file["digest"] for file in Store(daemon.paths).describe("pair")["files"] if file["role"] == "draft")
    assert argv[argv.index("--spec-type") + 1] == "draft-simple"
    assert argv[argv.index("--spec-draft-model") + 1] == str(daemon.paths.blobs / f"{draft}.gguf")
    assert "--lookup-cache-dynamic" not in argv and line["value"] == "draft model small.gguf"
    beside = next(line for line in found["plan"]["lines"] if line["what"] == "beside it")
    assert float(beside["value"].split()[0]) > 0


def test_a_draft_with_other_tokens_does_not_stop_a_load(daemon):
    assert chat(daemon, "odd")[0]
    line = explained(daemon, "odd")[1]
    assert "does not fit it: its tokenizer is of another kind" in line["reason"] and "ngram-mod" in line["value"]


def test_a_family_for_which_the_model_has_no_layers_does_not_stop_a_load(daemon):
    assert "draft_n" not in chat(daemon, "mixed")[1]
    assert "--spec-type" not in explained(daemon, "mixed")[0]["argv"]
    assert 'mixed:f32: spec = "mtp-adaptive" has no effect: the model has no layers for it' in daemon.log()
