"""Anthropic's message batches, by its official client against the real daemon, which is killed in the middle."""

import json
import sqlite3
import urllib.request

import pytest

from tests.support.shell import Shell
from tests.support.tiny_gguf import tiny_gguf
from tests.support.waiting import until

anthropic = pytest.importorskip("anthropic")

MODEL = "solo:f32"
MESSAGE = {"model": MODEL, "max_tokens": 4, "messages": [{"role": "user", "content": "hi"}]}
ANN, BOB, EVE = "ann-key", "bob-key", "eve-key"
KEYS = f"""
[[keys]]
name = "ann"
key = "{ANN}"
[[keys]]
name = "bob"
key = "{BOB}"
models = ["{MODEL}"]
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    shell = Shell(tmp_path_factory.mktemp("home"))
    shell.ok("pull", str(tiny_gguf(shell.home / "solo.gguf")), "--name", MODEL)
    shell.ok("pull", str(tiny_gguf(shell.home / "other.gguf", seed=1)), "--name", "other:f32")
    shell.config.write_text(shell.config.read_text() + "audit_log = true\n" + KEYS)
    shell.start()
    yield shell
    shell.stop()


@pytest.fixture
def batches(daemon):
    with client(daemon) as ann:
        yield ann.messages.batches


def client(daemon, key=ANN):
    return anthropic.Anthropic(base_url=daemon.url, api_key=key, max_retries=0, timeout=60)


def asked(*custom_ids, **params):
    return [{"custom_id": custom_id, "params": {**MESSAGE, **params}} for custom_id in custom_ids]


def ended(batches, batch):
    return until(lambda: (found := batches.retrieve(batch.id)).processing_status == "ended" and found, 100, "its end")


def results(batches, batch):
    """By custom_id; each may come once only."""
    told = list(batches.results(batch.id))
    found = {line.custom_id: line.result for line in told}
    assert len(found) == len(told)
    return found


def test_each_request_has_its_own_result(batches):
    batch = batches.create(requests=[*asked("good", "long", max_tokens=9), *asked("gone", model="nobody"),
                                     *asked("streams", stream=True), *asked("empty", messages=[]),
                                     {"custom_id": "nothing", "params": {}}])
    assert (batch.processing_status, batch.request_counts.processing, batch.results_url) == ("in_progress", 6, None)
    whole = ended(batches, batch)
    assert (whole.request_counts.succeeded, whole.request_counts.errored, whole.request_counts.processing) == (2, 4, 0)
    found = results(batches, batch)
    assert list(found) == ["good", "long", "gone", "streams", "empty", "nothing"]
    assert 0 < found["long"].message.usage.output_tokens <= 9 and found["good"].message.model == MODEL
    errors = {name: result.error.error for name, result in found.items() if result.type == "errored"}
    assert errors["gone"].type == "not_found_error" and "nobody" in errors["gone"].message
    assert "`stream` cannot be true" in errors["streams"].message and "`model` is missing" in errors["nothing"].message
    assert {error.type for name, error in errors.items() if name != "gone"} == {"invalid_request_error"}


def test_listed_newest_first_and_forgotten(batches):
    made = [ended(batches, batches.create(requests=asked("a"))).id for _ in range(3)][::-1]
    assert [batch.id for batch in batches.list(limit=1)][:3] == made, "the client turns the pages itself"
    assert [batch.id for batch in batches.list(before_id=made[2], limit=2).data] == made[:2]
    assert batches.delete(made[0]).type == "message_batch_deleted"
    with pytest.raises(anthropic.NotFoundError, match="GET /v1/messages/batches lists"):
        batches.retrieve(made[0])
    assert made[0] not in [batch.id for batch in batches.list()]


def test_a_cancelled_batch_tells_what_it_has(daemon, batches):
    batch = batches.create(requests=asked(*(f"r{number}" for number in range(30)), max_tokens=200))
    with pytest.raises(anthropic.BadRequestError, match="has not ended, so it cannot be deleted; cancel it first"):
        batches.delete(batch.id)
    with pytest.raises(anthropic.BadRequestError, match="wait until"):
        client(daemon).get(f"/v1/messages/batches/{batch.id}/results", cast_to=object)
    until(lambda: answered(daemon, batch), 60, "the first result")
    batches.cancel(batch.id)
    counts = ended(batches, batch).request_counts
    assert counts.succeeded >= 1 and counts.canceled >= 20 and counts.succeeded + counts.canceled == 30
    assert [result.type for result in results(batches, batch).values()].count("canceled") == counts.canceled


def test_the_request_under_way_ends_with_its_batch(daemon, batches):
    """The model does not go on writing what nobody will read."""
    batch = batches.create(requests=asked("long", max_tokens=3800, temperature=0))
    until(lambda: "blazar_requests_in_flight 1" in read(daemon, "/metrics"), 60, "it to be under way")
    told = batches.cancel(batch.id)
    assert (told.processing_status, told.request_counts.canceled) == ("ended", 1) and told.ended_at is not None
    [audit] = daemon.home.rglob("audit.jsonl")
    line = until(lambda: next((line for line in map(json.loads, audit.read_text().splitlines())
                               if line["error"] == "message-batch-cancelled"), None), 30, "its end")
    assert line["status"] == 409 and line["completion_tokens"] < 3800
    assert [result.type for result in results(batches, batch).values()] == ["canceled"]
    assert batches.cancel(batch.id) == told, "a second time changes nothing"


def read(daemon, path):
    with urllib.request.urlopen(urllib.request.Request(daemon.url + path, headers={"x-api-key": ANN})) as answer:
        return answer.read().decode()


def test_each_api_key_has_its_own_and_its_limits_hold(daemon, batches):
    batch = ended(batches, batches.create(requests=asked("a")))
    with client(daemon, BOB) as bob:
        assert bob.messages.batches.list().data == []
        for ask in (bob.messages.batches.retrieve, bob.messages.batches.results, bob.messages.batches.cancel,
                    bob.messages.batches.delete):
            with pytest.raises(anthropic.NotFoundError):
                ask(batch.id)
        found = results(bob.messages.batches, ended(bob.messages.batches, bob.messages.batches.create(
            requests=[*asked("mine"), *asked("other", model="other:f32")])))
        assert found["mine"].type == "succeeded" and found["other"].error.error.type == "permission_error"
    with client(daemon, EVE) as eve, pytest.raises(anthropic.AuthenticationError):
        eve.messages.batches.list()


def test_a_request_that_makes_no_batch(batches):
    for requests, error in [([], anthropic.BadRequestError), (asked("a", "a"), anthropic.BadRequestError),
                            (asked("a b"), anthropic.BadRequestError),
                            (asked("a", system="x" * (11 << 20)), anthropic.RequestTooLargeError)]:
        with pytest.raises(error):
            batches.create(requests=requests)


def answered(daemon, batch):
    """The ids of the messages that are on the disk, by custom_id; read past the daemon."""
    with sqlite3.connect(f"file:{daemon.home}/.local/share/blazar/blazar.db?mode=ro", uri=True) as database:
        return dict(database.execute(
            "SELECT custom_id, json_extract(r.body, '$.id') FROM message_batch_request r JOIN message_batch b"
            " ON r.batch = b.number WHERE b.id = ? AND outcome = 'succeeded'", (batch.id,)))


def test_killed_at_half_each_request_is_answered_once(daemon, batches):
    batch = batches.create(requests=asked(*(f"r{number}" for number in range(16)), max_tokens=100))
    before = until(lambda: len(found := answered(daemon, batch)) >= 4 and found, 100, "four results")
    daemon.kill()
    before |= answered(daemon, batch)
    assert len(before) < 16
    daemon.start()
    with client(daemon) as ann:
        whole = ended(ann.messages.batches, batch)
        assert whole.request_counts.succeeded == 16
        found = results(ann.messages.batches, batch)
        assert list(found) == [f"r{number}" for number in range(16)]
        assert {name: result.message.id for name, result in found.items() if name in before} == before
