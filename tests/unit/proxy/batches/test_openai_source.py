"""OpenAI's batches as the runner is given them, over the tables themselves."""

import json

import pytest

from blazar.models.base import open_database
from blazar.models.batch import Batch, BatchAnswer
from blazar.models.migrate import migrate
from blazar.paths import Paths
from blazar.proxy.batches.openai_source import OpenAIBatches
from blazar.proxy.batches.task import Outcome
from blazar.store.client_files import file_path

CHAT, FILE = "/v1/chat/completions", "file-" + "1" * 24


class Tables:
    """Answers as the supervisor does; `ended` are the batches that were finished, with their state."""

    def __init__(self):
        self.ended = []

    def batches(self, verb, **fields):
        if verb == "next":
            return {"row": Batch.next(fields["resting"])}
        if verb == "move":
            return {"there": Batch.move(fields["object"], [fields["expected"]], fields["state"], fields["changes"])}
        if verb == "answer":
            BatchAnswer.add(fields["object"], fields["rows"])
            return {}
        assert verb == "finish"
        kept = [*BatchAnswer.part(fields["object"], False, -1), *BatchAnswer.part(fields["object"], True, -1)]
        self.ended.append((fields["object"], fields["state"], [json.loads(text) for _, text in kept]))
        Batch.end(fields["object"], Batch.find("ann", fields["object"])["state"], fields["state"], {})
        return {}


@pytest.fixture
def paths(tmp_path):
    paths = Paths(tmp_path).ensure()
    migrate(paths.database)
    open_database(paths.database)
    file_path(paths, FILE).write_text("\n".join(json.dumps({
        "custom_id": f"r{number}", "method": "POST", "url": CHAT, "body": {"model": "m"}}) for number in range(3)))
    Batch.put({"id": "batch_" + "2" * 32, "owner": "ann", "state": "validating", "input_file": FILE,
               "body": json.dumps({"endpoint": CHAT, "expires_at": 100})})
    return paths


def source(paths, tables, now=0):
    return OpenAIBatches(tables, paths, 10_000, lambda: now)


def test_each_line_once_whoever_goes_on(paths):
    tables = Tables()
    first = source(paths, tables)
    task = first.next(frozenset())
    assert (task.model, task.question.path, task.question.owner) == ("m", CHAT, "ann")
    assert json.loads(task.question.body) == {"model": "m"}
    assert source(paths, tables).next(frozenset()).question.id == task.question.id  # it has no answer yet
    task.answered(Outcome(200, b"{}"))
    second = source(paths, tables)
    second.next(frozenset()).answered(Outcome(404, b'{"error": {}}'))
    assert first.next(frozenset(["ann"])) is None
    first.next(frozenset()).answered(Outcome(200, b"{}"))
    assert first.next(frozenset()) is None
    (_, state, answers), = tables.ended
    assert state == "completed" and [one["custom_id"] for one in answers] == ["r0", "r2", "r1"]


def test_what_is_not_reached_in_time_is_told(paths):
    tables = Tables()
    source(paths, tables).next(frozenset()).answered(Outcome(200, b"{}"))
    assert source(paths, tables, now=100).next(frozenset()) is None
    (_, state, answers), = tables.ended
    assert state == "expired"
    assert [(one["custom_id"], (one["error"] or {}).get("code")) for one in answers] == [
        ("r0", None), ("r1", "batch_expired"), ("r2", "batch_expired")]


def test_a_file_that_is_gone_fails_the_batch(paths):
    tables = Tables()
    source(paths, tables).next(frozenset())
    file_path(paths, FILE).unlink()
    assert source(paths, tables).next(frozenset()) is None
    assert [state for _, state, _ in tables.ended] == ["failed"]
