import pytest

from blazar.models.base import close_database, open_database
from blazar.models.migrate import migrate
from blazar.models.stored import LIFETIME, Completion, Response

NOW = 1_000_000.5


@pytest.fixture(autouse=True)
def database(tmp_path):
    migrate(tmp_path / "blazar.db")
    open_database(tmp_path / "blazar.db")
    yield
    close_database()


def put(id, owner="ann", now=NOW, table=Response, model="m:q4_0", metadata="{}", body=None, **limits):
    table.put({"id": id, "owner": owner, "model": model, "metadata": metadata, "input": "[]",
               "body": f'{{"id":"{id}"}}' if body is None else body}, now, **limits)


def ids(owner="ann", table=Response, after=None, limit=20, newest_first=False, model=None, pairs=None, now=NOW, **more):
    rows, following = table.page(owner, now, after, limit, newest_first, model, pairs or {}, **more)
    return [row["body"][7:-2] for row in rows], following


def test_what_is_put_is_found_by_its_owner_alone_and_in_its_table():
    put("a", metadata='{"k":"v"}')
    row = Response.find("ann", "a", NOW)
    assert (row["model"], row["metadata"], row["input"], row["body"]) == ("m:q4_0", '{"k":"v"}', "[]", '{"id":"a"}')
    assert row["size"] == len('{"k":"v"}' '[]' '{"id":"a"}')
    assert Response.find("bob", "a", NOW) is None and Completion.find("ann", "a", NOW) is None
    assert not Response.forget("bob", "a", NOW) and not Response.annotate("bob", "a", "{}", NOW)
    assert ids("bob") == ([], False)
    put("a", "bob", body='{"id":"x"}')
    assert Response.find("ann", "a", NOW)["body"] == '{"id":"a"}'


def test_the_same_id_again_replaces():
    put("a")
    put("a", body='{"id":"b"}')
    assert ids() == (["b"], False)


def test_metadata_alone_change():
    put("a", table=Completion)
    assert Completion.annotate("ann", "a", '{"k":"v"}', NOW)
    assert Completion.find("ann", "a", NOW)["metadata"] == '{"k":"v"}'
    assert not Completion.annotate("ann", "b", "{}", NOW)


def test_forgotten_is_gone():
    put("a")
    assert Response.forget("ann", "a", NOW) and not Response.forget("ann", "a", NOW)
    assert Response.find("ann", "a", NOW) is None


def test_after_its_time_it_is_as_if_it_were_gone_and_with_the_next_it_goes():
    put("a")
    end = NOW + LIFETIME
    assert Response.find("ann", "a", end - 1) is not None
    assert Response.find("ann", "a", end) is None and ids(now=end) == ([], False)
    assert not Response.forget("ann", "a", end)
    put("b", "bob", now=end)
    assert Response.select().count() == 1


def test_the_owners_oldest_go_when_there_are_too_many():
    put("other", "bob")
    for number in range(5):
        put(f"r{number}", most=3)
    assert ids()[0] == ["r2", "r3", "r4"] and ids("bob")[0] == ["other"]


def test_or_when_they_are_too_large_but_never_the_new_one():
    for number in range(4):
        put(f"r{number}", most_bytes=60)
    assert ids()[0] == ["r0", "r1", "r2", "r3"]  # 15 bytes each
    put("r4", most_bytes=60)
    assert ids()[0] == ["r1", "r2", "r3", "r4"]
    put("big", body='{"id":"%s"}' % ("x" * 100), most_bytes=60)
    assert ids()[0] == ["x" * 100]


def test_pages():
    for number in range(5):
        put(f"r{number}")
    assert ids(limit=2) == (["r0", "r1"], True)
    assert ids(limit=2, after="r1") == (["r2", "r3"], True)
    assert ids(limit=2, after="r3") == (["r4"], False)
    assert ids(limit=2, newest_first=True) == (["r4", "r3"], True)
    assert ids(limit=9, after="r3", newest_first=True) == (["r2", "r1", "r0"], False)
    assert ids(after="gone") == ids(after="gone", newest_first=True) == ([], False)
    assert ids(page_bytes=30) == (["r0", "r1"], True) and ids(page_bytes=1) == (["r0"], True)


def test_those_alone_that_are_wanted():
    put("a", metadata='{"topic":"x","a.b":"1"}')
    put("b", model="n:q8_0", metadata='{"topic":"x"}')
    put("c", metadata='{"topic":"y"}')
    assert ids(pairs={"topic": "x"})[0] == ["a", "b"]
    assert ids(pairs={"topic": "x", "a.b": "1"})[0] == ["a"]
    assert ids(model="n:q8_0")[0] == ["b"] and ids(model="m:q4_0", pairs={"topic": "y"})[0] == ["c"]
    assert ids(pairs={'q"uote': "x"}) == ids(pairs={"": "x"}) == ids(pairs={"a\\": "x"}) == ([], False)
