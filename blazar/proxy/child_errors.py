"""A child's error, as it told it, as an error of ours.

llama.cpp answers 500 to some requests that are at fault themselves; those are told apart by its words. With 501 it says
that this model cannot do what is asked.
"""

from typing import Any

from blazar.errors import (
    BlazarError,
    ChildFailed,
    ChildRefused,
    KnobRefused,
    MediaUnread,
    PromptTooLong,
    SchemaRefused,
)
from blazar.proxy.exchange import Exchange, Retryable
from blazar.proxy.tokens import too_long
from blazar.proxy.wire.framing import BadFraming

TOO_LONG = "exceed_context_size_error"
"""llama.cpp's word for a prompt that it cannot read whole."""
REQUEST_AT_FAULT = (
    "Failed to parse tools", "Failed to parse messages", "Failed to parse tool call arguments", "Unsupported param",
    "image input is not supported", "audio input is not supported", "video input is not supported",
    "Failed to download image", "Invalid base64", "Multimodal data provided",
    "Cannot use both json_schema and grammar", "Cannot specify grammar with tools", "Cannot specify both content",
    "Only no echo is supported", "\"prompt\" is required", "Unknown reasoning format", "Jinja Exception",
    "vector::_M_range_check",  # a token that the model does not have
)
"""How the message of such a 500 begins, perhaps after other words."""
UNUSABLE_FORM = {
    # llama.cpp's words about a grammar, its client's own or made of a schema: what is the matter
    "failed to parse grammar": "the engine's grammar cannot say it: a repetition is too long (minItems, maxItems, "
                               "minLength, maxLength), a rule or reference leads back to itself, or it is not GBNF",
    "Unexpected empty grammar stack": "no text is right by it: its limits contradict each other (like minimum and "
                                      "maximum)",
}
UNREAD = "Failed to load image"
"""llama.cpp's words about what it was shown; of sound and film it says it too."""
EXPLAINED = (PromptTooLong, SchemaRefused, MediaUnread)
"""What is said better than an engine does, also to clients that else get its own words."""
NO_INFILL = "Infill is not supported by this model"
UNLIKE_OURS = (401, 403, 404, 405)
"""What a child says with these concerns the gateway, not its client."""


def child_error(exchange: Exchange, told: Any, status: int) -> BlazarError:
    """What a child `told`, its error object or only words, with this status; a 4xx keeps its status."""
    if isinstance(told, dict) and told.get("type") == TOO_LONG:
        tokens, limit = told.get("n_prompt_tokens"), told.get("n_ctx")
        if isinstance(tokens, int) and isinstance(limit, int):
            return too_long(exchange, tokens, limit)
    message = told.get("message") if isinstance(told, dict) else told
    message = message if isinstance(message, str) and message else f"it answered with status {status}"
    for words, problem in UNUSABLE_FORM.items():
        if words in message:
            return SchemaRefused(where="the schema or grammar", problem=problem,
                                 remedy="ask for less, and check the rest yourself")
    if UNREAD in message:
        return MediaUnread(model=exchange.model)
    code = told.get("code") if isinstance(told, dict) else None
    status = code if isinstance(code, int) and 400 <= code <= 599 else status
    if NO_INFILL in message:
        return KnobRefused(knob="filling a gap (`suffix`, infill)", reason=f"{exchange.model} has no marks for gaps "
                           "(FIM tokens)", remedy="use a model made for code that has them, such as Qwen2.5-Coder")
    if status == 501 or (status == 500 and any(words in message for words in REQUEST_AT_FAULT)):
        status = 400
    if 400 <= status < 500 and status not in UNLIKE_OURS:
        return ChildRefused(message, status=status)
    return ChildFailed(model=exchange.model, reason=message)


def cause_of(exchange: Exchange, error: Exception) -> Exception:
    """What is told of an answer that broke off with `error`."""
    if exchange.ended_by is not None:
        return told_of(exchange.ended_by)
    if isinstance(error, BlazarError):
        return error
    reason = f"it broke the rules of HTTP: {error}" if isinstance(error, BadFraming) else \
        "it closed the connection in the middle of its answer"
    return ChildFailed(model=exchange.model, reason=reason)


def told_of(error: Exception) -> Exception:
    """What is told of an attempt that cannot be made once more, since the client has its beginning."""
    return error.error if isinstance(error, Retryable) else error
