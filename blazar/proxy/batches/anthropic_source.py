"""`AnthropicBatches`: batches of messages as the runner works through them, the oldest request first."""

from collections.abc import Callable
from typing import Any

from blazar.errors import BlazarError, RequestRefused
from blazar.proxy.batches.task import Outcome, Question, Task
from blazar.proxy.dialects.anthropic_render import error_envelope
from blazar.proxy.json import dumps, load_object
from blazar.proxy.supervisor import Supervisor
from blazar.units import format_bytes

PATH = "/v1/messages"
LONGEST = 8 << 20
"""Bytes of a result; it goes to the supervisor in one message."""

Row = dict[str, Any]


class AnthropicBatches:
    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    def next(self, resting: frozenset[str]) -> Task | None:
        """Requests that cannot be one answer are answered here, each with what is wrong with it."""
        while (row := self._supervisor.message_batch("next", resting=sorted(resting))["row"]) is not None:
            try:
                model = _model(row["body"])
            except RequestRefused as error:
                self._keep(row, "errored", dumps(error_envelope(error)))
                continue
            id = f"{ids_of(row['batch'])}{row['position']}"
            return Task(model, Question(PATH, row["body"].encode(), row["owner"], id), self._answered(row))
        return None

    def _answered(self, row: Row) -> Callable[[Outcome], None]:
        def answered(outcome: Outcome) -> None:
            self._keep(row, "succeeded" if outcome.status == 200 else "errored", outcome.body)
        return answered

    def _keep(self, row: Row, outcome: str, body: bytes) -> None:
        if len(body) > LONGEST:
            outcome, body = "errored", dumps(error_envelope(BlazarError(
                f"the answer is over the limit of {format_bytes(LONGEST)} for results; ask for fewer tokens")))
        self._supervisor.message_batch("answer", batch=row["batch"], position=row["position"], outcome=outcome,
                                       body=body.decode())


def ids_of(batch: int) -> str:
    """How the ids of the requests of a batch begin, given its number."""
    return f"msgbatch_{batch}_"


def _model(body: str) -> str:
    """The model that a request asks for, '' where it does not say; raises RequestRefused for one that streams."""
    params = load_object(body.encode())
    if params.get("stream"):
        raise RequestRefused("`stream` cannot be true in a batch, since nobody listens; leave it out")
    model = params.get("model")
    return model if isinstance(model, str) else ""
