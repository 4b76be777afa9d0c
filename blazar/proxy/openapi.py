"""The OpenAPI document of the gateway, made from the route table: what can be asked, and how.

Bodies are described as far as a caller has to know them; every object may hold more fields, which go to the engine.
"""

import re
from collections.abc import Iterable
from typing import Any

from blazar.proxy.api_bodies import BODIES, ERRORS, Body
from blazar.proxy.routes import Route

TITLES = {"openai": "OpenAI", "anthropic": "Anthropic", "ollama": "Ollama", "responses": "OpenAI"}
"""What the dialects are called."""
STREAMS = {"openai": "text/event-stream", "anthropic": "text/event-stream", "responses": "text/event-stream",
           "ollama": "application/x-ndjson"}
ERROR_STATUSES = {"4XX": "Refused: the body says why, and what to do instead.",
                  "5XX": "The engine failed, or is not to be had: the body says why."}


def document(routes: Iterable[Route], version: str) -> dict[str, Any]:
    """The document for these rows of the route table."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.0.3",
        "info": {"title": "Blazar", "version": version, "description":
                 "A private AI server that speaks to OpenAI, Ollama and Anthropic clients."},
        "paths": paths,
        "components": {
            "schemas": {f"{TITLES[dialect]}Error": schema for dialect, schema in ERRORS.items()},
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"},
                                "x-api-key": {"type": "apiKey", "in": "header", "name": "x-api-key"}},
        },
        # The empty one: a server without keys asks for none.
        "security": [{"bearer": []}, {"x-api-key": []}, {}],
    }


def _operation(route: Route) -> dict[str, Any]:
    body = BODIES[route.method, route.path]
    operation: dict[str, Any] = {
        "operationId": re.sub(r"\W+", "_", f"{route.method.lower()}{route.path}").strip("_") or "root",
        "tags": [TITLES[route.dialect]],
        "summary": body.summary,
        "responses": {str(body.status): _answer(route, body), **{
            status: {"description": words, "content": {"application/json": {
                "schema": {"$ref": f"#/components/schemas/{TITLES[route.dialect]}Error"}}}}
            for status, words in ERROR_STATUSES.items()}},
    }
    names = re.findall(r"{(\w+)}", route.path)
    if names:
        operation["parameters"] = [{"name": name, "in": "path", "required": True,
                                    "schema": {"type": "string", "minLength": 1}} for name in names]
    if body.query:
        operation["parameters"] = [*operation.get("parameters", []), *(
            {"name": name, "in": "query", "schema": schema} for name, schema in body.query.items())]
    if body.schema is not None:
        operation["requestBody"] = {"required": True, "content": {body.content: {"schema": body.schema}}}
    if route.open:
        operation["security"] = [{}]
    return operation


def _answer(route: Route, body: Body) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": "Done."}
    if body.answers:
        kinds = [body.answers, *([STREAMS[route.dialect]] if body.streams else [])]
        answer["content"] = {kind: {} for kind in kinds}
    return answer
