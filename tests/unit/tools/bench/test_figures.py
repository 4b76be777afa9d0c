"""The arithmetic between rows and figures."""

import pytest

from tests.support.bench_rows import latencies, row
from tools.bench import figures
from tools.bench.figures import Round, Unmeasured, Unsound, at_least, at_most, over_rounds


def test_bounds_hold_at_their_limit_and_no_further():
    assert at_most(1.8).holds(1.8) and not at_most(1.8).holds(1.81)
    assert at_least(0.25).holds(0.25) and not at_least(0.25).holds(0.249)


def test_a_loosened_bound_grants_the_factor_on_its_own_side():
    assert str(at_most(1.8).loosened(2)) == "<= 3.6"
    assert str(at_least(0.25).loosened(2)) == ">= 0.125"


def test_a_ratio_divides_the_target_by_the_other():
    one = Round(latencies(blazar=60.0, nginx=40.0))
    assert one.ratio("one", "blazar", "nginx", figures.latency) == 1.5


def test_added_times_have_the_engines_own_time_taken_away():
    one = Round(latencies(direct=20.0, nginx=40.0, blazar=50.0))
    assert one.added_ratio("one", "blazar", "nginx", figures.latency) == 1.5


def test_a_reference_that_adds_nothing_gives_no_ratio():
    one = Round(latencies(direct=20.0, nginx=20.0, blazar=50.0))
    with pytest.raises(Unmeasured, match="noise"):
        one.added_ratio("one", "blazar", "nginx", figures.latency)


def test_a_missing_row_and_an_empty_one_are_named():
    one = Round([row("one", "blazar")])
    with pytest.raises(Unmeasured, match="one was not run with nginx"):
        one.read("one", "nginx", figures.latency)
    with pytest.raises(Unmeasured, match="one with blazar measured nothing"):
        one.read("one", "blazar", figures.latency)


def test_a_row_whose_counts_disagree_gives_no_figure():
    one = Round([row("one", "blazar", latency=60.0, check="INVALID: requests: client 2, engine 1")])
    with pytest.raises(Unsound, match="client 2, engine 1"):
        one.read("one", "blazar", figures.latency)


def test_ratios_are_taken_within_rounds_and_their_median_counts():
    """The second round met a machine three times slower: the ratio of medians would be another one."""
    rounds = figures.rounds_of([*latencies(blazar=60.0, nginx=40.0), *latencies(number=1, blazar=210.0, nginx=120.0),
                                *latencies(number=2, blazar=44.0, nginx=40.0)])
    assert over_rounds(rounds, lambda one: one.ratio("one", "blazar", "nginx", figures.latency)) == 1.5


def test_repeats_of_a_round_count_as_rounds():
    first = [row("one", "blazar", latency=latency, repeat=repeat) for repeat, latency in enumerate((9.0, 2.0, 7.0))]
    second = row("one", "blazar", latency=8.0, number=1)
    rounds = figures.rounds_of([*first, row("body", "blazar", latency=5.0), second])
    assert over_rounds(rounds, lambda one: one.read("one", "blazar", figures.latency)) == 7.5
    assert over_rounds(rounds, lambda one: one.read("body", "blazar", figures.latency)) == 5.0


def test_a_round_without_the_figure_is_passed_over_and_an_unsound_one_is_not():
    def read(one):
        return one.read("one", "blazar", figures.latency)

    sound, empty = Round(latencies(blazar=60.0)), Round([])
    unsound = Round([row("one", "blazar", latency=1.0, check="INVALID: x")])
    assert over_rounds([empty, sound], read) == 60.0
    with pytest.raises(Unsound):
        over_rounds([sound, unsound, sound], read)
    with pytest.raises(Unmeasured, match="not run"):
        over_rounds([empty], read)
    with pytest.raises(Unmeasured, match="no round"):
        over_rounds([], read)


def test_cpu_is_shared_out_over_events_and_the_ends_of_streams():
    assert figures.cpu_per_event(row("one", "blazar", cpu_ns=1_000_000, events=95, ended=5)) == 10.0
    assert figures.cpu_per_event(row("one", "blazar", cpu_ns=1_000_000)) is None


def test_no_rate_is_no_measurement():
    assert figures.rate(row("one", "blazar", rps=12.5)) == 12.5
    assert figures.rate(row("one", "blazar")) is None


def test_leaving_is_matched_by_serial():
    left = row("one", "blazar")
    left["client"]["left"] = [["00000000", 1_000_000], ["00000001", 2_000_000], ["00000002", 3_000_000]]
    left["engine"]["cancels"] = [["00000001", 2_500_000], ["00000000", 1_300_000], ["00000009", 9]]
    assert figures.noticed(left) == 400.0
    assert figures.noticed(row("one", "blazar")) is None
