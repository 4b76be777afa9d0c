"""A path that nothing is served at is answered with the one that was probably meant."""

import pytest

from blazar.proxy.astray import LONGEST, instead_of
from blazar.proxy.routes import ROUTES

ALL = "/openapi.json describes every path"


@pytest.mark.parametrize(("path", "meant"), [
    ("/chat/completions", "/v1/chat/completions"),
    ("/v1/v1/chat/completions", "/v1/chat/completions"),
    ("/openai/v1/chat/completions", "/v1/chat/completions"),
    ("/v1/api/chat", "/api/chat"),
    ("/v1/v1/messages", "/v1/messages"),
    ("/v1/messages/", "/v1/messages"),
    ("/v1/chat/completion", "/v1/chat/completions"),
    ("/models", "/v1/models"),
    ("/embeddings", "/v1/embeddings"),
    ("/tags", "/api/tags"),
    ("/api/list", None), ("/v1", None), ("/v1/", None), ("//", None), ("", None), ("/v1/images/generations", None),
    ("/v1/files", None), ("/" + "x" * LONGEST + "/v1/models", None),
])
def test_what_was_meant(path, meant):
    assert instead_of(path) == (f"did you mean {meant}?" if meant else ALL)
    assert meant is None or meant in {route.path for route in ROUTES}
