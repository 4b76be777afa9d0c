"""Routes that clients know and that are not served here: each says what to ask instead."""

from typing import NoReturn

from blazar.errors import KnobRefused
from blazar.proxy.gateway import Gateway
from blazar.proxy.request import Request
from blazar.proxy.routes import Route


def compact(gateway: Gateway, request: Request, route: Route) -> NoReturn:
    request.body()
    raise KnobRefused(knob="`/v1/responses/compact`", reason="what it gives back only OpenAI's own servers can read",
                      remedy="have a model sum the conversation up with POST /v1/responses, and go on from its text")


def systemone(gateway: Gateway, request: Request, route: Route) -> NoReturn:
    raise KnobRefused(knob="`/v1/systemone`", reason="it wants models of a kind of their own, which are not served",
                      remedy="ask /api/chat with a schema of the answers as `format`")
