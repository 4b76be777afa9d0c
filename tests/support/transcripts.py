"""What agents send, replayed: tests/data/transcripts holds Anthropic's, its folder `ollama` those for Ollama's API.

A transcript is a request, the chunks of the child, what the child must have been asked, and the answer. In `asked`, the
number of a list stands for its length; `turns` are messages by their place.
"""

import json
from pathlib import Path
from typing import Any

from tests.support.gateway_under_test import GatewayUnderTest
from tests.support.scripted_child import STREAM_HEAD, chunked, writing
from tests.support.wire import sse

FOLDER = Path(__file__).parent.parent / "data" / "transcripts"


def names(folder: str = "") -> list[str]:
    return sorted(path.stem for path in (FOLDER / folder).glob("*.json"))


def played(gateway: GatewayUnderTest, name: str, folder: str = "") -> dict[str, Any]:
    """The transcript, whose child the gateway has from now on."""
    told: dict[str, Any] = json.loads((FOLDER / folder / f"{name}.json").read_text())
    gateway.fresh().child.play = writing(lambda talk: talk.send(STREAM_HEAD + chunked(sse(told["child"]))))
    return told


def check_asked(gateway: GatewayUnderTest, told: dict[str, Any]) -> None:
    """The child was asked twice, the same, and what the transcript says; then this is forgotten."""
    first, second = (json.loads(request.body) for request in gateway.child.received
                     if b"/chat/completions" in request.head)
    gateway.child.received.clear()
    assert first == second, "the child is asked the same both ways"
    for field, wanted in told["asked"].items():
        if field == "turns":
            assert {place: first["messages"][int(place)] for place in wanted} == wanted
        elif field in ("messages", "tools"):
            assert len(first.get(field, [])) == wanted, field
        else:
            assert first[field] == wanted, field
