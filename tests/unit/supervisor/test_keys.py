"""API keys that are read again, by those who changed them and by reloads, at the same time."""

import pytest

from blazar.config.load import load
from blazar.config.tables.api_keys import names_of
from blazar.supervisor.keys import Keys
from blazar.supervisor.loop import Loop
from blazar.supervisor.pool import Pool
from blazar.supervisor.workers import Workers

ANN, BOB = '[[keys]]\nname = "ann"\nkey = "sk-ann"\n', '[[keys]]\nname = "bob"\nkey = "sk-bob"\n'


class Asker:
    """An end of the control socket that keeps what it is told."""

    def __init__(self):
        self.told = []

    def answer(self, message, **fields):
        self.told.append(fields)

    def refuse(self, message, error):
        self.told.append(error)


class Bench:
    def __init__(self, file):
        self.file, self.loop = file, Loop()
        self.pool = Pool(self.loop)
        file.write_text(ANN + BOB)
        self.config = load(file, {}).as_dict()
        self.keys = Keys(self.config, file, self.pool, Workers(self.loop))

    def entries(self, text):
        self.file.write_text(text)
        return load(self.file, {}).as_dict()["keys"]

    def names(self):
        done = []
        self.pool.submit(lambda *_: done.append(True), bool)
        for _ in range(40):
            self.loop.turn(0.05)
        return names_of(self.config["keys"]) if done else None


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path / "config.toml")


def test_a_key_that_was_taken_back_does_not_come_again_by_a_reload_that_has_read_it_before(bench):
    stale = bench.entries(ANN + BOB)
    bench.file.write_text(ANN)
    bench.keys.reloaded(stale)
    assert bench.names() == ["ann"]


def test_nor_by_one_who_has_read_it_before_the_reload(bench):
    asker = Asker()
    bench.keys.read_again(asker, {})
    while bench.loop._calls.qsize() < 1:  # it has been read, and is not in force yet
        pass
    bench.keys.reloaded(bench.entries(ANN))
    assert bench.names() == ["ann"] and asker.told == [{"file": str(bench.file), "names": ["ann"]}]


def test_a_file_that_is_empty_by_then_does_not_let_everybody_in(bench):
    entries = bench.entries(ANN)
    bench.file.write_text("")
    bench.keys.reloaded(entries)
    assert bench.names() == ["ann"]


def test_the_last_key_stays_where_what_is_offered_needs_one(bench):
    bench.config.update(host="0.0.0.0", agent=True)
    bench.file.write_text("")
    asker = Asker()
    bench.keys.read_again(asker, {})
    assert bench.names() == ["ann", "bob"] and "with host 0.0.0.0, key `agent`" in asker.told[0].message
