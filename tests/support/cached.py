"""A gateway with the semantic cache in view: an embedding model beside the one that answers."""

import json
from pathlib import Path
from typing import Any

from tests.support.fake_supervisor import endpoint
from tests.support.gateway_under_test import MODEL, Answer, GatewayUnderTest
from tests.support.scripted_child import STREAM_HEAD, Conversation, Received, chunked, delta, events, json_answer
from tests.support.wire import anthropic_events, ndjson, responses_events

WORDS = "words:f16"
ANN = {"Authorization": "Bearer sk-ann"}
USAGE = {"prompt_tokens": 7, "completion_tokens": 3}
ON = {"enabled": True, "ttl_secs": 600, "threshold": 0.9, "max_entries": 256}
LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Cached(GatewayUnderTest):
    """A gateway with an embedding model, to which texts of the same letters are alike. Each answer of the other one has
    a number."""

    def __init__(self, folder: Path, config: dict[str, Any] | None = None, **more: Any) -> None:
        super().__init__(folder, config, installed=(MODEL, WORDS), **more)
        self.supervisor.facts[WORDS] = {"capabilities": ["embedding"], "size": 5, "digest": "e" * 64}
        self.supervisor.loadable[WORDS] = self.supervisor.loaded[WORDS] = endpoint(WORDS, self.child.address)
        self.finish, self.thinks = "stop", False
        self.count = 0

    def fresh(self) -> "Cached":
        super().fresh()
        self.finish, self.thinks = "stop", False
        self.child.play = self.play
        return self

    def play(self, conversation: Conversation) -> None:
        asked = json.loads(conversation.request.body)
        if b"/v1/embeddings" in conversation.request.head:
            rows = [{"index": place, "embedding": [text.lower().count(letter) for letter in LETTERS]}
                    for place, text in enumerate(asked["input"])]
            conversation.send(json_answer(json.dumps({"data": rows, "usage": USAGE}).encode()))
            return
        self.count += 1
        text = f"answer {self.count}"
        if asked.get("stream"):
            thoughts = [delta(reasoning_content="hm")] if self.thinks else []
            conversation.send(STREAM_HEAD + chunked(*events([
                delta("", role="assistant"), *thoughts, delta("answer "), delta(str(self.count)),
                delta(finish=self.finish), {"choices": [], "usage": USAGE}])))
        else:
            message = {"role": "assistant", "content": text, **({"reasoning_content": "hm"} if self.thinks else {})}
            conversation.send(json_answer(json.dumps({"choices": [
                {"index": 0, "message": message, "finish_reason": self.finish}], "usage": USAGE}).encode()))

    def say(self, text: str, dialect: str = "openai", key: dict[str, str] = ANN, headers: dict[str, str] | None = None,
            **more: Any) -> tuple[str | None, str]:
        """Outcome and text of one chat."""
        more.setdefault("stream", False)
        answer = self.ask(dialect, {**key, **(headers or {})}, messages=[{"role": "user", "content": text}], **more)
        assert answer.status == 200, answer
        return answer.headers.get("x-blazar-cache"), text_of(dialect, answer, more["stream"])

    def chats(self) -> list[Received]:
        return [one for one in self.child.received if b"/v1/embeddings" not in one.head]


def text_of(dialect: str, answer: Answer, stream: bool) -> str:
    if dialect == "openai" and stream:
        chunks = [json.loads(line[6:]) for line in answer.body.decode().split("\n\n") if line.startswith("data: {")]
        assert answer.body.endswith(b"data: [DONE]\n\n")
        return "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])
    if dialect == "openai":
        return answer.json()["choices"][0]["message"]["content"]
    if dialect == "ollama":
        return "".join(line["message"]["content"] for line in (ndjson(answer.body) if stream else [answer.json()]))
    if dialect == "anthropic" and stream:
        return "".join(data["delta"].get("text", "") for data in anthropic_events(answer.body)
                       if data["type"] == "content_block_delta")
    if dialect == "anthropic":
        return "".join(block.get("text", "") for block in answer.json()["content"])
    value = responses_events(answer.body)[-1]["response"] if stream else answer.json()
    return "".join(part["text"] for item in value["output"] if item["type"] == "message" for part in item["content"])
