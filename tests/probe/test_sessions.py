"""Conversations that outlive their engine, with the real one."""

import json

import pytest

from blazar.store.store import Store
from blazar.supervisor.banks import checksum
from blazar.supervisor.gateway import LAUNCHER
from tests.support.daemon import DAEMONS
from tests.support.real_engine import engine_path
from tests.support.tiny_gguf import tiny_gguf
from tests.support.transports import BY_END
from tests.support.waiting import until

LONG = "many rivers " * 30


@pytest.fixture(params=BY_END)
def daemon(request, tmp_path):
    with DAEMONS[request.param](tmp_path, launcher=LAUNCHER, engine_path=engine_path(), max_loaded_models=1) as daemon:
        daemon.models = [Store(daemon.paths).install_file(tiny_gguf(tmp_path / f"{name}.gguf", seed), name)["name"]
                         for seed, name in enumerate(("one", "two"))]
        yield daemon.start()


def cached(daemon, model):
    """Tokens of the prompt that the engine knew already, and the answer."""
    status, answer = daemon.post("/v1/chat/completions", {
        "model": model, "max_tokens": 4, "temperature": 0, "messages": [{"role": "user", "content": LONG}]}, 60)
    assert status == 200, answer
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"], answer["choices"][0]["message"]["content"]


def bank(daemon):
    return next(iter(daemon.paths.sessions.rglob("_auto-*.json")), None)


def test_a_conversation_goes_on_after_every_way_to_go(daemon):
    one, two = daemon.models
    none, said = cached(daemon, one)
    assert none == 0
    assert daemon.post("/api/generate", {"model": one, "keep_alive": 0})[0] == 200
    until(lambda: daemon.state(one) == "absent")
    known, again = cached(daemon, one)
    assert known > 20 and again == said
    assert cached(daemon, two)[0] == 0, "another model's place, and a bank of its own"
    assert daemon.state(one) == "absent"
    assert cached(daemon, one) == (known, said)
    assert daemon.stop() == 0
    daemon.start()
    assert cached(daemon, one) == (known, said)


@pytest.mark.parametrize("daemon", ["tcp"], indirect=True)
def test_a_bad_bank_costs_nothing_but_itself(daemon):
    one, _ = daemon.models
    _, said = cached(daemon, one)

    def after(harm):
        """What the next life knows when the bank came to harm meanwhile."""
        assert daemon.post("/api/generate", {"model": one, "keep_alive": 0})[0] == 200
        until(lambda: daemon.state(one) == "absent")
        harm(bank(daemon))
        return cached(daemon, one)

    def flip(index):
        file = index.with_suffix(".0.kv")
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)

    def refused(index):
        """An index that vouches for what the engine does not take."""
        file, entry = index.with_suffix(".0.kv"), json.loads(index.read_text())
        file.write_bytes(b"not what an engine writes")
        entry["parts"][0].update(size=25, crc=checksum(file))
        index.write_text(json.dumps(entry))

    assert after(flip) == (0, said) and "_auto-4096.0.kv is damaged" in daemon.log()
    assert after(refused) == (0, said) and "Unable to restore slot" in daemon.log()
    assert after(lambda index: index.write_text("{")) == (0, said)
    for override, words in (({"cache_type": "f32"}, "another type of KV cache"), ({"ctx": 1024}, None)):
        assert daemon.stop() == 0
        daemon.settings["model_overrides"] = {"one": override}
        daemon.start()
        assert cached(daemon, one)[0] == 0
        assert words is None or words in daemon.log()


@pytest.mark.parametrize("daemon", ["tcp"], indirect=True)
def test_what_an_engine_that_falls_asleep_forgets_is_saved_before(daemon):
    one, _ = daemon.models
    assert daemon.stop() == 0
    daemon.settings["idle_sleep_secs"] = 2
    daemon.start()
    cached(daemon, one)
    until(lambda: bank(daemon), what="the bank, beside the work")
    assert daemon.state(one) == "ready"
    written = bank(daemon).read_text()
    log = daemon.paths.run / "one%3Af32.log"
    until(lambda: "entering sleeping state" in log.read_text(), 15, "sleep")
    assert daemon.post("/api/generate", {"model": one, "keep_alive": 0})[0] == 200
    until(lambda: daemon.state(one) == "absent")
    assert bank(daemon).read_text() == written, "an engine that sleeps is not woken up to be saved"
    assert cached(daemon, one)[0] > 20


@pytest.mark.parametrize("daemon", ["tcp"], indirect=True)
def test_a_conversation_goes_on_with_other_speculation_and_micro_batches(daemon):
    one, _ = daemon.models
    _, said = cached(daemon, one)
    for changed in ({"spec": "off"}, {"spec": "ngram-simple", "ubatch_size": 64}, {"ubatch_size": 1024}):
        assert daemon.stop() == 0
        daemon.settings.update(changed)
        daemon.start()
        known, again = cached(daemon, one)
        assert known > 20 and again == said
