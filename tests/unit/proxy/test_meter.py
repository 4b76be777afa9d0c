import json

import pytest

from blazar.proxy import meter
from blazar.proxy.exchange import Usage
from blazar.proxy.meter import KEPT, PIECES, UNLIMITED_COMPLETION, Meter, estimated, expected_tokens
from blazar.telemetry.metrics import SHORT, Series
from tests.support.exchanges import exchange_of

# As llama-server b11434 ends a stream that did not ask for usage, and a whole answer.
STREAM_END = (b'data: {"choices":[{"finish_reason":"stop","index":0,"delta":{}}],"created":17644,"id":"chatcmpl-x",'
              b'"model":"solo","system_fingerprint":"b1-1","object":"chat.completion.chunk","timings":{"cache_n":4,'
              b'"prompt_n":27,"prompt_ms":81.2,"prompt_per_token_ms":3.0,"prompt_per_second":332.5,"predicted_n":12,'
              b'"predicted_ms":190.5,"predicted_per_token_ms":15.9,"predicted_per_second":63.0}}\n\ndata: [DONE]\n\n')
WHOLE_END = (b'"role":"assistant","content":"Hi"}}],"created":1764400000,"model":"solo","object":"chat.completion",'
             b'"usage":{"completion_tokens":12,"prompt_tokens":31,"total_tokens":43,'
             b'"prompt_tokens_details":{"cached_tokens":4}},"id":"chatcmpl-x","timings":{"cache_n":4,"prompt_n":27,'
             b'"prompt_ms":81.2,"predicted_n":12,"predicted_ms":190.5}}')
TOLD = Usage(prompt_tokens=31, completion_tokens=12, cached_tokens=4, timed=True)


def metered(data, size=1000, stream=False):
    meter = Meter(Series(SHORT) if stream else None)
    for place in range(0, len(data), size):
        meter.add(data[place:place + size], 1.0)
    return meter


@pytest.mark.parametrize("size", [1, 7, 100, 5000, 10**6])
@pytest.mark.parametrize(("end", "told"), [(STREAM_END, TOLD), (WHOLE_END, TOLD)], ids=["stream", "whole"])
@pytest.mark.parametrize("before", [0, 1, KEPT - 400, KEPT, 10 * KEPT])
def test_the_count_is_found_at_the_end_however_the_bytes_came(end, told, before, size):
    if size == 1 and before > KEPT:
        size = 3
    assert metered(b"x" * before + end, size).counts() == told


@pytest.mark.parametrize(("end", "is_finished"), [
    (STREAM_END, True), (STREAM_END.partition(b"data: [DONE]")[0], True), (b"data: 1\r\n\r\ndata:[DONE]", True),
    (b'data: {"error":{"message":"x"}}\n\n', True), (b'data: {"content":"x","stop":true}\n\n', True),
    (b'data: {"delta":{"content":"data: [DONE] \\"finish_reason\\":\\"stop\\""},"finish_reason":null}\n\n', False),
    (b'data: {"content":"x","stop":false}\n\n', False), (b"", False)])
def test_whether_a_stream_has_said_that_it_is_over(end, is_finished):
    assert metered(b"data: {}\n\n" * 1000 + end).finished == is_finished


def test_a_long_answer_costs_little_memory():
    meter = metered(b"y" * 10_000_000, 65536)
    assert len(meter._kept) <= KEPT and not meter._pieces and meter.counts() is None
    meter = metered(b"y" * 100_000, 1)
    assert len(meter._kept) <= KEPT and len(meter._pieces) < PIECES


@pytest.mark.parametrize("usage", [
    b'{"choices":[], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}',
    b'{"usage":null,"choices":[]}\n\ndata: {"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\ndata: [DONE]\n\n'])
def test_other_engines_usage(usage):
    assert metered(usage).counts() == Usage(prompt_tokens=3, completion_tokens=2)


@pytest.mark.parametrize("said", ['"usage":{"prompt_tokens":1,"completion_tokens":1}', '{"timings":{"predicted_n":5}}'])
def test_what_a_model_writes_is_never_taken_for_a_count(said):
    body = json.dumps({"choices": [{"message": {"content": said}}]}).encode()
    assert metered(body).counts() is None
    told = b',"usage":{"prompt_tokens":3,"completion_tokens":2}}'
    assert metered(body[:-1] + told).counts() == Usage(prompt_tokens=3, completion_tokens=2)


@pytest.mark.parametrize("number", ["0", "7", "-7", "07", "7.6", "7e3", "123456789012345", "1234567890123456", "1" * 40,
                                    '"7"', "null", "true", "", " 7", "7 ", "[7]"])
@pytest.mark.parametrize("form", [
    '"usage":{{"prompt_tokens":3,"completion_tokens":{}}}', '"usage":{{"prompt_tokens":{},"completion_tokens":3}}',
    '"usage":{{"prompt_tokens":3,"completion_tokens":4,"prompt_tokens_details":{{"cached_tokens":{}}}}}',
    '"usage":{{"prompt_tokens":3,"completion_tokens":{},"prompt_tokens":5}}',
    '"timings":{{"cache_n":{},"prompt_n":3,"predicted_n":4}}', '"timings":{{"prompt_n":3,"predicted_n":{}}}'])
def test_numbers_read_without_json_are_those_that_json_has(form, number):
    plain, spaced = form.format(number), form.format(number).replace(":{", ": {")
    assert metered(b"{" + plain.encode() + b"}").counts() == metered(b"{" + spaced.encode() + b"}").counts()


@pytest.mark.parametrize(("usage", "told"), [
    ('{"prompt_tokens":31,"prompt_tokens_details":{"cached_tokens":4,"audio_tokens":0},'
     '"completion_tokens_details":{"reasoning_tokens":3},"completion_tokens":12}', Usage(31, 12, 4)),
    ('{"prompt_tokens" :5,"completion_tokens":7}', Usage(5, 7)), ('{"completion_tokens":7}', Usage(0, 7)),
    ('{"prompt_tokens":5,"note":"}","completion_tokens":7}', None)])
def test_a_number_that_is_not_found_is_looked_for_with_json(usage, told):
    assert metered(b'{"usage":' + usage.encode() + b"}").counts() == told


def test_what_llama_server_writes_needs_no_json(monkeypatch):
    monkeypatch.setattr(meter, "_read_counts", lambda end: pytest.fail("was read with JSON"))
    assert metered(STREAM_END).counts() == metered(WHOLE_END).counts() == TOLD


@pytest.mark.parametrize("broken", [b'"usage":', b'"usage":{"prompt_tokens":', b'"usage":{bad}', b'"usage":"x"',
                                    b'"usage":7', b'"timings":{"prompt_n":NaN}', b'"usage":{', b'}"usage":{"a":{"b":1',
                                    b'}"usage":{"a":{"b":1}', b'{}{"usage":{"a":1,"b":{}'])
def test_a_broken_count_is_none(broken):
    assert metered(b"abc" + broken).counts() is None


def test_hostile_numbers_do_no_harm():
    counts = metered(b'"usage":{"prompt_tokens":-5,"completion_tokens":"many","prompt_tokens_details":{}}').counts()
    assert counts == Usage()


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n"])
def test_events_and_gaps_of_a_stream(end):
    gaps = Series(SHORT)
    meter = Meter(gaps)
    for number in range(5):
        meter.add(b"data: {}" + end, 10 + number * 0.02)
    assert meter.events == 5 and sum(gaps.counts) == 4 and gaps.sum == pytest.approx(0.08)


def exchange(payload, context_length=0):
    body = json.dumps(payload).encode()
    return exchange_of(id="r", dialect=None, operation="chat", asked="m", stream=False, body=body, payload=payload,
                    context_length=context_length)


@pytest.mark.parametrize(("more", "answer"), [
    ({}, UNLIMITED_COMPLETION), ({"max_tokens": 7}, 7), ({"max_completion_tokens": 9, "max_tokens": 7}, 9),
    ({"options": {"num_predict": 5}}, 5), ({"options": {"num_predict": -1}}, UNLIMITED_COMPLETION),
    ({"max_tokens": "x", "n": None}, UNLIMITED_COMPLETION), ({"max_tokens": 7, "n": 3}, 21)])
def test_what_a_request_may_use(more, answer):
    asked = exchange({"prompt": "x" * 400, **more})
    assert expected_tokens(asked) == len(asked.body) // 4 + answer


def test_no_more_is_expected_than_the_model_can_read():
    assert expected_tokens(exchange({"image": "A" * 4_000_000, "max_tokens": 9}, context_length=2048)) == 2048
    assert estimated(exchange({"image": "A" * 4_000_000}, context_length=2048), 3) == Usage(2048, 3, estimated=True)


def test_only_to_load_costs_nothing():
    asked = exchange({"prompt": ""})
    asked.knobs["load_only"] = True
    assert expected_tokens(asked) == 0


USUAL = [
    (b'"usage":{"prompt_tokens":8,"completion_tokens":16,"total_tokens":24}', Usage(8, 16)),
    (b'"usage": {"completion_tokens": 16, "prompt_tokens": 8, "total_tokens": 24}', Usage(8, 16)),
    (b'"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0,"prompt_tokens_details":{"cached_tokens":5}}',
     Usage(0, 0, 5))]


@pytest.mark.parametrize(("text", "told"), USUAL)
def test_usual_counts_are_what_json_says_of_them(text, told):
    body = b'{"choices":[],' + text + b"}"
    assert metered(body).counts() == told
    assert metered(body.replace(b"{", b"{ ")).counts() == told, "and so in a form that no pattern knows"
    assert metered(body[:-1] + b',"timings":{}}').counts() == Usage(*told.plain()[:6], timed=True)


@pytest.mark.parametrize(("text", "told"), [
    (b'{"prompt_tokens":8,"completion_tokens":16,"total_tokens":24,"prompt_tokens":9}', Usage(9, 16)),
    (b'{"prompt_tokens":12345678901,"completion_tokens":16,"total_tokens":24}', Usage(12345678901, 16)),
    (b'{"prompt_tokens":8.6,"completion_tokens":16,"total_tokens":24}', Usage(9, 16)),
    (b'{"prompt_tokens":08,"completion_tokens":16,"total_tokens":24}', None)])
def test_unusual_counts_are_read_as_json(text, told):
    assert metered(b'{"usage":' + text + b"}").counts() == told


def test_the_pieces_of_an_event_are_one_event():
    assert metered(b"data: {}\n\n" * 1000, 3, stream=True).events == pytest.approx(1000, abs=3000 / PIECES)
    assert metered(b"data: {}\n\n" * 1000, 70_000, stream=True).events == 1000
    assert metered(b"data: {}\n\n" * 1000).events == 0, "nobody asked for a stream"
