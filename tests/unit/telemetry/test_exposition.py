import time

import pytest

from blazar.telemetry import exposition
from blazar.telemetry.exposition import BadPage, Family, Sample, labelled, summed
from tests.support.exposition import read

LLAMA = """\
# HELP llamacpp:prompt_tokens_total Number of prompt tokens processed.
# TYPE llamacpp:prompt_tokens_total counter
llamacpp:prompt_tokens_total 7
# HELP llamacpp:requests_processing Number of requests processing.
# TYPE llamacpp:requests_processing gauge
llamacpp:requests_processing 0
"""
HISTOGRAM = """\
# TYPE wait_seconds histogram
wait_seconds_bucket{le="1.0"} 2
wait_seconds_bucket{le="+Inf"} 3
wait_seconds_sum 4.5
wait_seconds_count 3
"""


def families(text):
    return {family.name: family for family in exposition.read(text)}


def test_what_is_read_is_written_again():
    assert exposition.page(exposition.read(LLAMA)) == LLAMA
    assert exposition.page(exposition.read(HISTOGRAM)) == "# HELP wait_seconds \n" + HISTOGRAM
    family = families(HISTOGRAM)["wait_seconds"]
    assert Family.from_plain(family.plain()) == family


@pytest.mark.parametrize(("line", "sample"), [
    ("a 1", Sample("", (), "1")), ("a  -1.5e3 1700000000000", Sample("", (), "-1.5e3")),
    ("a nan", Sample("", (), "NaN")), ("a -nan", Sample("", (), "NaN")), ("a -infinity", Sample("", (), "-Inf")),
    ('a{b="c",} 1', Sample("", (("b", "c"),), "1")),
    ('a { b = "c" , d="" } +Inf', Sample("", (("b", "c"), ("d", "")), "+Inf")),
    (r'a{b="q\"s\\n\n}"} 1', Sample("", (("b", 'q"s\\n\n}'),), "1"))])
def test_a_sample(line, sample):
    [family] = exposition.read(line + "\n# a remark\n\n")
    assert (family.name, family.kind, family.samples) == ("a", "untyped", [sample])


@pytest.mark.parametrize("text", [
    "<html>no</html>", "a", "a1", "a one", "a 1_0", 'a{b="c} 1', 'a{b="c" d="e"} 1', 'a{b="c",b="d"} 1', "a 1\na 1",
    "1a 2", "# TYPE a circle", "a 1\n# TYPE a counter", "# TYPE 1a counter", "# TYPE a counter\n# TYPE a gauge",
    "a{} 1 2 3", "a \u0661\uff12", "\x00\x01\x02"])
def test_what_is_no_page(text):
    with pytest.raises(BadPage):
        exposition.read(text)


@pytest.mark.parametrize("text", [
    "a" * 1_000_000, "a " * 400_000, "a{" * 400_000, 'a{b="' + "\\" * 999_999, 'a{' + 'b="c",' * 150_000,
    "a" + " " * 900_000 + "{", "# HELP " + "x " * 400_000, "# TYPE " * 100_000])
def test_a_hostile_line_takes_no_long_time(text):
    began = time.monotonic()
    try:
        exposition.read(text)
    except BadPage as error:
        assert len(str(error)) < 200
    assert time.monotonic() - began < 10, "a second, on a machine that others use too"


def test_too_many_samples_are_no_page():
    assert len(exposition.read("a{b=\"1\"} 1\na 2", most=2)[0].samples) == 2
    with pytest.raises(BadPage, match="more than 2"):
        exposition.read('a 1\na{b="1"} 1\nc 2', most=2)


def test_pieces_of_a_family_come_together():
    page = exposition.page(exposition.read('# TYPE a counter\na{b="1"} 1\nc 2\na{b="2"} 3\n'))
    assert page.index('a{b="2"} 3') < page.index("c 2")


def test_two_engines_make_one_family_and_the_first_help_stands():
    page = exposition.Page()
    for model, help in (("m:q4_0", "First."), ("n:q8_0", "Other.")):
        for family in exposition.read(LLAMA.replace("Number of prompt tokens processed.", help)):
            assert page.add(labelled(family, {"model": model, "replica": "1"}))
    text = page.text()
    assert text.count("# HELP llamacpp:prompt_tokens_total") == text.count("# TYPE llamacpp:prompt_tokens_total") == 1
    assert "First." in text and "Other." not in text
    found = read(text)
    assert found["llamacpp:prompt_tokens_total", (("model", "n:q8_0"), ("replica", "1"))] == 7 and len(found) == 4


def test_what_clashes_is_left_out():
    page = exposition.Page(exposition.read(HISTOGRAM))
    for clash in ("# TYPE wait_seconds gauge\nwait_seconds 1",
                  "# TYPE wait_seconds_count counter\nwait_seconds_count 1"):
        for family in exposition.read(clash):
            assert not page.add(family)
    assert page.add(Family("wait", "gauge", "Fine.", [Sample("", (), "1")]))
    assert exposition.page(exposition.read(HISTOGRAM)) in page.text()
    assert not page.add(Family("wait_seconds_sum", "gauge", "")) and page.text().count("wait_seconds_sum") == 1


def test_the_same_sample_of_two_sources_stands_there_once():
    page = exposition.Page()
    assert page.add(Family("a", "gauge", "", [Sample("", (), "1")]))
    assert page.add(Family("a", "gauge", "", [Sample("", (), "2"), Sample("", (("b", "c"),), "3")]))
    assert page.text().endswith('a 1\na{b="c"} 3\n')


def test_a_label_that_is_taken_is_kept_under_another_name():
    theirs = Family("a", "gauge", "", [Sample("", (("model", "theirs"), ("x", "y")), "1")])
    family = labelled(theirs, {"model": 'o"urs'})
    assert family.text().endswith('a{model="o\\"urs",exported_model="theirs",x="y"} 1\n')
    [theirs] = exposition.read('a{exported_model="b",model="c",replica="d"} 1')
    family = labelled(theirs, {"model": "m", "replica": "r"})
    assert family.text().endswith('a{model="m",replica="r",exported_model="b",exported_exported_model="c",'
                                  'exported_replica="d"} 1\n')


def test_counts_are_added_up():
    one = exposition.read(HISTOGRAM)
    other = exposition.read(HISTOGRAM.replace(" 2\n", " 3\n") + "# TYPE n gauge\nn 1\n")
    text = exposition.page(summed([one, other, []]))
    assert 'wait_seconds_bucket{le="1.0"} 5\n' in text and "wait_seconds_sum 9\n" in text and text.endswith("n 1\n")
    assert summed([]) == []
