"""Reading the configuration again."""

from blazar.proxy.gateway import Gateway
from blazar.proxy.json import dumps
from blazar.proxy.request import Request
from blazar.proxy.routes import Route


def reload(gateway: Gateway, request: Request, route: Route) -> None:
    gateway.keys.check_owner(request.api_key, route.path)
    request.answer(200, dumps(gateway.supervisor.reload()))
