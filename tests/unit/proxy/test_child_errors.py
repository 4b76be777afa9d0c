"""What a child says of a request becomes the right kind of error."""

import pytest

from blazar.errors import ChildFailed, ChildRefused, MediaUnread, PromptTooLong
from blazar.proxy.child_errors import child_error
from tests.support.exchanges import exchange_of


def exchange():
    made = exchange_of(id="r", dialect=None, operation="chat", asked="m", stream=False, body=b"", payload={})
    made.model, made.context_length = "m:q4_0", 4096
    return made


@pytest.mark.parametrize(("told", "status", "kind", "becomes"), [
    ({"message": "no such sampler", "code": 400}, 400, ChildRefused, 400),
    ({"message": "later", "code": 429}, 429, ChildRefused, 429),
    ({"message": "who are you"}, 401, ChildFailed, 502),
    ({"message": "no such path"}, 404, ChildFailed, 502),
    ({"message": "failed to decode", "code": 500, "type": "server_error"}, 500, ChildFailed, 502),
    ({"message": "Failed to parse tools: Missing tool type: {}", "code": 500}, 500, ChildRefused, 400),
    ({"message": "image input is not supported - hint: ...", "code": 500}, 500, ChildRefused, 400),
    ({"message": "While executing CallExpression at line 3:\nError: Jinja Exception: Roles must alternate",
      "code": 500}, 500, ChildRefused, 400),
    ({"message": "Failed to load image or audio file", "code": 500}, 500, MediaUnread, 400),
    ("only words", 503, ChildFailed, 502),
    (None, 400, ChildRefused, 400),
    ({"message": 7, "code": "x"}, 422, ChildRefused, 422),
])
def test_by_its_status_and_its_words(told, status, kind, becomes):
    error = child_error(exchange(), told, status)
    assert (type(error), error.status) == (kind, becomes)


def told_too_long(tokens):
    return {"type": "exceed_context_size_error", "n_prompt_tokens": tokens, "n_ctx": 2048, "message": "x", "code": 400}


def test_a_prompt_that_is_too_long_comes_with_the_lever_that_helps():
    error = child_error(exchange(), told_too_long(3000), 400)
    assert isinstance(error, PromptTooLong) and "3000 tokens > 2048 maximum" in error.message
    assert '[model_overrides."m:q4_0"]' in error.message and "blazar fit m:q4_0 --ctx 3000" in error.message
    assert "made for 4096" in child_error(exchange(), told_too_long(5000), 400).message
    assert isinstance(child_error(exchange(), told_too_long("many"), 400), ChildRefused)
