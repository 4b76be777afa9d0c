"""What is installed, what is loaded, one model in detail, and taking one out of the store."""

import time
from typing import Any

from blazar.errors import AliasFixed
from blazar.proxy.aliases import Alias
from blazar.proxy.dialects import anthropic_listing, ollama_listing, openai, queries
from blazar.proxy.dialects.fields import model_name
from blazar.proxy.gateway import Gateway
from blazar.proxy.json import dumps, load_object
from blazar.proxy.request import Request
from blazar.proxy.routed import loaded_models
from blazar.proxy.routes import Route, spoken
from blazar.store.name import parse
from blazar.store.resolve import is_alias
from blazar.transport import ROUTER, Endpoint

OPENAI_LIST = "/v1/models/"


def openai_list(gateway: Gateway, request: Request, route: Route) -> None:
    listed, loaded = _listed(gateway, request), _loaded(gateway)
    if spoken(route.dialect, request.headers) == "anthropic":
        request.answer(200, anthropic_listing.models(listed, loaded, queries.fields(request.query)))
    else:
        request.answer(200, dumps(openai.models(listed, loaded)))


def openai_model(gateway: Gateway, request: Request, route: Route) -> None:
    name, alias = _allowed(gateway, request, request.path.removeprefix(OPENAI_LIST))
    entry = gateway.directory.preset_entries()[alias.name] if alias else gateway.directory.models[name]
    tell = anthropic_listing.model if spoken(route.dialect, request.headers) == "anthropic" else openai.model
    request.answer(200, dumps(tell(alias.name if alias else name, entry, _loaded(gateway).get(name))))


def tags(gateway: Gateway, request: Request, route: Route) -> None:
    request.answer(200, dumps(ollama_listing.tags(_listed(gateway, request))))


def show(gateway: Gateway, request: Request, route: Route) -> None:
    name, alias = _allowed(gateway, request, _body_name(request))
    described = gateway.supervisor.describe(name)
    request.answer(200, dumps(ollama_listing.show({
        "model": alias.over(described, name) if alias else described, "endpoint": _loaded(gateway).get(name)})))


def explain(gateway: Gateway, request: Request, route: Route) -> None:
    """How a model is loaded, or would be, with a reason for each number."""
    name, _ = _allowed(gateway, request, _body_name(request))
    request.answer(200, dumps(gateway.supervisor.explain(name)))


def ps(gateway: Gateway, request: Request, route: Route) -> None:
    """Loaded models, with the wall-clock time at which each will be unloaded if nobody asks for it."""
    listed = _listed(gateway, request)
    loaded = [endpoint for endpoint in _endpoints(gateway) if endpoint.model in listed]
    rows = [{"endpoint": endpoint, "model": listed[endpoint.model], "expires_at": _expires_at(gateway, endpoint)}
            for endpoint in sorted(loaded, key=lambda endpoint: endpoint.model)]
    request.answer(200, dumps(ollama_listing.ps(rows)))


def delete(gateway: Gateway, request: Request, route: Route) -> None:
    reference = _body_name(request)
    name, alias = _allowed(gateway, request, reference)
    if alias is not None:
        raise AliasFixed(name=alias.name, change="remove it", remedy="take it out of the configuration; its model is "
                         f"{name}")
    is_one = is_alias(reference, gateway.directory.models, gateway.directory.aliases)
    gateway.supervisor.remove(str(parse(reference)) if is_one else name)
    request.answer(200, dumps({"status": "success", "stays": name}) if is_one else b"")


def _listed(gateway: Gateway, request: Request) -> dict[str, dict[str, Any]]:
    """The installed models that the caller may use, and the aliases of the configuration, by name."""
    models = {name: entry for name, entry in gateway.directory.models.items()
              if gateway.keys.allows(request.api_key, name)}
    aliases = {name: entry for name, entry in gateway.directory.preset_entries().items()
               if gateway.keys.allows(request.api_key, entry["parent"], name)}
    return dict(sorted({**models, **aliases}.items()))


def _loaded(gateway: Gateway) -> dict[str, Endpoint]:
    """An endpoint of each loaded model, by its names."""
    loaded = {endpoint.model: endpoint for endpoint in _endpoints(gateway)}
    aliases = {name: loaded[entry["parent"]] for name, entry in gateway.directory.preset_entries().items()
               if entry["parent"] in loaded}
    return {**loaded, **aliases}


def _endpoints(gateway: Gateway) -> list[Endpoint]:
    """Those whose model is loaded; a router says which of its own are."""
    endpoints = gateway.directory.endpoints.values()
    routers = {endpoint.address: endpoint for endpoint in endpoints if endpoint.lane == ROUTER}
    told = {address: loaded_models(endpoint) for address, endpoint in routers.items()}
    return [endpoint for endpoint in endpoints
            if endpoint.lane != ROUTER or endpoint.model in told[endpoint.address]]


def _body_name(request: Request) -> str:
    payload = load_object(request.body())
    if "model" not in payload and "name" in payload:  # what older Ollama clients send
        payload = {**payload, "model": payload["name"]}
    return model_name(payload)


def _allowed(gateway: Gateway, request: Request, reference: str) -> tuple[str, Alias | None]:
    """The model that is meant, and the alias of the configuration by which, if it is one."""
    name = gateway.directory.resolve(reference)
    alias = gateway.directory.preset(reference)
    gateway.keys.check_model(request.api_key, name, alias.name if alias else "")
    return name, alias


def _expires_at(gateway: Gateway, endpoint: Endpoint) -> float | None:
    if endpoint.keep_alive < 0:
        return None
    use = gateway.ledger.use_of(endpoint.child_id)
    now = gateway.ledger.now()
    idle_since = now if use["in_flight"] else max(use["last_used"], endpoint.ready_at)
    return time.time() + idle_since + endpoint.keep_alive - now
