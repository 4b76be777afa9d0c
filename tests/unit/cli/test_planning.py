"""Plans as people read them."""

import io

import pytest

from blazar.cli.output import Output
from blazar.cli.planning import tell_plan

FITS = {"fits": True, "lines": [], "warnings": ["slow"], "parts": [{"total": 3 << 30}, {"total": 1 << 30}]}
NOT = {"fits": False, "lines": [], "needed": 3 << 30, "limit": 1 << 30, "where": "the card", "levers": ["buy"]}


@pytest.mark.parametrize(("told", "code", "words"), [
    ({"plan": FITS}, 0, "warning: slow\nsolo fits: 4.0 GiB in all\n"),
    ({"plan": FITS, "goes": ["one", "two"], "refused": ""}, 0,
     "solo fits: 4.0 GiB in all\nit would take the place of one, two\n"),
    ({"plan": FITS, "goes": [], "refused": "one is pinned"}, 1,
     "solo fits: 4.0 GiB in all\nbut it would not be loaded now: one is pinned\n"),
    ({"plan": NOT}, 1, "solo does not fit: it needs 3.0 GiB, and the card is 1.0 GiB. What helps:\n  - buy\n"),
    ({"plan": None}, 0, "nothing is planned for solo\n"),
])
def test_the_verdict(told, code, words):
    out = io.StringIO()
    assert tell_plan(Output(stream=out), {"model": "solo", **told}) == code
    assert out.getvalue().endswith(words)
