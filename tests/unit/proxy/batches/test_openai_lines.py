"""Lines of batch files."""

import json

import pytest

from blazar.proxy.batches import openai_lines
from blazar.proxy.batches.openai_lines import LineRefused, answer, check, read, unanswered

CHAT = "/v1/chat/completions"
GOOD = {"custom_id": "a", "method": "POST", "url": CHAT, "body": {"model": "m", "messages": []}}


def line(**changes):
    return json.dumps({**GOOD, **changes}).encode() + b"\n"


def test_a_good_line():
    asked = read(line(), CHAT, 1000)
    assert (asked.custom_id, asked.body) == ("a", {"model": "m", "messages": []})


@pytest.mark.parametrize("bad, code", [
    (b"{", "invalid_json_line"), (b"[]", "invalid_json_line"), (line(custom_id=""), "missing_required_parameter"),
    (line(custom_id=None), "missing_required_parameter"), (line(custom_id="a" * 513), "missing_required_parameter"),
    (line(method="GET"), "invalid_method"), (line(url="/v1/embeddings"), "mismatched_endpoint"),
    (line(body=[]), "missing_required_parameter"), (line(body={}), "missing_required_parameter"),
    (line(body={"model": "m", "stream": True}), "invalid_request"), (b" " * 1001, "line_too_long")])
def test_bad_lines(bad, code):
    with pytest.raises(LineRefused) as refused:
        read(bad, CHAT, 1000)
    assert refused.value.code == code


def test_all_faults_of_a_file_are_told():
    total, problems = check(enumerate([line(), b"{", line()]), CHAT, 1000)
    assert total == 3
    assert [(one["line"], one["code"]) for one in problems] == [(2, "invalid_json_line"), (3, "duplicate_custom_id")]
    assert [one["code"] for one in check([], CHAT, 1000)[1]] == ["empty_file"]
    assert len(check(enumerate([b"{"] * 1000), CHAT, 1000)[1]) == openai_lines.MOST_PROBLEMS


def test_the_number_of_requests_is_limited():
    many = (line(custom_id=str(number)) for number in range(openai_lines.MOST_LINES + 2))
    total, problems = check(enumerate(many), CHAT, 1000)
    assert total == openai_lines.MOST_LINES + 1 and [one["code"] for one in problems] == ["too_many_tasks"]


def test_answers_are_one_line_whatever_the_body():
    written = answer("a", 3, "batch_1", 200, b'{\n "x": "\xc3\xa9"}', "req")
    assert "\n" not in written
    assert json.loads(written) == {
        "id": "batch_req_1_3", "custom_id": "a", "error": None,
        "response": {"status_code": 200, "request_id": "req", "body": {"x": "é"}}}
    assert json.loads(answer("a", 3, "batch_1", 502, b"no json", "r"))["response"]["body"] == "no json"
    assert json.loads(unanswered("a", 3, "batch_1"))["error"]["code"] == "batch_expired"
