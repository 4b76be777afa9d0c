"""OpenAI's files and batches: requests and objects."""

import pytest

from blazar.errors import RequestRefused
from blazar.proxy.dialects import openai_batches

PLAIN = {"input_file_id": "file-1", "endpoint": "/v1/embeddings", "completion_window": "24h"}
ROW = {"id": "b", "state": "in_progress", "input_file": "file-1", "answered": 3, "failed": 1}


def test_what_a_batch_is_asked_for():
    source, body = openai_batches.wanted({
        **PLAIN, "metadata": {"a": "b"}, "output_expires_after": {"anchor": "created_at", "seconds": 3600}}, 1000)
    assert source == "file-1"
    assert body == {"endpoint": "/v1/embeddings", "completion_window": "24h", "metadata": {"a": "b"},
                    "created_at": 1000, "expires_at": 1000 + 86400, "output_lifetime": 3600}
    assert openai_batches.wanted({**PLAIN, "completion_window": "168h"}, 0)[1]["expires_at"] == 7 * 86400


@pytest.mark.parametrize("changes", [
    {"input_file_id": None}, {"endpoint": "/v1/images/generations"}, {"completion_window": None},
    {"completion_window": "169h"}, {"completion_window": "1d"}, {"metadata": {"a": 1}}, {"input_file_id": 3},
    {"output_expires_after": {"anchor": "now", "seconds": 3600}},
    {"output_expires_after": {"anchor": "created_at", "seconds": 3599}}, {"output_expires_after": []}])
def test_what_is_wrong_with_a_batch_is_told(changes):
    field = next(iter(changes))
    with pytest.raises(RequestRefused, match=field):
        openai_batches.wanted({**PLAIN, **changes}, 0)


def test_counts_grow_until_the_batch_has_ended():
    body = {**openai_batches.wanted(PLAIN, 1)[1], "total": 5, "in_progress_at": 2}
    assert openai_batches.batch(ROW, body)["request_counts"] == {"total": 5, "completed": 2, "failed": 1}
    ended = openai_batches.batch({**ROW, "state": "completed", "answered": 0, "failed": 0},
                                 {**body, "completed": 4, "failed": 1, "output_file_id": "file-2", "completed_at": 9})
    assert ended["request_counts"] == {"total": 5, "completed": 4, "failed": 1}
    assert (ended["output_file_id"], ended["error_file_id"], ended["completed_at"]) == ("file-2", None, 9)


def test_an_upload_says_what_it_is_for():
    assert openai_batches.purpose({"purpose": "batch"}) == "batch"
    assert openai_batches.lifetime({"expires_after[anchor]": "created_at", "expires_after[seconds]": "7200"}) == 7200
    for fields in ({}, {"purpose": "assistants"}):
        with pytest.raises(RequestRefused, match="purpose"):
            openai_batches.purpose(fields)
    with pytest.raises(RequestRefused, match="expires_after"):
        openai_batches.lifetime({"expires_after[anchor]": "created_at", "expires_after[seconds]": "-1"})
