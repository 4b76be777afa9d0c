"""What each route of the table takes and gives, for the OpenAPI document: one row a route."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Schema = dict[str, Any]


@dataclass(frozen=True)
class Body:
    """`schema` of the request's body, None without one; `streams` says that the answer may be a stream."""

    summary: str
    schema: Schema | None = None
    streams: bool = False
    status: int = 200
    answers: str | None = "application/json"
    """The content type of its answer; None for an answer without a body."""
    content: str = "application/json"
    """That of the request."""
    query: Mapping[str, Schema] = field(default_factory=dict)


TEXT: Schema = {"type": "string"}
MODEL: Schema = {"type": "string", "minLength": 1, "description": "A name that the list of models shows.",
                 "example": "qwen3-0.6b:q4_k_m"}
SWITCH: Schema = {"type": "boolean"}
COUNT: Schema = {"type": "integer", "minimum": 1}
ANY_OBJECT: Schema = {"type": "object"}
NUMBERS: Schema = {"temperature": {"type": "number", "minimum": 0}, "top_p": {"type": "number", "minimum": 0}}


def obj(required: str = "", **properties: Schema) -> Schema:
    """An object with these properties, of which those named in `required` must be there."""
    schema: Schema = {"type": "object", "properties": properties}
    return {**schema, "required": required.split()} if required else schema


def listed(item: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": item, **more}


def one_of(*schemas: Schema) -> Schema:
    return {"oneOf": list(schemas)}


PARTS = one_of(TEXT, listed(obj("type", type=TEXT, text=TEXT)))
TURN = obj("role content", role={"type": "string", "enum": ["system", "user", "assistant"]}, content=PARTS)
TURNS = listed(TURN, minItems=1)
OLLAMA_TURN = obj("role content", role={"type": "string", "enum": ["system", "user", "assistant", "tool"]},
                  content=TEXT, images=listed(TEXT))
FUNCTION = obj("type function", type={"type": "string", "enum": ["function"]},
               function=obj("name", name=TEXT, description=TEXT, parameters=ANY_OBJECT))
KEEP_ALIVE = one_of({"type": "integer"}, TEXT)
OLLAMA_SHAPE = {"model": MODEL, "stream": SWITCH, "options": ANY_OBJECT, "keep_alive": KEEP_ALIVE, "logprobs": SWITCH,
                "top_logprobs": {"type": "integer", "minimum": 0, "maximum": 20},
                "think": one_of(SWITCH, {"type": "string", "enum": ["low", "medium", "high"]})}
NAMED = obj("model", model=MODEL)
INPUTS = one_of(TEXT, listed(TEXT, minItems=1))
METADATA: Schema = {"type": "object", "additionalProperties": {"type": "string", "maxLength": 512}, "maxProperties": 16}
ASKED = {"model": MODEL, "input": one_of(TEXT, TURNS), "instructions": TEXT, "previous_response_id": TEXT,
         "tools": listed(obj("type name", type={"type": "string", "enum": ["function"]}, name=TEXT, description=TEXT,
                             parameters=ANY_OBJECT)),
         "reasoning": obj(effort={"type": "string", "enum": ["none", "low", "medium", "high"]}),
         "text": obj(format=ANY_OBJECT)}
RANKING = obj("model query documents", model=MODEL, query=TEXT, top_n=COUNT, return_documents=SWITCH,
              documents=listed(one_of(TEXT, obj("text", text=TEXT)), minItems=1))
PAGE: dict[str, Schema] = {"limit": {"type": "integer", "minimum": 1, "maximum": 100}, "after": TEXT,
                           "order": {"type": "string", "enum": ["asc", "desc"]}}

ERRORS: dict[str, Schema] = {
    # dialect: its error object
    "openai": obj("error", error=obj("message type", message=TEXT, type=TEXT, param={}, code={})),
    "anthropic": obj("type error", type=TEXT, error=obj("type message", type=TEXT, message=TEXT)),
    "ollama": obj("error", error=TEXT),
}

BODIES: dict[tuple[str, str], Body] = {
    ("GET", "/"): Body("What Ollama's clients look for.", answers="text/plain"),
    ("GET", "/healthz"): Body("Whether the gateway lives."),
    ("GET", "/openapi.json"): Body("This document."),
    ("GET", "/metrics"): Body("All counts, for Prometheus.", answers="text/plain", query={"engines": SWITCH}),
    # OpenAI
    ("POST", "/v1/chat/completions"): Body("Answer a conversation.", obj(
        "model messages", model=MODEL, messages=TURNS, stream=SWITCH, max_tokens=COUNT, max_completion_tokens=COUNT,
        tools=listed(FUNCTION), tool_choice=one_of(TEXT, ANY_OBJECT),
        response_format=ANY_OBJECT, json_schema=ANY_OBJECT, grammar=TEXT, store=SWITCH, metadata=METADATA, **NUMBERS),
        streams=True),
    ("GET", "/v1/chat/completions"): Body("The stored completions.", query={**PAGE, "model": TEXT}),
    ("GET", "/v1/chat/completions/{id}"): Body("One of them."),
    ("POST", "/v1/chat/completions/{id}"): Body("Change its metadata.", obj("metadata", metadata=METADATA)),
    ("DELETE", "/v1/chat/completions/{id}"): Body("Forget it."),
    ("GET", "/v1/chat/completions/{id}/messages"): Body("What was asked for it.", query=PAGE),
    ("POST", "/v1/completions"): Body("Go on with a text.", obj(
        "model prompt", model=MODEL, prompt=TEXT, stream=SWITCH, max_tokens=COUNT, **NUMBERS), streams=True),
    ("POST", "/v1/embeddings"): Body("Vectors of texts.", obj(
        "model input", model=MODEL, input=INPUTS, dimensions=COUNT, late_chunking=SWITCH,
        encoding_format={"type": "string", "enum": ["float", "base64"]})),
    ("POST", "/v1/rerank"): Body("Order documents by how well they answer a query.", RANKING),
    ("POST", "/rerank"): Body("As /v1/rerank.", RANKING),
    ("POST", "/v1/moderations"): Body("Refused: no model here judges by those categories.", obj("input", input=INPUTS)),
    ("GET", "/v1/models"): Body("The models that can be asked."),
    ("GET", "/v1/models/{name}"): Body("One of them."),
    ("GET", "/v1/models/{name}/{more}"): Body("One whose name holds a slash."),
    ("GET", "/v1/models/{name}/{more}/{most}"): Body("One whose name holds two."),
    ("POST", "/v1/responses"): Body("Answer a conversation, and keep the answer.", obj(
        "model input", stream=SWITCH, store=SWITCH, metadata=METADATA, max_output_tokens=COUNT, **ASKED, **NUMBERS),
        streams=True),
    ("POST", "/v1/responses/input_tokens"): Body("How many tokens that would be.", obj("model input", **ASKED)),
    ("POST", "/v1/responses/compact"): Body("Refused: a conversation is never shortened here."),
    ("GET", "/v1/responses/{id}"): Body("A response that was kept."),
    ("DELETE", "/v1/responses/{id}"): Body("Forget it."),
    ("GET", "/v1/responses/{id}/input_items"): Body("All that the model was shown for it.", query=PAGE),
    ("POST", "/v1/responses/{id}/cancel"): Body("End a response that is being written."),
    ("POST", "/v1/files"): Body("Upload the requests of a batch.", obj(
        "purpose file", purpose={"type": "string", "enum": ["batch"]}, file={"type": "string", "format": "binary"}),
        content="multipart/form-data"),
    ("GET", "/v1/files"): Body("The files of this API key.", query={**PAGE, "purpose": TEXT}),
    ("GET", "/v1/files/{id}"): Body("One of them."),
    ("DELETE", "/v1/files/{id}"): Body("Delete it."),
    ("GET", "/v1/files/{id}/content"): Body("What it holds.", answers="application/octet-stream"),
    ("POST", "/v1/batches"): Body("Have the requests of a file answered in the background.", obj(
        "input_file_id endpoint completion_window", input_file_id=TEXT, metadata=METADATA,
        endpoint={"type": "string", "enum": ["/v1/chat/completions", "/v1/completions", "/v1/embeddings",
                                             "/v1/responses"]},
        completion_window={"type": "string", "enum": ["24h"]})),
    ("GET", "/v1/batches"): Body("The batches of this API key.", query={"limit": PAGE["limit"], "after": TEXT}),
    ("GET", "/v1/batches/{id}"): Body("One of them."),
    ("POST", "/v1/batches/{id}/cancel"): Body("Begin no more of its requests."),
    # llama-server
    ("POST", "/tokenize"): Body("The tokens of a text.", obj(
        "model content", model=MODEL, content=TEXT, add_special=SWITCH, parse_special=SWITCH, with_pieces=SWITCH)),
    ("POST", "/detokenize"): Body("The text of tokens.", obj(
        "model tokens", model=MODEL, tokens=listed({"type": "integer", "minimum": 0, "maximum": 255}))),
    ("POST", "/infill"): Body("Write what stands between two texts.", obj(
        "model input_prefix input_suffix", model=MODEL, input_prefix=TEXT, input_suffix=TEXT, prompt=TEXT,
        n_predict=COUNT, stream=SWITCH), streams=True),
    ("GET", "/slots"): Body("What a loaded model's engine is busy with.", query={"model": TEXT}),
    ("GET", "/props"): Body("What a loaded model's engine was started with.", query={"model": TEXT}),
    # Anthropic
    ("POST", "/v1/messages"): Body("Answer a conversation.", obj(
        "model messages max_tokens", model=MODEL, messages=TURNS, max_tokens=COUNT, stream=SWITCH, system=PARTS,
        stop_sequences=listed(TEXT), tools=listed(obj("name input_schema", name=TEXT, input_schema=ANY_OBJECT)),
        **NUMBERS), streams=True),
    ("POST", "/v1/messages/count_tokens"): Body("How many tokens that would be.", obj(
        "model messages", model=MODEL, messages=TURNS, system=PARTS)),
    ("POST", "/v1/messages/batches"): Body("Have many conversations answered when there is time.", obj(
        "requests", requests=listed(obj("custom_id params", custom_id=TEXT, params=ANY_OBJECT), minItems=1))),
    ("GET", "/v1/messages/batches"): Body("The batches, the newest first.", query={
        "limit": {"type": "integer", "minimum": 1, "maximum": 1000}, "after_id": TEXT, "before_id": TEXT}),
    ("GET", "/v1/messages/batches/{id}"): Body("One of them."),
    ("DELETE", "/v1/messages/batches/{id}"): Body("Forget one that has ended."),
    ("GET", "/v1/messages/batches/{id}/results"): Body("What came of its requests, one JSON object a line.",
                                                       answers="application/x-jsonl"),
    ("POST", "/v1/messages/batches/{id}/cancel"): Body("End it: what has no answer yet gets none."),
    # Ollama
    ("POST", "/api/chat"): Body("Answer a conversation; without messages: load the model.", obj(
        "model", messages=listed(OLLAMA_TURN), format=one_of(TEXT, ANY_OBJECT), tools=listed(FUNCTION),
        **OLLAMA_SHAPE), streams=True),
    ("POST", "/api/generate"): Body("Answer a prompt; without one: load the model.", obj(
        "model", prompt=TEXT, suffix=TEXT, system=TEXT, template=TEXT, raw=SWITCH,
        context=listed({"type": "integer", "minimum": 0}), format=one_of(TEXT, ANY_OBJECT), images=listed(TEXT),
        **OLLAMA_SHAPE), streams=True),
    ("POST", "/api/embed"): Body("Vectors of texts.", obj(
        "model input", model=MODEL, input=INPUTS, truncate=SWITCH, dimensions=COUNT, keep_alive=KEEP_ALIVE)),
    ("POST", "/api/embeddings"): Body("The vector of a text, as older clients ask for it.", obj(
        "model prompt", model=MODEL, prompt=TEXT)),
    ("GET", "/api/version"): Body("The version."),
    ("GET", "/api/tags"): Body("The installed models."),
    ("GET", "/api/ps"): Body("The loaded models."),
    ("POST", "/api/show"): Body("One model in detail.", NAMED),
    ("GET", "/api/requests"): Body("The requests that are under way, and the last that have ended.", query={
        "finished": {"type": "integer", "minimum": 0, "maximum": 512}}),
    ("DELETE", "/api/requests/{id}"): Body("Cancel a request that is under way."),
    ("GET", "/api/events"): Body("What happens, as a stream of events.", answers="text/event-stream", query={
        "follow": SWITCH, "since": {"type": "integer", "minimum": 0, "maximum": 99999}, "last_event_id": TEXT}),
    ("POST", "/api/reload"): Body("Read the configuration again, and tell what has come of it."),
    ("POST", "/api/explain"): Body("How a model is loaded, or would be, and why.", NAMED),
    ("POST", "/api/pull"): Body("Get a model.", obj("model", model=MODEL, stream=SWITCH), streams=True),
    ("DELETE", "/api/delete"): Body("Remove a model.", NAMED),
    ("POST", "/api/create"): Body("Make a model of another one, or of uploaded files.", obj(
        "model", model=MODEL, **{"from": TEXT}, files=ANY_OBJECT, parameters=ANY_OBJECT, system=TEXT, template=TEXT,
        stream=SWITCH), streams=True),
    ("POST", "/api/copy"): Body("Give a model another name.", obj("source destination", source=MODEL,
                                                                 destination=MODEL), answers=None),
    ("POST", "/api/push"): Body("Refused: this server has nowhere to push to.", NAMED, streams=True),
    ("POST", "/v1/systemone"): Body("Refused: no System One model is served here.", NAMED),
    ("HEAD", "/api/blobs/{digest}"): Body("Whether an uploaded file is here.", answers=None),
    ("POST", "/api/blobs/{digest}"): Body("Upload a file.", {"type": "string", "format": "binary"}, status=201,
                                          answers=None, content="application/octet-stream"),
}
