"""The gateway's own numbers, for Prometheus."""

from blazar.proxy.gateway import Gateway
from blazar.proxy.request import Request
from blazar.proxy.routes import Route
from blazar.telemetry.metrics import CONTENT_TYPE


def metrics(gateway: Gateway, request: Request, route: Route) -> None:
    request.answer(200, gateway.metrics.text(), CONTENT_TYPE)
