"""The table of promises, judged on rows made by hand."""

import pytest

from tests.support.bench_rows import latencies, row
from tools.bench import page, programs, promises
from tools.bench.workloads import WORKLOADS


def judge(rows, samples=None, subjects=None, missing=None):
    return promises.judge(rows, samples or {}, subjects or {"blazar": 1.0}, missing or {})


def test_a_promise_gets_its_value_and_keeps_its_bounds():
    judged = judge(latencies(direct=20.0, nginx=40.0, blazar=54.0))
    assert judged["added_latency_x_nginx"] == {"value": 1.7, "must": "<= 1.8", "aim": "<= 1.4"}


def test_rates_are_compared_whole():
    judged = judge([row("many", "nginx", rps=40000.0), row("many", "blazar", rps=10000.0)])
    assert judged["rate_64_x_nginx"]["value"] == 0.25
    assert promises.met(judged["rate_64_x_nginx"], "must") and not promises.met(judged["rate_64_x_nginx"], "aim")


def test_translation_is_compared_with_passing_through():
    judged = judge([row(workload, "blazar", cpu_ns=cpu_ns, events=10)
                    for workload, cpu_ns in (("openai", 100_000), ("ollama", 250_000), ("anthropic", 150_000))])
    assert judged["cpu_per_event_ollama_x_relayed"]["value"] == 2.5
    assert judged["cpu_per_event_anthropic_x_relayed"]["value"] == 1.5


def test_times_of_its_own_are_told_in_milliseconds():
    assert judge([row("paced-256", "blazar", first_event=7500.0)])["burst_first_event_ms"]["value"] == 7.5


def test_samples_give_their_median():
    judged = judge([], {"blazar start": [0.9, 0.7, 2.0]})
    assert judged["start_s"] == {"value": 0.9, "must": "<= 1.5", "aim": "<= 0.8"}


def test_without_a_reference_that_was_not_asked_for_its_promises_are_left_out():
    names = judge(latencies(direct=20.0, nginx=40.0, blazar=54.0))
    assert "added_latency_x_nginx" in names and "added_latency_x_go" not in names


def test_promises_of_a_missing_reference_are_not_measured_and_say_what_would_bring_it():
    words = str(programs.ProgramMissing("go"))
    judged = judge(latencies(direct=20.0, nginx=40.0, blazar=54.0), missing={"go": words})
    assert judged["added_latency_x_nginx"]["value"] == 1.7
    for name in ("added_latency_x_go", "rate_64_x_go"):
        assert judged[name]["value"] is None and "`sudo apt-get install golang-go`" in judged[name]["note"]
        assert page.verdict(judged[name]) == "not measured" and not promises.met(judged[name], "must")


def test_what_was_not_measured_says_why_and_keeps_no_promise():
    entry = judge(latencies(nginx=40.0, blazar=54.0))["added_latency_x_nginx"]
    assert entry["value"] is None and entry["note"] == "one was not run with direct"
    assert not promises.met(entry, "must")


def test_counts_that_disagree_make_the_figure_invalid():
    rows = latencies(direct=20.0, nginx=40.0)
    rows.append(row("one", "blazar", latency=54.0, check="INVALID: requests: client 5, audit log 4"))
    entry = judge(rows)["added_latency_x_nginx"]
    assert entry["value"] is None and entry["note"].startswith("INVALID: one with blazar")


def test_the_other_end_has_a_column_of_its_own_and_twice_the_bound():
    rows = latencies(direct=20.0, nginx=40.0, blazar=54.0, **{"blazar-debian": 80.0})
    judged = judge(rows, subjects={"blazar": 1.0, "blazar-debian": 2.0})
    assert judged["added_latency_x_nginx (blazar-debian)"] == {"value": 3.0, "must": "<= 3.6", "aim": "<= 2.8"}
    assert judged["added_latency_x_nginx"]["value"] == 1.7


@pytest.mark.parametrize("promise", promises.PROMISES, ids=lambda promise: promise.name)
def test_each_promise_can_be_kept(promise):
    """Its rows and samples exist: with all workloads run by all targets, there is a value."""
    rows = [row(workload.name, target, latency=time, first_event=time, event_delay=time, rps=1000.0, cpu_ns=1000,
                events=1, left=[["00000000", 0]], cancels=[["00000000", 1000]])
            for workload in WORKLOADS
            for target in ("direct", "nginx", "go", "litellm", "blazar")
            for time in (10.0 if target == "direct" else 20.0,)]
    samples = {f"blazar {promise.sample}": [1.0]}
    assert judge(rows, samples)[promise.name]["value"] is not None


def test_an_aim_is_never_easier_than_its_must():
    for promise in promises.PROMISES:
        assert promise.must.sign == promise.aim.sign
        assert promise.must.holds(promise.aim.limit), promise.name
