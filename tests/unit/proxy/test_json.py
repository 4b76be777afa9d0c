"""The JSON door: what it refuses, and that it is the same door with and without orjson."""

import subprocess
import sys
import time

import pytest

from blazar.errors import RequestRefused
from blazar.proxy.json import BadJson, dumps, load_object, loads

BAD = {
    b"": "empty", b"  \n": "empty", b"{": "line 1 column 2", b'{"a":1,}': "line 1", b'{"a":NaN}': "NaN",
    b'{"a":-Infinity}': "-Infinity", b'{"a":1e999}': "too large", b'{"a":\xff}': "offset 5",
    b"1" * 5000: "5000 digits", b"1" * 4000: "too large", b"[" * 100_000: "128 levels",
    b'{"a":' * 100_000: "128 levels",
    b"[" * 129 + b"]" * 129: "128 levels",
    b"[" * 400 + b'"\\ud800"' + b"]" * 400: "128 levels",
    '{"a":1}'.encode("utf-16"): "UTF-16",
    '{"a":1}'.encode("utf-16-le"): "UTF-16",
    b'{"a":"\xed\xa0\x80"}': "not UTF-8", b'{"a":"\n"}': "line 1", b"{} x": "line 1",
}
GOOD = {
    b'{"a":1,"a":2}': {"a": 2}, b"\xef\xbb\xbf{}": {}, b'"\\ud800x"': "\ufffdx", b'"\\ud83d\\ude00"': "😀",
    b"[" * 128 + b"]" * 128: None, b"[" * 127 + b"[],[]" + b"]" * 127: None,
    b"18446744073709551615": 2**64 - 1, b"-9223372036854775808": -2**63,
    b"123456789012345678901234567890": 1.2345678901234568e29, b'{"\\udc00":"\\uD800"}': {"\ufffd": "\ufffd"},
    b"1.5e3": 1500.0, b" [null,true] ": [None, True],
}


@pytest.mark.parametrize("body", BAD, ids=lambda body: repr(body[:12]))
def test_bad_text_is_refused_quickly_and_says_why(body):
    began = time.perf_counter()
    with pytest.raises(BadJson, match=BAD[body]):
        loads(body)
    assert time.perf_counter() - began < 0.5


@pytest.mark.parametrize("body", GOOD, ids=lambda body: repr(body[:12]))
def test_good_text(body):
    value = loads(body)
    if GOOD[body] is not None:
        assert value == GOOD[body] and type(value) is type(GOOD[body])
    assert loads(dumps(value)) == value
    assert loads(body.removeprefix(b"\xef\xbb\xbf").decode()) == value


def test_brackets_in_strings_are_not_depth():
    assert loads(dumps({"a": "[" * 500})) == {"a": "[" * 500}


@pytest.mark.parametrize(("body", "got"), [(b"[]", "a list"), (b'"x"', "a string"), (b"null", "null"),
                                           (b"1", "a number"), (b"true", "true")])
def test_a_body_must_be_an_object(body, got):
    with pytest.raises(RequestRefused, match=f"JSON object.*got {got}"):
        load_object(body)


def test_a_refused_body_teaches():
    with pytest.raises(RequestRefused, match=r"not usable JSON: .*line 2 column 1"):
        load_object(b'{"a":\n}')


def test_what_is_written():
    assert dumps({"a": [1, "é", None], "b": 10**20}) == '{"a":[1,"é",null],"b":100000000000000000000}'.encode()
    assert dumps({"a": float("nan"), "b": [float("-inf")]}) == b'{"a":null,"b":[null]}'
    assert dumps({"\ud800": ("x\udfff", 1.5)}) == '{"\ufffd":["x\ufffd",1.5]}'.encode()


SCRIPT = """
import sys
if sys.argv[1] == "plain": sys.modules["orjson"] = None
from blazar.proxy import json
from tests.unit.proxy.test_json import BAD, GOOD
assert (json.orjson is None) == (sys.argv[1] == "plain")
for body in [*BAD, *GOOD]:
    try: print(repr(json.loads(body)), json.dumps(json.loads(body)))
    except json.BadJson as bad: print(bad)
print(json.dumps({"a": float("nan"), "b": 10**30, "c": "\\ud800", "d": "\\x7f\\u2028/"}))
"""


def test_with_and_without_orjson():
    pytest.importorskip("orjson")
    plain, fast = (subprocess.run([sys.executable, "-c", SCRIPT, which], capture_output=True, text=True, check=True)
                   .stdout for which in ("plain", "fast"))
    assert plain == fast and len(plain.splitlines()) == len(BAD) + len(GOOD) + 1
