"""Who counted what, and when that makes a run invalid."""

import pytest

from tools.bench.counts import NO_AUDIT, OK, AuditLines, Counts, from_metrics, metric, settled, verdict

METRICS = """\
# HELP blazar_generations_total Requests for a model that have ended.
# TYPE blazar_generations_total counter
blazar_generations_total{dialect="openai",operation="chat",status="2xx"} 40
blazar_generations_total{dialect="ollama",operation="chat",status="2xx"} 2
# TYPE blazar_prompt_tokens_total counter
blazar_prompt_tokens_total{key="a {b}",model="m"} 100
# TYPE blazar_completion_tokens_total counter
blazar_completion_tokens_total{key="a",model="m"} 1e3
# TYPE blazar_retries_total counter
blazar_retries_total 3
# TYPE blazar_slow_clients_total counter
"""


def client(**changes):
    return {"requests": 10, "ended": 10, "events": 40, "unfinished": 0, "left": [], "first_error": "",
            "errors": {"connect": 0, "status": 0, "cut": 0, "wrong": 0}, **changes}


def engine(**changes):
    return {"requests": 10, "finished": 10, "events": 40, "cancelled": 0, "prompt_tokens": 80,
            "completion_tokens": 160, **changes}


def test_agreement_of_all_is_ok():
    assert verdict(client(), engine(), Counts(10, 10, 240)) == OK


@pytest.mark.parametrize("counted", [None, Counts()])
def test_agreement_without_counters_is_said_to_be_that(counted):
    assert verdict(client(), engine(), counted) == NO_AUDIT


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


def test_counters_are_summed_over_their_labels():
    assert metric(METRICS, "blazar_generations_total") == 42
    assert metric(METRICS, "blazar_retries_total") == 3
    assert metric(METRICS, "blazar_slow_clients_total") == 0
    assert metric(METRICS, "blazar_unheard_of_total") is None


def test_tokens_are_those_of_prompts_and_answers():
    assert from_metrics(METRICS, 7) == Counts(7, 42, 1100)
    assert from_metrics("", None) == Counts()


def test_what_is_not_counted_stays_unknown_in_a_difference():
    assert Counts(12, None, 50).since(Counts(2, None, 20)) == Counts(10, None, 30)
    assert Counts(3, 4, 5).since(Counts()) == Counts(3, 4, 5)


def test_a_counter_that_has_gone_missing_disagrees():
    counted = Counts(12, None, 290).since(Counts(2, 7, 50))
    assert verdict(client(), engine(), counted) == "INVALID: requests: client 10, metrics -7"


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
