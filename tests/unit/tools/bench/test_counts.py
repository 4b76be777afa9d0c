"""Who counted what, and when that makes a run invalid."""

import pytest

from tools.bench.blazar_target import KEY_NAMES
from tools.bench.counts import INVALID, NO_AUDIT, OK, AuditLines, Counts, from_metrics, settled, verdict

METRICS = """\
# HELP blazar_generations_total Requests for a model that have ended.
# TYPE blazar_generations_total counter
blazar_generations_total{dialect="openai",operation="chat",status="2xx"} 40
blazar_generations_total{dialect="ollama",operation="chat",status="2xx"} 2
# TYPE blazar_prompt_tokens_total counter
blazar_prompt_tokens_total{key="bench 0",model="m"} 100
blazar_prompt_tokens_total{key="bench 7",model="m"} 10
blazar_prompt_tokens_total{key="bench 8",model="m"} 7
blazar_prompt_tokens_total{key="",model="m"} 9
# TYPE blazar_completion_tokens_total counter
blazar_completion_tokens_total{key="bench 0",model="m"} 1e3
blazar_completion_tokens_total{key="",model="m"} 5
# TYPE blazar_retries_total counter
blazar_retries_total 3
"""


def client(**changes):
    return {"requests": 10, "ended": 10, "events": 40, "unfinished": 0, "left": [], "first_error": "",
            "errors": {"connect": 0, "status": 0, "cut": 0, "wrong": 0}, **changes}


def engine(**changes):
    return {"requests": 10, "finished": 10, "events": 40, "cancelled": 0, "prompt_tokens": 80,
            "completion_tokens": 160, **changes}


def test_agreement_of_all_is_ok():
    assert verdict(client(), engine(), Counts(10, 10, 240)) == OK


def test_agreement_with_a_gateway_that_does_not_count_is_said_to_be_that():
    assert verdict(client(), engine(), None) == NO_AUDIT


@pytest.mark.parametrize(("counted", "words"), [
    (Counts(None, 10, 240), "requests: there is no audit log"),
    (Counts(10, None, 240), "requests: metrics do not tell them"),
    (Counts(10, 10, None), "tokens: metrics do not tell those of the API keys"),
    (Counts(), "requests: there is no audit log; requests: metrics do not tell them; tokens: metrics do not tell those "
               "of the API keys"),
])
def test_what_blazar_does_not_tell_spoils_a_run(counted, words):
    assert verdict(client(), engine(), counted) == f"{INVALID}: {words}"


@pytest.mark.parametrize(("counted", "words"), [
    (Counts(9, 10, 240), "requests: client 10, audit log 9"),
    (Counts(10, 11, 240), "requests: client 10, metrics 11"),
    (Counts(10, 10, 239), "tokens: engine 240, metrics 239"),
])
def test_each_counter_can_spoil_a_run(counted, words):
    assert verdict(client(), engine(), counted) == f"INVALID: {words}"


@pytest.mark.parametrize(("told", "words"), [
    ({"requests": 9}, "requests: client 10, engine 9"),
    ({"finished": 9}, "answers: client 10, engine 9"),
    ({"events": 41}, "events: client 40, engine 41"),
    ({"cancelled": 1}, "leavers: client 0, engine 1"),
])
def test_the_engine_has_to_agree(told, words):
    assert verdict(client(), engine(**told), None) == f"INVALID: {words}"


def test_errors_spoil_a_run_and_are_quoted():
    spoilt = client(errors={"connect": 0, "status": 2, "cut": 0, "wrong": 0}, first_error="status 429: slow down")
    assert verdict(spoilt, engine(), None) == "INVALID: 2 status errors; first: status 429: slow down"
    assert verdict(client(unfinished=3), engine(), None) == "INVALID: 3 unfinished"


def test_tokens_of_answers_that_were_left_are_not_compared():
    gone = client(ended=0, events=0, left=[["00000000", 1]] * 10)
    told = engine(finished=0, events=0, cancelled=10, prompt_tokens=0, completion_tokens=0)
    assert verdict(gone, told, Counts(10, 10, 70)) == OK


def test_a_verdict_may_take_a_moment_to_become_good():
    verdicts = iter(["INVALID: late", "INVALID: late", OK])
    assert settled(lambda: next(verdicts)) == OK
    assert settled(lambda: "INVALID: for good", limit=0.0) == "INVALID: for good"


def test_requests_are_summed_over_their_labels_and_tokens_over_our_keys():
    assert from_metrics(METRICS, 7, KEY_NAMES) == Counts(7, 42, 1110)
    assert from_metrics(METRICS, None, ["bench 7"]) == Counts(None, 42, None)


def test_tokens_that_went_to_nobody_spoil_a_run():
    """The engine has made 240, of which the API keys were charged 226."""
    page = '''# TYPE blazar_{0}_tokens_total counter
blazar_{0}_tokens_total{{key="{1}",model="m"}} {2}
'''
    text = METRICS.splitlines(keepends=True)[1] + 'blazar_generations_total{status="2xx"} 10\n' + \
        page.format("prompt", "bench 0", 80) + page.format("completion", "bench 0", 146) + \
        'blazar_completion_tokens_total{key="",model="m"} 14\n'
    assert verdict(client(), engine(), from_metrics(text, 10, KEY_NAMES)) == \
        "INVALID: tokens: engine 240, metrics 226"
    assert verdict(client(), engine(), from_metrics(text.replace('key=""', 'key="bench 1"'), 10, KEY_NAMES)) == OK


@pytest.mark.parametrize("spoil", [
    lambda text: "", lambda text: "<html>", lambda text: text.replace("generations", "others"),
    lambda text: text + 'blazar_generations_total{dialect="ollama",operation="chat",status="2xx"} 2\n'])
def test_a_page_that_does_not_tell_or_tells_twice_counts_nothing(spoil):
    assert from_metrics(spoil(METRICS), 7, KEY_NAMES).generations is None


def test_a_key_is_told_once():
    twice = METRICS + 'blazar_prompt_tokens_total{key="bench 0",model="m"} 100\n'
    assert from_metrics(twice, 7, KEY_NAMES) == Counts(7)


def test_a_difference_needs_both_looks():
    assert Counts(12, None, 50).since(Counts(2, None, 20)) == Counts(10, None, 30)
    assert Counts(3, 4, 5).since(Counts(1)) == Counts(2)
    assert Counts(12, None, 290).since(Counts(2, 7, 50)) == Counts(10, None, 240)


def test_lines_are_counted_across_a_rotation(tmp_path):
    log = tmp_path / "audit.jsonl"
    lines = AuditLines(log)
    assert lines.count() is None
    log.write_text("one\ntwo\n")
    assert lines.count() == 2
    with open(log, "a") as file:
        file.write("three\nfou")
    assert lines.count() == 3
    with open(log, "a") as file:
        file.write("r\n")
    log.replace(tmp_path / "audit.jsonl.1")
    log.write_text("five\n")
    assert lines.count() == 5
    assert lines.count() == 5
