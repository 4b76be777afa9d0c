"""`OpenAIBatches`: OpenAI's batches as the runner works through them, a line of the input file at a time.

Lines are answered in their order and each answer is kept before the next line is asked, so the number of answers tells
where to go on, after whatever came between.
"""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from blazar.paths import Paths
from blazar.proxy import greens
from blazar.proxy.batches.openai_lines import LineRefused, answer, check, problem, read, unanswered
from blazar.proxy.batches.task import Outcome, Question, Task
from blazar.proxy.json import dumps
from blazar.proxy.supervisor import Supervisor
from blazar.store.client_files import file_path, lines

AT_ONCE = 100
"""Requests whose time is over that are noted together."""

Row = dict[str, Any]


class OpenAIBatches:
    """`longest` is the limit of one line in bytes."""

    def __init__(self, supervisor: Supervisor, paths: Paths, longest: int,
                 wall: Callable[[], float] = time.time) -> None:
        self._supervisor = supervisor
        self._paths = paths
        self._longest = longest
        self._wall = wall
        self._reading = ""
        """The batch whose lines are being read."""
        self._lines: Iterator[tuple[int, bytes]] = iter(())
        self._line = 0
        """How many of them have been."""

    def next(self, resting: frozenset[str]) -> Task | None:
        while (row := self._supervisor.batches("next", resting=sorted(resting))["row"]) is not None:
            try:
                task = self._step(row, json.loads(row["body"]))
            except (OSError, LineRefused) as error:
                fault = LineRefused("unreadable_file", f"the input file can no longer be read: {error}")
                self._move(row, row["state"], problems=[problem(fault, None)])
                self._finish(row, "failed")
                continue
            if task is not None:
                return task
        return None

    def _step(self, row: Row, body: Row) -> Task | None:
        """What is due for a batch, or the task that is."""
        if row["state"] == "validating":
            self._check(row, body)
        elif row["state"] == "cancelling":
            self._finish(row, "cancelled")
        elif row["answered"] >= body["total"]:
            self._finish(row, "expired" if body.get("late") else "completed")
        elif body["expires_at"] <= self._wall():
            self._give_up(row, body)
        else:
            return self._task(row, body)
        return None

    def _check(self, row: Row, body: Row) -> None:
        path = file_path(self._paths, row["input_file"])
        try:
            total, problems = greens.aside(check, lines(path, self._longest), body["endpoint"], self._longest)
        except OSError as error:
            fault = LineRefused("unreadable_file", f"the file cannot be read: {error.strerror}")
            total, problems = 0, [problem(fault, None)]
        now = int(self._wall())
        if problems:
            self._move(row, "failed", problems=problems, failed_at=now)
        else:
            self._move(row, "in_progress", total=total, in_progress_at=now)

    def _task(self, row: Row, body: Row) -> Task:
        number = row["answered"]
        asked = read(self._line_of(row, number), body["endpoint"], self._longest)
        id = f"{row['id']}-{number}"

        def answered(outcome: Outcome) -> None:
            failed = not 200 <= outcome.status < 300
            text = answer(asked.custom_id, number, row["id"], outcome.status, outcome.body, id)
            self._supervisor.batches("answer", object=row["id"], rows=[(number, failed, text)])

        return Task(asked.body["model"], Question(body["endpoint"], dumps(asked.body), row["owner"], id), answered)

    def _give_up(self, row: Row, body: Row) -> None:
        """The time is over: what has no answer yet gets the word for that."""
        if not body.get("late"):
            self._move(row, row["state"], late=True)
        for start in range(row["answered"], body["total"], AT_ONCE):
            numbers = range(start, min(start + AT_ONCE, body["total"]))
            ids = [read(self._line_of(row, number), body["endpoint"], self._longest).custom_id for number in numbers]
            self._supervisor.batches("answer", object=row["id"], rows=[
                (number, True, unanswered(id, number, row["id"])) for number, id in zip(numbers, ids, strict=True)])

    def _finish(self, row: Row, state: str) -> None:
        if row["state"] == "in_progress":
            self._move(row, "finalizing", finalizing_at=int(self._wall()))
        number = row["id"].removeprefix("batch_")
        self._supervisor.batches("finish", object=row["id"], owner=row["owner"], state=state,
                                 output=f"file-{number[:23]}0", errors=f"file-{number[:23]}1")

    def _move(self, row: Row, state: str, **changes: Any) -> None:
        self._supervisor.batches("move", object=row["id"], expected=row["state"], state=state, changes=changes)

    def _line_of(self, row: Row, number: int) -> bytes:
        """The line of that number; those before it are passed over when another one was read last."""
        if self._reading != row["id"] or self._line > number:
            self._reading, self._line = row["id"], 0
            self._lines = lines(file_path(self._paths, row["input_file"]), self._longest)
        for _, line in self._lines:
            self._line += 1
            if self._line > number:
                return line
        self._reading = ""
        raise OSError("it has become shorter")
