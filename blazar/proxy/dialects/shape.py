"""What a client asks of an answer's form, in the child's fields: Ollama's `format` (JSON, or a schema), and how each
dialect's word for thinking reaches the chat template."""

from typing import Any

from blazar.proxy.dialects.fields import refuse


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


def thinking(on: bool | None = None, effort: str = "") -> dict[str, Any]:
    """The child's fields that say whether the model thinks before it answers, None = as it does by itself, and how
    hard; its chat template reads them."""
    values = {**({} if on is None else {"enable_thinking": on}), **({"reasoning_effort": effort} if effort else {})}
    return {"chat_template_kwargs": values} if values else {}
