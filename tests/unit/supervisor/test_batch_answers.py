"""Files and batches as the supervisor keeps them."""

import json

import pytest

from blazar.errors import BatchEnded, BatchMissing, FileInUse, FileMissing, UsageRefused
from blazar.models.base import open_database
from blazar.models.client_file import ClientFile
from blazar.models.migrate import migrate
from blazar.paths import Paths
from blazar.store.client_files import FileWriter, file_path, new_file_id
from blazar.supervisor.batch_answers import LIFETIME, BatchAnswers

OUTPUT, ERRORS = "file-" + "a" * 23 + "0", "file-" + "a" * 23 + "1"


class Keeper:
    """Asks as the gateway does, at a time of its own."""

    def __init__(self, paths):
        self.paths = paths
        self.now = 1000
        self.answers = BatchAnswers(paths, self._later, lambda: self.now)

    def _later(self, link, message, call, changes=False, reads_files=False):
        self.answer = call()

    def files(self, verb, owner="ann", **fields):
        self.answers.kinds["files"](None, {"kind": "files", "verb": verb, "owner": owner, **fields})
        return self.answer

    def batches(self, verb, **fields):
        self.answers.kinds["batches"](None, {"kind": "batches", "verb": verb, **fields})
        return self.answer

    def upload(self, data=b"x\n", lifetime=None, owner="ann"):
        writer = FileWriter(self.paths, new_file_id())
        writer.write(data)
        writer.seal()
        self.files("put", owner, object=writer.id, name="a", size=writer.size, lifetime=lifetime)
        writer.close()
        return writer.id

    def batch(self, file, id="b1"):
        return self.batches("put", owner="ann", object=id, file=file, body={"total": 2})["row"]

    def finish(self, state="completed"):
        return self.batches("finish", object="b1", owner="ann", state=state, output=OUTPUT, errors=ERRORS)


@pytest.fixture
def keeper(tmp_path):
    paths = Paths(tmp_path).ensure()
    migrate(paths.database)
    open_database(paths.database)
    return Keeper(paths)


def test_a_file_is_its_owners_and_has_its_time(keeper):
    id = keeper.upload()
    assert keeper.files("find", object=id)["row"]["expires_at"] == 1000 + LIFETIME
    with pytest.raises(FileMissing):
        keeper.files("find", "bob", object=id)
    short = keeper.upload(lifetime=3600)
    keeper.now += 3600
    with pytest.raises(FileMissing):
        keeper.files("find", object=short)
    listed = keeper.files("page", after=None, purpose=None, limit=9, newest_first=True)
    assert [row["id"] for row in listed["rows"]] == [id] and not listed["more"]
    assert [file.name for file in keeper.paths.files.iterdir()] == [id]


def test_a_file_that_a_batch_reads_stays(keeper):
    id = keeper.upload(lifetime=3600)
    keeper.batch(id)
    with pytest.raises(FileInUse, match="b1"):
        keeper.files("forget", object=id)
    keeper.now += 4000
    keeper.answers.tidy()
    assert file_path(keeper.paths, id).exists()
    keeper.finish()
    keeper.answers.tidy()
    assert not file_path(keeper.paths, id).exists()


def test_a_batch_needs_a_file_of_its_owner(keeper):
    with pytest.raises(FileMissing):
        keeper.batch(keeper.upload(owner="bob"))


def test_the_end_makes_files_of_the_answers(keeper):
    keeper.batch(keeper.upload())
    keeper.batches("answer", object="b1", rows=[(0, False, '{"a":1}'), (1, True, '{"b":2}'), (2, False, "{}")])
    row = keeper.batches("find", owner="ann", object="b1")["row"]
    assert (row["answered"], row["failed"]) == (3, 1)
    keeper.finish()
    body = json.loads(keeper.batches("find", owner="ann", object="b1")["row"]["body"])
    assert (body["completed"], body["failed"], body["completed_at"]) == (2, 1, 1000)
    assert file_path(keeper.paths, body["output_file_id"]).read_text() == '{"a":1}\n{}\n'
    assert file_path(keeper.paths, body["error_file_id"]).read_text() == '{"b":2}\n'
    assert keeper.files("find", object=OUTPUT)["row"]["purpose"] == "batch_output"


def test_an_end_that_was_cut_short_is_done_again(keeper):
    keeper.batch(keeper.upload())
    keeper.batches("answer", object="b1", rows=[(0, False, "{}")])
    file_path(keeper.paths, OUTPUT).write_text("half, without a row")
    keeper.finish()
    assert file_path(keeper.paths, OUTPUT).read_text() == "{}\n"
    assert [row["id"] for row in ClientFile.page("ann", None, 9, True, "batch_output")[0]] == [OUTPUT]


def test_cancelled_once_and_not_after_the_end(keeper):
    keeper.batch(keeper.upload())
    assert keeper.batches("cancel", owner="ann", object="b1")["row"]["state"] == "cancelling"
    assert keeper.batches("cancel", owner="ann", object="b1")["row"]["state"] == "cancelling"
    keeper.finish("cancelled")
    with pytest.raises(BatchEnded, match="cancelled"):
        keeper.batches("cancel", owner="ann", object="b1")
    with pytest.raises(BatchMissing):
        keeper.batches("cancel", owner="bob", object="b1")


def test_a_verb_that_is_unknown_is_refused(keeper):
    with pytest.raises(UsageRefused):
        keeper.files("eat")
