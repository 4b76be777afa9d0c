"""What the engine itself answers to the soak's questions, and whether an answer that came through is the same."""

import json
from collections.abc import Sequence

from blazar.transport import Endpoint, connection_to
from tests.support.soak.questions import PATHS, PATIENCE, READ, Outcome, Question

CLEAR = 0.01
"""By so much the logarithm of a chosen token's probability must lead that of the next, to be chosen again."""

Same = tuple[str, str, int, bool]


class Expected:
    """Greedy answers, asked of the engines without the gateway."""

    def __init__(self) -> None:
        self._answers: dict[Same, Outcome] = {}
        self._close: set[Same] = set()
        """Questions with an answer that the rounding of a neighbour may turn into another."""

    def learn(self, endpoint: Endpoint, model: str, prompt: str, tokens: Sequence[int]) -> None:
        """Ask for answers of each of these lengths, in OpenAI's dialect, whole and as a stream."""
        leads = _leads(endpoint, Question("openai", False, model, prompt, max(tokens)))
        for most in tokens:
            for stream in (False, True):
                question = Question("openai", stream, model, prompt, most)
                status, answer = exchange(endpoint, "POST", PATHS["openai"], json.dumps(question.body()))
                self._answers[_same(question)] = READ["openai"](question, status, answer)
                if min(leads[:most], default=CLEAR) < CLEAR:
                    self._close.add(_same(question))

    def compares(self, question: Question) -> bool:
        return _same(question) not in self._close

    def difference(self, question: Question, came: Outcome) -> str:
        """In what a whole answer is not the engine's own; empty when it is, or cannot be compared."""
        straight = self._answers[_same(question)]
        if self.compares(question):
            for name in ("text", "prompt_tokens", "completion_tokens"):
                if getattr(came, name) != getattr(straight, name):
                    return f"{name} is {getattr(came, name)!r}, straight from the engine {getattr(straight, name)!r}"
        return ""


def exchange(endpoint: Endpoint, method: str, path: str, body: str | None) -> tuple[int, bytes]:
    """Status and body of the engine's answer, asked without the gateway."""
    connection = connection_to(endpoint.address, PATIENCE)
    try:
        secret = {"Authorization": f"Bearer {endpoint.secret}"} if endpoint.secret else {}
        connection.request(method, path, body, {"Content-Type": "application/json", **secret})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def _same(question: Question) -> Same:
    """Questions that the engine answers alike. It leaves half a character out of a stream, and where a dialect is
    translated it is always asked for one."""
    streamed = question.stream or question.dialect != "openai"
    return question.model, question.prompt, question.tokens, streamed


def _leads(endpoint: Endpoint, question: Question) -> list[float]:
    """By how much each token of the answer was likelier than the next best; 0 where the engine had guessed it ahead
    and does not say, as it does once it has written the same before."""
    body = {**question.body(), "logprobs": True, "top_logprobs": 2}
    _, answer = exchange(endpoint, "POST", PATHS["openai"], json.dumps(body))
    tokens = json.loads(answer)["choices"][0].get("logprobs", {}).get("content", [])  # none of an empty answer
    best = [[one["logprob"] for one in token["top_logprobs"]] for token in tokens]
    return [abs(two[0] - two[1]) if len(two) == 2 else 0.0 for two in best]
