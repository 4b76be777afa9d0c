import itertools

import pytest

from blazar.telemetry.metrics import MANY, Counter, Gauge, Histogram, Metrics
from tests.support.exposition import read, value


def test_a_counter_counts_for_each_set_of_labels():
    counter = Counter("a_total", "What it is.", "who", "what")
    counter.add("ann", "x")
    counter.add("ann", "x", by=41)
    counter.add("bob", "x")
    assert counter.value("ann", "x") == 42 and counter.value("nobody", "x") == 0
    assert counter.text() == ('# HELP a_total What it is.\n# TYPE a_total counter\n'
                              'a_total{who="ann",what="x"} 42\na_total{who="bob",what="x"} 1\n')


def test_without_labels_zero_is_said():
    assert Counter("a_total", "What it is.").text().endswith("\na_total 0\n")


def test_a_gauge_is_read_when_somebody_looks():
    under_way = []
    gauge = Gauge("a", "What it is.")
    gauge.read = lambda: len(under_way)
    assert gauge.text().endswith("# TYPE a gauge\na 0\n")
    under_way += ["one", "two"]
    assert gauge.text().endswith("# TYPE a gauge\na 2\n")


def test_a_value_on_a_bound_is_within_it():
    histogram = Histogram("h", "What it is.", (0.1, 1.0))
    for seconds in (0.05, 0.1, 0.5, 7.0):
        histogram.observe(seconds)
    assert histogram.text().split("\n")[2:-1] == ['h_bucket{le="0.1"} 2', 'h_bucket{le="1.0"} 3',
                                                  'h_bucket{le="+Inf"} 4', "h_sum 7.65", "h_count 4"]


def test_labels_with_quotes_backslashes_and_line_ends_come_back_as_they_were():
    nasty = 'a"b\\c\nd} 1\nx_total 9\\n'
    counter = Counter("a_total", "What it is.", "key")
    counter.add(nasty)
    assert read(counter.text()) == {("a_total", (("key", nasty),)): 1}


def test_everything_together_is_what_a_scraper_reads():
    metrics = Metrics()
    metrics.requests.add("openai", "chat", "2xx", by=3)
    metrics.in_flight.read = lambda: 1
    metrics.first_byte.observe(0.3, "solo:q4_0")
    metrics.first_byte.observe(1e-7, "solo:q4_0")
    metrics.inter_token.series("solo:q4_0").observe(99)
    found = read(metrics.text().decode())
    assert value(found, "blazar_requests_total", dialect="openai", status="2xx") == 3
    assert value(found, "blazar_requests_in_flight") == 1
    assert value(found, "blazar_first_byte_seconds_bucket", model="solo:q4_0", le="0.25") == 1
    assert value(found, "blazar_first_byte_seconds_count", model="solo:q4_0") == 2
    assert value(found, "blazar_inter_token_seconds_bucket", le="1.0") == 0
    assert value(found, "blazar_inter_token_seconds_bucket", le="+Inf") == 1
    assert value(found, "blazar_queue_seconds_count") == 0


def test_names_are_told_once_and_begin_with_ours():
    names = [metric.name for metric in Metrics().every()]
    assert len(names) == len(set(names)) and all(name.startswith("blazar_") for name in names)


@pytest.mark.parametrize("broken", ["a_total 1", "# HELP a_total What it\n# TYPE a_total counter\na_total  1\n",
                                    "# HELP a_total What it\n# TYPE a_total counter\na_total 1\na_total 1\n",
                                    '# HELP a_total What it\n# TYPE a_total counter\na_total{k="x"y"} 1\n'])
def test_the_reader_of_these_tests_is_strict(broken):
    with pytest.raises((AssertionError, StopIteration)):
        read(broken)


def test_many_values_are_in_their_buckets_whenever_somebody_looks():
    histogram, values = Histogram("h", "What it is.", (0.1, 1.0, 2.0), "who"), [(place * 7919 % 3000) / 1000
                                                                               for place in range(1000)]
    for place, value_ in enumerate(values):
        histogram.observe(value_, "ann")
        assert len(histogram.series("ann").fresh) < MANY
        if place % 333 == 0:
            assert sum(histogram.series("ann").counts) == place + 1
    bounds = (-1.0, 0.1, 1.0, 2.0, 9.0)
    assert histogram.series("ann").counts == [sum(low < one <= high for one in values)
                                              for low, high in itertools.pairwise(bounds)]
    assert histogram.series("ann").sum == pytest.approx(sum(values))


def test_who_keeps_a_count_adds_to_what_is_told():
    counter = Counter("a_total", "What it is.", "who")
    kept = counter.count("ann")
    kept.n += 2
    counter.add("ann")
    assert counter.value("ann") == kept.n == 3 and counter.values() == {("ann",): 3}
