"""`Sentinel`: looks at what a model has answered, and says whether it keeps to the form that was asked for."""

from collections.abc import Mapping

from blazar.errors import SchemaViolated
from blazar.proxy.exchange import Answer
from blazar.proxy.json import BadJson, loads
from blazar.proxy.schemas import Flaw, Schema, Undecided
from blazar.proxy.structured import Constraint

LONGEST = 8 << 20
"""Characters of the longest answer that is checked."""
KEPT, VIOLATED, UNCHECKED = "kept", "violated", "unchecked"


class Sentinel:
    """Judges the answers of one exchange. `verdict` is the worst so far, '' before there is any.

    `schemas` are those of the arguments of the constraint's tools, or under '' that of the text.
    """

    def __init__(self, constraint: Constraint, schemas: Mapping[str, Schema], enforces: bool) -> None:
        self.verdict = ""
        self._constraint = constraint
        self._schemas = schemas
        self._enforces = enforces

    def begin(self) -> None:
        """Another attempt: what the one before it said no longer counts."""
        self.verdict = ""

    def judge(self, answer: Answer) -> None:
        """Judge one choice. Raises SchemaViolated where that is to be enforced."""
        try:
            flaw, verdict = self._flaw(answer), KEPT
        except Undecided:
            flaw, verdict = None, UNCHECKED
        if flaw is not None:
            verdict = VIOLATED
        self.verdict = max(self.verdict, verdict, key=["", KEPT, UNCHECKED, VIOLATED].index)
        if flaw is not None and self._enforces:
            cut_off = answer.finish_reason == "length"
            raise SchemaViolated(
                place=f" at `{flaw.place}`" if flaw.place else "", problem=flaw.problem,
                remedy="it was cut off at its limit of tokens: raise that" if cut_off else
                "ask again, or send `X-Blazar-Enforce: off` to have it all the same")

    def _flaw(self, answer: Answer) -> Flaw | None:
        tools, text, tool = self._constraint.tools, answer.text, ""
        if tools:
            names = [call.name for call in answer.tool_calls]
            if len(names) != 1 or names[0] not in tools:
                return Flaw("", f"it must be one call of {' or '.join(map(repr, list(tools)[:5]))}, and has " + (
                    f"calls of {', '.join(map(repr, names[:5]))}" if names else "none"))
            tool, text = names[0], answer.tool_calls[0].arguments
        elif answer.tool_calls:
            return None  # it calls tools first
        if len(text) > LONGEST:
            raise Undecided
        try:
            value = loads(text)
        except BadJson as bad:
            return Flaw("", f"it is not JSON: {bad}" if text else "it is empty")
        if tool in self._schemas:
            return self._schemas[tool].flaw(value)
        return None if isinstance(value, dict) else Flaw("", "it is JSON, but no object")
