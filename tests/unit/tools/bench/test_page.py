"""docs/performance.md: its tables, its words for each outcome."""

import pytest

from tests.support.bench_rows import row
from tools.bench import page, promises

KEPT = {"value": 1.7, "must": "<= 1.8", "aim": "<= 1.4"}


def test_a_table_is_markdown_and_keeps_its_cells_apart():
    assert page.table(("a", "b"), [("1", "x|y")]) == "| a | b |\n| --- | --- |\n| 1 | x\\|y |"


@pytest.mark.parametrize(("entry", "word"), [
    ({**KEPT, "value": 1.4}, "aim reached"), (KEPT, "kept"), ({**KEPT, "value": 1.81}, "missed"),
    ({**KEPT, "value": None, "note": "INVALID: one with blazar"}, "INVALID"),
    ({**KEPT, "value": None, "note": "one was not run with nginx"}, "not measured"),
    ({"value": 0.25, "must": ">= 0.25", "aim": ">= 0.34"}, "kept"),
    ({"value": 0.24, "must": ">= 0.25", "aim": ">= 0.34"}, "missed"),
])
def test_each_outcome_has_its_word(entry, word):
    assert page.verdict(entry) == word


def test_a_promise_is_one_line():
    text = page.promises({"added_latency_x_nginx": KEPT, "start_s (blazar-debian)": {**KEPT, "value": 1.0}})
    assert text.splitlines()[2:] == [
        "| added p50, 1 connection, JSON answer, × nginx | 1.7 | <= 1.8 | <= 1.4 | kept |",
        "| exec of `serve` → first 200 of `/v1/models`, s (blazar-debian) | 1 | <= 1.8 | <= 1.4 | aim reached |"]


def test_measured_rows_are_medians_and_empty_columns_are_left_out():
    rows = [row("one", "nginx", number=number, latency=latency, rps=1000.0)
            for number, latency in enumerate((40.0, 90.0, 50.0))]
    assert page.measured(rows).splitlines() == [
        "### 1 connection, JSON answers", "", "| target | requests/s | p50 µs | p99 µs | counts |",
        "| --- | --- | --- | --- | --- |", "| nginx | 1,000 | 50 | 100 | ok |"]


def test_one_invalid_round_marks_the_row():
    rows = [row("one", "blazar", latency=40.0), row("one", "blazar", number=1, check="INVALID: x", latency=40.0)]
    assert page.measured(rows).splitlines()[-1].endswith("| INVALID |")


def test_the_page_says_when_where_and_how_to_repeat_it(tmp_path):
    rows = [row("one", target, latency=latency) for target, latency in
            (("direct", 20.0), ("nginx", 40.0), ("blazar", 54.0))]
    latest = {"layout": "engine and client on core 0, the gateway on core 1", "rounds": 5,
              "targets": promises.judge(rows, {}, {"blazar": 1.0}),
              "raw": {"date": "2026-01-02", "rows": rows, "programs": {"nginx": "1.22.1", "blazar": "(Python 3.11)"},
                      "machine": {"cpu": "A CPU", "cores": "2", "memory": "8 GiB", "kernel": "6.1", "system": "Debian",
                                  "python": "3.11"}}}
    page.write(latest, tmp_path / "performance.md")
    text = (tmp_path / "performance.md").read_text()
    for words in ("2026-01-02: A CPU, 2 cores, 8 GiB of memory, Debian, kernel 6.1", "core 0, the gateway on core 1",
                  "nginx 1.22.1, blazar (Python 3.11)", "`make bench`", "× nginx | 1.7 | <= 1.8"):
        assert words in text
