import pytest

from blazar.errors import RequestRefused
from blazar.proxy.dialects import queries

PARTS = [{"id": name} for name in "abcde"]


@pytest.mark.parametrize(("query", "expected"), [
    ("", ("abcde", False)), ("limit=2", ("ab", True)), ("limit=5", ("abcde", False)),
    ("order=desc&limit=2", ("ed", True)),
    ("after=c", ("de", False)), ("after=c&order=desc&limit=1", ("b", True)), ("after=gone", ("", False))])
def test_parts(query, expected):
    found, more = queries.part(PARTS, queries.fields(query), "asc")
    assert ("".join(one["id"] for one in found), more) == expected


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "limit=x", "limit=", "limit=-1", "limit=" + "1" * 5000,
                                   "limit=%C2%B2", "order=up"])
def test_what_is_wrong_is_refused(query):
    with pytest.raises(RequestRefused, match=query.partition("=")[0]):
        queries.part(PARTS, queries.fields(query), "asc")


def test_a_query_of_very_many_fields_is_refused():
    with pytest.raises(RequestRefused, match="64"):
        queries.fields("&".join(f"a{number}=1" for number in range(100)))


def test_pairs():
    assert queries.pairs(queries.fields("metadata%5Ba%5D=1&metadata[b]=&model=m")) == {"a": "1", "b": ""}
