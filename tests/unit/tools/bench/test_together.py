"""Which runs a page is made of, how several become one, and the long run beside them."""

import pytest

from tests.support.bench_rows import bench_run, soak_run, written
from tools.bench import promises, together
from tools.bench.page import verdict
from tools.bench.together import Refused, median

KEPT = {"value": 1.7, "must": "<= 1.8", "aim": "<= 1.4"}


def read(*files):
    return together.read(list(files))


@pytest.fixture
def run(tmp_path):
    file = tmp_path / "latest.json"
    written(file, bench_run())
    return file


def test_a_whole_run_is_taken(run):
    found = read(run)
    assert found.entries().keys() >= {promise.name for promise in promises.PROMISES if promise.needs != "litellm"}
    assert len(found.rows()) == len(bench_run()["raw"]["rows"]) == len(read(run, run).rows()) / 2


@pytest.mark.parametrize(("content", "words"), [
    (bench_run(rounds=4), "has 4 rounds of the 5 that a page needs, so no page is made of it. `make bench` makes"),
    (bench_run(without=("go",)), "lacks go, so no page is made of it. `make bench` makes a whole run\ngo: it is not"),
    (bench_run(without=("blazar-debian", "nginx")), "lacks blazar-debian, nginx, so"),
    ({**bench_run(), "raw": {"rows": bench_run()["raw"]["rows"][:6]}}, "lacks many, first, paced-256"),
    ({"targets": {}}, "is not what `make bench` or `make bench-soak` has written"),
    ([], "is not what"),
])
def test_of_a_quick_or_partial_run_no_page_is_made(tmp_path, content, words):
    written(tmp_path / "latest.json", content)
    with pytest.raises(Refused) as refused:
        read(tmp_path / "latest.json")
    assert str(refused.value).startswith(str(tmp_path)) and words in str(refused.value)


def test_one_bad_run_among_several_is_refused(run, tmp_path):
    written(tmp_path / "quick.json", bench_run(rounds=3))
    with pytest.raises(Refused, match=r"quick\.json has 3 rounds"):
        read(run, tmp_path / "quick.json")


def test_files_that_are_none_are_named(tmp_path):
    with pytest.raises(Refused, match=r"there is no .*none\.json; `make bench` writes"):
        read(tmp_path / "none.json")
    (tmp_path / "torn.json").write_text("{")
    with pytest.raises(Refused, match=r"torn\.json is no JSON"):
        read(tmp_path / "torn.json")
    written(tmp_path / "soak.json", soak_run())
    with pytest.raises(Refused, match="a run of `make bench` too"):
        read(tmp_path / "soak.json")


def test_the_median_of_runs_is_judged():
    entries = [{**KEPT, "value": value} for value in (1.7, 1.9, 1.5)]
    assert median(entries) == {**KEPT, "value": 1.7, "runs": [1.7, 1.9, 1.5]}
    assert verdict(median(entries)) == "kept" and verdict(median(entries[1:2])) == "missed"


def test_a_run_that_did_not_ask_for_it_is_passed_over():
    assert median([KEPT, None, {**KEPT, "value": 1.3}]) == {**KEPT, "value": 1.5, "runs": [1.7, None, 1.3]}


def test_a_run_without_a_value_spoils_the_median():
    lacking = {**KEPT, "value": None, "note": "no row"}
    invalid = {**KEPT, "value": None, "note": "INVALID: one with blazar"}
    assert median([KEPT, lacking]) == {**lacking, "runs": [1.7, None]}
    assert median([lacking, invalid, KEPT]) == {**invalid, "runs": [None, None, 1.7]}


def test_the_long_run_lies_beside_or_is_named(run, tmp_path):
    assert read(run).soak is None and read(run).no_soak == "it was not made"
    written(tmp_path / "long.json", soak_run(value=0.7))
    assert read(run, tmp_path / "long.json").entries()["soak_growth"] == {"value": 0.7, "must": "<= 5", "aim": "<= 1"}
    written(tmp_path / "soak.json", soak_run())
    assert read(run).entries()["soak_growth"]["value"] == 0.5 and read(run).no_soak == ""


@pytest.mark.parametrize(("soak", "words"), [
    (soak_run(sources="other"), "it was made with other sources of Blazar"),
    (soak_run(requests=200), "it had only 200 requests and 10,000 streams"),
    (soak_run(streams=20), "it had only 1,000,000 requests and 20 streams"),
])
def test_a_long_run_of_something_else_is_left_out(run, tmp_path, soak, words):
    written(tmp_path / "soak.json", soak)
    assert words in read(run).no_soak and "soak_growth" not in read(run).entries()


def test_a_long_run_whose_counts_disagree_keeps_nothing(run, tmp_path):
    written(tmp_path / "soak.json", soak_run(invalid=["INVALID: tokens: engine 2, metrics 1"]))
    assert verdict(read(run).entries()["soak_growth"]) == "INVALID"
