import json

import pytest

from blazar.errors import RequestRefused
from blazar.proxy.dialects.anthropic_listing import model, models
from tests.support.fake_supervisor import endpoint

ENTRY = {"modified_at": "2026-11-01T10:00:00+00:00", "context_length": 2048}
LISTED = dict.fromkeys("abcde", ENTRY)


def test_a_model():
    assert model("m:q4_0", ENTRY, None) == {
        "id": "m:q4_0", "type": "model", "display_name": "m:q4_0", "created_at": "2026-11-01T10:00:00.000000Z",
        "lifecycle": "active", "max_input_tokens": 2048, "max_tokens": 2048}
    assert model("m", ENTRY, endpoint("m", ("127.0.0.1", 1), ctx=512))["max_input_tokens"] == 512
    assert model("m", {**ENTRY, "context_length": 0}, None)["max_input_tokens"] is None


@pytest.mark.parametrize(("query", "shown", "more"), [
    ({}, "abcde", False), ({"limit": "2"}, "ab", True), ({"after_id": "b", "limit": "2"}, "cd", True),
    ({"after_id": "c"}, "de", False), ({"before_id": "d", "limit": "2"}, "bc", True), ({"before_id": "b"}, "a", False),
    ({"after_id": "x"}, "", False), ({"before_id": "x"}, "", False)])
def test_pages(query, shown, more):
    told = json.loads(models(LISTED, {}, query))
    assert ("".join(one["id"] for one in told["data"]), told["has_more"]) == (shown, more)
    assert (told["first_id"], told["last_id"]) == ((shown[0], shown[-1]) if shown else (None, None))


@pytest.mark.parametrize("limit", ["0", "1001", "x", ""])
def test_a_limit_that_is_none(limit):
    with pytest.raises(RequestRefused, match="from 1 to 1000"):
        models(LISTED, {}, {"limit": limit})
