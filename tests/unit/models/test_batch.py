"""The tables of files, batches and their answers."""

import json

import pytest

from blazar.errors import BatchesFull, FilesFull
from blazar.models.base import open_database
from blazar.models.batch import Batch, BatchAnswer
from blazar.models.client_file import ClientFile
from blazar.models.migrate import migrate


@pytest.fixture(autouse=True)
def database(tmp_path):
    migrate(tmp_path / "blazar.db")
    open_database(tmp_path / "blazar.db")


def file(number, owner="ann", size=10, purpose="batch", expires_at=100):
    ClientFile.put({"id": f"f{number}", "owner": owner, "name": "a", "purpose": purpose, "size": size, "created_at": 1,
                    "expires_at": expires_at}, most=3, most_bytes=100)


def batch(number, owner="ann", state="validating", **body):
    Batch.put({"id": f"b{number}", "owner": owner, "state": state, "input_file": f"f{number}",
               "body": json.dumps(body)}, most=3, most_active=2)


def test_files_are_limited_for_each_owner_and_what_batches_write_is_not():
    for number in range(3):
        file(number)
    with pytest.raises(FilesFull, match="3 files"):
        file(3)
    file(3, purpose="batch_output")
    file(4, owner="bob", size=100)
    with pytest.raises(FilesFull, match="DELETE"):
        file(5, owner="bob", size=1)


def test_files_are_seen_by_their_owner_alone():
    file(0)
    assert ClientFile.find("ann", "f0")["size"] == 10 and ClientFile.find("bob", "f0") is None
    assert not ClientFile.forget("bob", "f0") and ClientFile.forget("ann", "f0")
    assert ClientFile.ids() == set()


def test_files_come_in_pages():
    for number in range(3):
        file(number)
    file(3, purpose="batch_output", expires_at=5)
    rows, more = ClientFile.page("ann", None, 2, True, "batch")
    assert ([row["id"] for row in rows], more) == (["f2", "f1"], True)
    assert [row["id"] for row in ClientFile.page("ann", "f1", 2, False, None)[0]] == ["f2", "f3"]
    assert ClientFile.page("ann", "nobody", 2, True, None) == ([], False)
    assert ClientFile.expired(5) == [("ann", "f3")]


def test_the_oldest_batch_of_nobody_who_rests_is_next():
    batch(0, "ann")
    batch(1, "bob")
    BatchAnswer.add("b0", [(0, False, "x")])
    assert (Batch.next([])["id"], Batch.next([])["answered"]) == ("b0", 1)
    assert Batch.next(["ann"])["id"] == "b1" and Batch.next(["ann", "bob"]) is None
    assert Batch.reading("f0") == "b0"


def test_a_batch_moves_only_from_the_states_that_are_expected():
    batch(0, total=3)
    assert Batch.move("b0", ["validating"], "in_progress", {"at": 1})
    assert not Batch.move("b0", ["validating"], "failed", {})
    row = Batch.find("ann", "b0")
    assert row["state"] == "in_progress" and json.loads(row["body"]) == {"total": 3, "at": 1}


def test_the_first_answer_stays_and_the_end_takes_all():
    batch(0)
    BatchAnswer.add("b0", [(0, False, "first"), (1, True, "bad")])
    BatchAnswer.add("b0", [(0, True, "second")])
    assert BatchAnswer.part("b0", False, -1) == [(0, "first")] and BatchAnswer.part("b0", True, -1) == [(1, "bad")]
    assert (Batch.find("ann", "b0")["answered"], Batch.find("ann", "b0")["failed"]) == (2, 1)
    Batch.end("b0", "in_progress", "completed", {})
    assert BatchAnswer.part("b0", False, -1) != []
    Batch.end("b0", "validating", "completed", {})
    BatchAnswer.add("b0", [(2, False, "late")])
    assert BatchAnswer.part("b0", False, -1) == [] and Batch.find("ann", "b0")["state"] == "completed"


def test_batches_are_limited_and_those_that_ended_go_first():
    for number in range(2):
        batch(number)
    with pytest.raises(BatchesFull, match="2 batches"):
        batch(2)
    Batch.end("b0", "validating", "failed", {})
    batch(3)
    Batch.end("b1", "validating", "failed", {})
    batch(4)
    rows, more = Batch.page("ann", None, 2)
    assert ([row["id"] for row in rows], more) == (["b4", "b3"], True)
    assert [row["id"] for row in Batch.page("ann", "b3", 9)[0]] == ["b1"]
