"""The scan of large bodies says what the full parser says, whatever the body, and never holds others up for long."""

import itertools
import json
import time
from random import Random

import pytest

from blazar.errors import RequestRefused
from blazar.proxy.json import load_object
from blazar.proxy.json_scan import LONGEST_FIELD, MOST_VALUES, RUN, STEP, BodyReader, scan_object
from tests.support.fuzz.mutate import spoiled_json

FIELDS = ("model", "stream", "mcp")
MIB = 1 << 20
STALL = 0.02
"""Seconds of processor time for which nobody else may be held up."""


def scan(body, pause=lambda: None):
    return scan_object(body, FIELDS, pause)


def outcome(read, body):
    """The fields that `read` finds, or that it refuses the body."""
    try:
        return {key: value for key, value in read(body).items() if key in FIELDS}
    except RequestRefused as refused:
        assert len(refused.message) > 30
        return "refused"


def in_list(item, size):
    """A body of about `size` bytes with a long list of such items between its fields."""
    return b'{"stream":true,"x":[' + (item + b",") * (size // (len(item) + 1)) + b'0],"model":"m"}'


ALIKE = [
    b'{"model":"m","stream":true}', b' { "model" : "m" , "stream" : null } \n', b"{}", b'\xef\xbb\xbf{"model":"m"}',
    b'{"model":"a","model":"b"}', b'{"model":"a","x":{"model":"b"}}', b'{"x":["model"],"model":1}',
    b'{"mod\\u0065l":"b"}', b'{"model":"a","mod\\u0065l":"b"}', b'{"mod\\u0065l":"b","model":"a"}',
    b'{"x":"\\"model\\":1","model":"m"}', b'{"model":"\\ud800"}', b'{"model":["a",{"b":null}],"stream":{}}',
    b"", b"  ", b"[]", b'"x"', b"null", b"1", b"{", b'{"model"', b'{"model":', b'{"model":"m"', b'{"model":"m",',
    b'{"model":"m",}', b'{"model":"m"}}', b'{"model":"m"} x', b'{"model":"m"}{}', b"{,}", b'{"a":1 "b":2}', b'{"a" 1}',
    b"{'a':1}", b"{a:1}", b'{"a":01}', b'{"a":1.}', b'{"a":.5}', b'{"a":+1}', b'{"a":-}', b'{"a":1e}', b'{"a":1e5}',
    b'{"a":1e999}', b'{"a":-1E+999}', b'{"a":0.1e-9}', b'{"a":NaN}', b'{"a":Infinity}', b'{"a":tru}', b'{"a":True}',
    b'{"a":[1,2,}', b'{"a":[1,,2]}', b'{"a":[1 2]}', b'{"a":[,1]}', b'{"a":[1,]}', b'{"a":{"b":1,}}', b'{"a":{1:2}}',
    b'{"a":"\\x"}', b'{"a":"\\u12g4"}', b'{"a":"\t"}', b'{"a":"\x7f"}', b'{"a":"\xff"}', b'{"a":"\xed\xa0\x80"}',
    b'{"a":"\xf0\x9f\x98"}', b'{"a":"\xc3"}', '{"é模😀":"é模😀","model":"é"}'.encode(), b'{"a":1}\0', b'\0{"a":1}',
    '{"model":"m"}'.encode("utf-16"), '{"model":"m"}'.encode("utf-16-be"), '{"model":"m"}'.encode("utf-32"),
    b'{"a":' + b"1" * 4301 + b"}", b'{"a":' + b"1" * 300 + b"}", b'{"a":0.' + b"1" * 5000 + b"}",
    b'{"a":' + b"1" * 400 + b".5}",
    b'{"a":' + b"[" * 127 + b"]" * 127 + b"}", b'{"a":' + b"[" * 128 + b"]" * 128 + b"}",
    b'{"a":' * 127 + b"{}" + b"}" * 127, b'{"a":' * 128 + b"{}" + b"}" * 128, b'{"a":' * 128 + b"1" + b"}" * 128,
    b'{"a":' + b"[" * 100_000, b'{"a":' * 100_000, b'{"a":[[1],[1,2],{"b":1},{"b":[1]}],"model":"m"}',
    b'{"a":[[]],"b":[[[]]],"c":[{}],"d":{"e":{}}}', b'{"a":[ ],"b":{ },"c":[ 1 , 2 ],"d":{ "e" : 1 , "f" : 2 }}',
]


@pytest.mark.parametrize("body", ALIKE, ids=lambda body: repr(body[:24]))
def test_it_says_what_the_full_parser_says(body):
    assert outcome(scan, body) == outcome(load_object, body)


@pytest.mark.parametrize("seed", range(8))
def test_whatever_the_body_it_says_what_the_full_parser_says(seed):
    chance = Random(seed)
    valid = {"model": "m", "stream": True, "n": [1, -2.5, 1e9, [], {}, [[1], {"a": [None]}]], "é": {"x\n": "\\\"😀"},
             "messages": [{"role": "user", "content": [{"type": "text", "text": "a\tb"}]}]}
    read = 0
    for _ in range(400):
        body = spoiled_json(valid, chance)
        assert outcome(scan, body) == outcome(load_object, body), body
        read += outcome(scan, body) != "refused"
    assert 80 < read < 390


@pytest.mark.parametrize("edge", [RUN, STEP])
@pytest.mark.parametrize("item", [b'"a\\"b"', b'"\\u00e9"', '"é😀"'.encode(), b"12345", b'{"a":[1]}', b"[[2]]", b"  3"])
def test_it_does_not_matter_where_a_step_ends(edge, item):
    for shift in range(24):
        text = b'{"x":"' + b"-" * (edge - 24 + shift) + b'","y":[' + (item + b",") * 12 + b'0],"model":"m"}'
        assert scan(text) == {"model": "m"}
        rows = b'{"y":[' + b"1," * ((edge - 24) // 2) + b" " * shift + (item + b",") * 12 + b'0],"model":"m"}'
        assert scan(rows) == {"model": "m"}
        assert outcome(scan, rows.replace(b"0],", b"0,],")) == "refused"


@pytest.mark.parametrize("text", [b"a\\nb", "é模😀".encode(), b"\\\\\\\"", b"\\ud83d\\ude00"])
def test_long_strings_are_read_to_their_end(text):
    for extra in range(12):
        body = b'{"x":"' + b"-" * extra + text * (3 * STEP // len(text)) + b'","model":"m"}'
        assert scan(body) == {"model": "m"}
        assert outcome(scan, body.replace(b'","m', b'\\","m')) == outcome(scan, body[:-20]) == "refused"


def test_a_wanted_field_of_any_size_is_either_built_or_refused():
    assert len(scan(b'{"model":"' + b"m" * (LONGEST_FIELD - 2) + b'"}')["model"]) == LONGEST_FIELD - 2
    with pytest.raises(RequestRefused, match=r"'model' has 65537 bytes, 65536 are allowed"):
        scan(b'{"model":"' + b"m" * (LONGEST_FIELD - 1) + b'"}')


def test_a_refusal_says_where():
    with pytest.raises(RequestRefused, match=r"at offset 10 stands '\]}' instead of a value"):
        scan(b'{"a":[1,2,]}')
    with pytest.raises(RequestRefused, match="ends too early, at 7 bytes"):
        scan(b'{"a":[1')


@pytest.mark.parametrize("body", [
    b'{"model":"m","x":"' + b"A" * (25 * MIB) + b'"}', b'{"model":"m","x":"' + b"\\n\xc3\xa9" * (MIB // 2) + b'"}',
    in_list(b"1234", 2 * MIB), in_list(b"0", MIB), in_list(b'{"role":"user","content":"hello\\nthere"}', 2 * MIB),
    in_list(b"[]", MIB), in_list(b"[[[]]]", MIB // 4), in_list(b"1e5", MIB), in_list(b"123456789012345678", MIB),
    b'{"model":"m","x":' + b" " * (8 * MIB) + b"1}", b'{"model":"m",' + b'"a":1,' * (MIB // 4) + b'"b":1}',
    b'{"model":"m",' + b'"\\u0061":1,' * (MIB // 32) + b'"b":1}'],
    ids=["base64", "escapes", "ids", "zeros", "messages", "lists", "nested", "exponents", "long numbers", "blanks",
         "keys", "escaped keys"])
def test_nobody_is_held_up(body):
    turns = [time.thread_time()]
    assert scan(body, lambda: turns.append(time.thread_time()))["model"] == "m"
    turns.append(time.thread_time())
    assert max(after - before for before, after in itertools.pairwise(turns)) < STALL
    assert json.loads(body)["model"] == "m"


def test_small_bodies_are_parsed_whole():
    assert BodyReader(scan_over=13).fields(b'{"a":1,"b":2}', {"a"}) == {"a": 1, "b": 2}
    assert BodyReader(scan_over=12).fields(b'{"a":1,"b":2}', {"a"}) == {"a": 1}


@pytest.mark.parametrize("item", [
    b"0", b'"a,b[{"', b"[]", b'{"a":1}', pytest.param(b"[[0]]", marks=pytest.mark.slow),
    pytest.param(b"12345678901234567890", marks=pytest.mark.slow)])
def test_a_large_body_of_very_many_values_is_refused_before_it_is_parsed(item):
    reader = BodyReader(scan_over=1000)
    assert reader.whole(in_list(item, len(item) * (MOST_VALUES // 8)))["model"] == "m"
    with pytest.raises(RequestRefused, match="more than 1000000 values"):
        reader.whole(in_list(item, (len(item) + 1) * (MOST_VALUES + 10)))


def test_text_is_one_value_whatever_it_holds():
    assert BodyReader(scan_over=1000).whole(b'{"x":"' + b"[,{" * 2 * MOST_VALUES + b'"}')


@pytest.mark.parametrize("before, old, after", [
    (b'{"model":', b'"a"', b"}"), (b' {"x":{"model":1},"model" :\t', b'"a"', b' , "y":"model"}\n'),
    (b'{"model":"a","model":', b'"b"', b"}"), (b'\xef\xbb\xbf{"mod\\u0065l":', b'"a\\"}"', b"}"),
    (in_list(b'{"model":"no"}', 2 * MIB)[:-len(b'"m"}')], b'"m"', b"}")])
def test_one_value_is_written_anew_and_nothing_else(before, old, after):
    new = b'"owner/m:q4_0"'
    assert BodyReader().with_value(before + old + after, "model", new) == before + new + after
