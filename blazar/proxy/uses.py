"""`Use`: what one API key uses of one model, and the rows in which that is told to the supervisor."""

from typing import Any

from blazar.proxy.sliding import SPAN
from blazar.telemetry.metrics import Count


class Use:
    """What one API key uses of one model.

    `requests` and the tokens of `prompt` and `completion` are added to from outside, once `begin` has said in which
    step of the window that is.
    """

    def __init__(self, model: str, prompt: Count, completion: Count) -> None:
        self.model = model
        self.requests = 0
        self.prompt = prompt
        self.completion = completion
        self._day = ""
        self._step = -1
        """The step under way."""
        self._steps: list[list[int]] = []
        """Those of this day that are over, and were not told: the step, requests, tokens."""
        self._before = (0, prompt.n + completion.n)
        """The requests and tokens before this step."""
        self._noted = (0, prompt.n, completion.n)
        """The requests and tokens that are in some row."""
        self._rows: list[dict[str, Any]] = []
        """Days that are over, and were not told."""

    def begin(self, day: str, step: int) -> None:
        """What is added from now on came on this day, in this step."""
        if step != self._step or day != self._day:
            self._end_step()
            if day != self._day:
                self._end_day()
            self._day, self._step = day, step

    def news(self) -> list[dict[str, Any]]:
        """What was added since the last call, a row for each day."""
        self._end_step()
        self._end_day()
        rows, self._rows = self._rows, []
        return rows

    def _end_step(self) -> None:
        now = self.requests, self.prompt.n + self.completion.n
        if now != self._before:
            self._steps.append([self._step, now[0] - self._before[0], now[1] - self._before[1]])
            self._before = now
            if len(self._steps) > SPAN:  # no supervisor has taken them for a minute, in which they have passed
                del self._steps[0]

    def _end_day(self) -> None:
        now = self.requests, self.prompt.n, self.completion.n
        if now != self._noted:
            requests, prompt, completion = (after - before for after, before in zip(now, self._noted, strict=True))
            self._rows.append({"day": self._day, "model": self.model, "requests": requests, "prompt_tokens": prompt,
                               "completion_tokens": completion, "steps": self._steps})
            self._noted, self._steps = now, []
