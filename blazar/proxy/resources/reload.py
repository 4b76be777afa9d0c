"""Reading the configuration again."""

from blazar.proxy.gateway import Gateway
from blazar.proxy.json import dumps
from blazar.proxy.request import Request
from blazar.proxy.routes import Route


def reload(gateway: Gateway, request: Request, route: Route) -> None:
    request.answer(200, dumps(gateway.supervisor.reload()))
