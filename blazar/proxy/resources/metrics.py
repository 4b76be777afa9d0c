"""/metrics, for Prometheus: the supervisor makes the page, of what all tell; without it, this gateway worker's own."""

from blazar.errors import SupervisorGone
from blazar.proxy.dialects import queries
from blazar.proxy.gateway import Gateway
from blazar.proxy.request import Request
from blazar.proxy.routes import Route
from blazar.telemetry.exposition import CONTENT_TYPE


def metrics(gateway: Gateway, request: Request, route: Route) -> None:
    gateway.keys.check_owner(request.api_key, route.path)
    engines = queries.switch(queries.fields(request.query), "engines", usual=True)
    try:
        text = gateway.supervisor.metrics_page(engines).encode()
    except SupervisorGone:
        text = gateway.metrics.text()
    request.answer(200, text, CONTENT_TYPE)
