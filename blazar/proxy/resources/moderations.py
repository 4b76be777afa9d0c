"""OpenAI's moderations, which need a model that judges texts by OpenAI's own rules."""

from blazar.errors import ModerationRefused
from blazar.proxy.gateway import Gateway
from blazar.proxy.request import Request
from blazar.proxy.routes import Route


def refuse(gateway: Gateway, request: Request, route: Route) -> None:
    request.body()
    raise ModerationRefused
