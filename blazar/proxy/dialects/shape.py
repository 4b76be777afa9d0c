"""What a client asks of an answer's form, in the child's fields: `format` (JSON, or a schema) and `think`.

Ollama's words are the plainest of the three dialects; whoever has others brings them into these first.
"""

from typing import Any

from blazar.proxy.dialects.fields import refuse

LEVELS = ("low", "medium", "high", "max")
"""How hard a model may be asked to think."""


def response_format(wanted: Any) -> dict[str, Any] | None:
    """OpenAI's `response_format` for Ollama's `format`; a schema is handed on as it is."""
    if wanted in (None, ""):
        return None
    if wanted == "json":
        return {"type": "json_object"}
    if isinstance(wanted, dict):
        return {"type": "json_schema", "json_schema": {"name": "format", "strict": True, "schema": wanted}}
    refuse("format", "\"json\" or a JSON schema", wanted)


def json_schema(wanted: Any) -> dict[str, Any] | None:
    """The schema for the same `format`, for completions without a conversation, which know no `response_format`."""
    constraint = response_format(wanted)
    if constraint is None:
        return None
    return wanted if isinstance(wanted, dict) else {"type": "object"}


def thinking(wanted: Any) -> dict[str, Any]:
    """The child's fields for `think`: whether the model thinks first, and how hard; its chat template reads them."""
    if wanted is None:
        return {}
    if isinstance(wanted, bool):
        return {"chat_template_kwargs": {"enable_thinking": wanted}}
    if wanted not in LEVELS:
        refuse("think", "true, false, \"low\", \"medium\", \"high\" or \"max\"", wanted)
    return {"chat_template_kwargs": {"enable_thinking": True, "reasoning_effort": wanted}}
