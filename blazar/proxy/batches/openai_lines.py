"""The lines of OpenAI's batch files: requests are checked and read, answers are written. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from blazar.proxy.json import BadJson, dumps, loads

MOST_LINES = 50_000
"""Requests of one batch."""
MOST_PROBLEMS = 100
"""Faults of a file that are told."""
LONGEST_ID = 512
"""Characters of a custom_id."""


@dataclass(frozen=True)
class Asked:
    """One request of a batch."""

    custom_id: str
    body: dict[str, Any]


class LineRefused(Exception):
    """What is wrong with a line: OpenAI's code, words, and the field."""

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.param = param


def read(line: bytes, endpoint: str, longest: int) -> Asked:
    """The request of one line. Raises LineRefused."""
    if len(line) > longest:
        raise LineRefused("line_too_long", f"the line is over the limit of {longest} bytes")
    try:
        value = loads(line)
    except BadJson as error:
        raise LineRefused("invalid_json_line", f"the line is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise LineRefused("invalid_json_line", "the line is not a JSON object")
    custom_id, body = value.get("custom_id"), value.get("body")
    if not isinstance(custom_id, str) or not 0 < len(custom_id) <= LONGEST_ID:
        raise LineRefused("missing_required_parameter", f"`custom_id` must be a text of 1 to {LONGEST_ID} characters",
                          "custom_id")
    if value.get("method") != "POST":
        raise LineRefused("invalid_method", "`method` must be \"POST\"", "method")
    if value.get("url") != endpoint:
        raise LineRefused("mismatched_endpoint", f"`url` must be {endpoint!r}, the batch's endpoint", "url")
    if not isinstance(body, dict) or not isinstance(body.get("model"), str):
        raise LineRefused("missing_required_parameter", "`body` must be an object with a `model`", "body")
    if body.get("stream"):
        raise LineRefused("invalid_request", "an answer of a batch is not streamed: leave `stream` out", "body.stream")
    return Asked(custom_id, body)


def check(lines: Iterable[tuple[int, bytes]], endpoint: str, longest: int) -> tuple[int, list[dict[str, Any]]]:
    """How many requests a file has, and what is wrong with it."""
    seen: set[str] = set()
    problems: list[dict[str, Any]] = []
    count = 0
    for count, (_, line) in enumerate(lines, 1):
        try:
            if count > MOST_LINES:
                raise LineRefused("too_many_tasks", f"the file has more than {MOST_LINES} requests")
            custom_id = read(line, endpoint, longest).custom_id
            if custom_id in seen:
                raise LineRefused("duplicate_custom_id", f"the custom_id {custom_id!r} was used before", "custom_id")
            seen.add(custom_id)
        except LineRefused as fault:
            problems.append(problem(fault, count))
            if len(problems) == MOST_PROBLEMS or fault.code == "too_many_tasks":
                break
    if not count:
        problems.append(problem(LineRefused("empty_file", "the file has no requests"), None))
    return count, problems


def problem(fault: LineRefused, line: int | None) -> dict[str, Any]:
    return {"code": fault.code, "message": str(fault), "param": fault.param, "line": line}


def answer(custom_id: str, number: int, batch: str, status: int, body: bytes, request_id: str) -> str:
    """One line of an output or error file: what a client would have been answered."""
    return _line(batch, number, custom_id, {"status_code": status, "request_id": request_id, "body": _value(body)},
                 None)


def unanswered(custom_id: str, number: int, batch: str) -> str:
    """The line of a request for which there was no time."""
    return _line(batch, number, custom_id, None, {
        "code": "batch_expired", "message": "this request was not reached before the end of the completion window"})


def _line(batch: str, number: int, custom_id: str, response: Any, error: Any) -> str:
    return dumps({"id": f"batch_req_{batch.removeprefix('batch_')}_{number}", "custom_id": custom_id,
                  "response": response, "error": error}).decode()


def _value(body: bytes) -> Any:
    try:
        return loads(body)
    except BadJson:
        return body.decode("utf-8", "replace")
