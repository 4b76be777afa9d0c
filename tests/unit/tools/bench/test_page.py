"""docs/performance.md: its tables, its words for each outcome."""

import pytest

from tests.support.bench_rows import bench_run, row, written
from tools.bench import page

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


def test_several_runs_have_a_column_of_their_own():
    entries = {"added_latency_x_nginx": {**KEPT, "runs": [1.7, None, 2.0]}, "soak_growth": {**KEPT, "value": 0.4}}
    assert page.promises(entries, several=True).splitlines() == [
        "| what | measured | must | aim | verdict | runs |", "| --- | --- | --- | --- | --- | --- |",
        "| added p50, 1 connection, JSON answer, × nginx | 1.7 | <= 1.8 | <= 1.4 | kept | 1.7, –, 2 |",
        "| PSS of the worker after 1,000,000 requests and 10,000 streams (`make bench-soak`), more than after 10,000 "
        "requests, % | 0.4 | <= 1.8 | <= 1.4 | aim reached |  |"]


def test_the_page_says_when_where_how_long_and_how_to_repeat_it(tmp_path):
    run = bench_run(one={"direct": 20.0, "nginx": 40.0, "blazar": 54.0})
    assert page.main([written(tmp_path / "a.json", run)], tmp_path / "page.md") == 0
    text = (tmp_path / "page.md").read_text()
    for words in ("Measured on 2026-01-02 03:04: A CPU, 2 cores, 8 GiB of memory, Debian, kernel 6.1", "5 rounds, in",
                  "core 0, the gateway on core 1", "nginx 1.22.1, blazar (Python 3.11)", "`make bench`",
                  "It took 17 m 5 s.", "× nginx | 1.7 | <= 1.8", "`BLAZAR_BENCH_LITELLM` names a virtual environment",
                  "256\nslots (`slots`)", "57,344 tokens (`default_ctx`)",
                  "The long run, `make bench-soak`, is not shown: it was not made."):
        assert words in text, words
    assert "runs |" not in text


def test_the_page_of_several_runs_judges_their_median_and_shows_each(tmp_path):
    files = [written(tmp_path / f"{number}.json", bench_run(date=f"2026-01-0{number} 03:04", seconds=60.0 * number,
                                                            one={"direct": 20.0, "nginx": 40.0, "blazar": latency}))
             for number, latency in ((1, 54.0), (2, 62.0), (3, 50.0))]
    assert page.main(files, tmp_path / "page.md") == 0
    text = (tmp_path / "page.md").read_text()
    for words in ("Measured on 2026-01-01 03:04, 2026-01-02 03:04 and 2026-01-03 03:04:", "These are 3 runs.",
                  "They took 1 m, 2 m and 3 m.", "× nginx | 1.7 | <= 1.8 | <= 1.4 | kept | 1.7, 2.1, 1.5 |",
                  "Medians of all turns of all runs.", "| blazar | 54 | 108 | ok |"):
        assert words in text, words


def test_no_page_is_written_of_what_is_no_whole_run(tmp_path, capsys):
    quick = written(tmp_path / "quick.json", bench_run(rounds=3))
    assert page.main([quick], tmp_path / "page.md") == 1
    assert "quick.json has 3 rounds of the 5 that a page needs" in capsys.readouterr().err
    assert not (tmp_path / "page.md").exists()
