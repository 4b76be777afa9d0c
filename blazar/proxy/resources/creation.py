"""Making models out of others, or out of files that were sent; giving them other names; and why none is pushed."""

from typing import Any

from blazar.errors import AliasFixed, BodyTooLarge, KnobRefused, PushRefused, RequestRefused
from blazar.proxy.dialects.fields import boolean, mapping, objects, refuse, strings, text
from blazar.proxy.gateway import Gateway
from blazar.proxy.json import dumps, load_object
from blazar.proxy.request import Request
from blazar.proxy.routes import Route
from blazar.store import modelfile
from blazar.store.name import parse
from blazar.store.parameters import read_parameters
from blazar.units import format_bytes

MAX_BODY = 4 << 20
"""Bytes of a request that makes a model; files are sent on their own."""
NDJSON = "application/x-ndjson"

REFUSED = {
    # field: (why it cannot be, what to do instead)
    "quantize": ("a model is made of the files as they are", "run `blazar quantize` on the file first"),
    "quantization": ("a model is made of the files as they are", "run `blazar quantize` on the file first"),
    "draft_quantize": ("a model is made of the files as they are", "run `blazar quantize` on the file first"),
    "remote_host": ("models run on this machine", "leave it out"),
    "draft_files": ("no engine here takes a draft from a client", "leave it out"),
}
IGNORED = ("renderer", "parser", "requires", "info", "capabilities")
"""Fields without effect here, each told as a warning: the model's own template and file say what they would."""


def create(gateway: Gateway, request: Request, route: Route) -> None:
    """The statuses come together: making a model copies nothing, so it takes no longer than a listing."""
    payload = _payload(request)
    stream = boolean(payload, "stream", default=True)
    recipe, warnings = _recipe(payload)
    _allow(gateway, request, recipe["name"])
    if recipe["from"]:
        recipe["from"] = gateway.directory.resolve_model(recipe["from"])
        _allow(gateway, request, recipe["from"])
    made = gateway.supervisor.create(**recipe)
    warnings += made["warnings"]
    if not stream:
        request.answer(200, dumps({"status": "success", **({"warnings": warnings} if warnings else {})}))
        return
    digests = [*recipe["files"].values(), *recipe["adapters"].values()]
    statuses = ["gathering model components", *(f"using existing layer {digest}" for digest in digests),
                *(f"warning: {warning}" for warning in warnings), "writing manifest", "success"]
    request.answer(200, b"".join(dumps({"status": status}) + b"\n" for status in statuses), NDJSON)


def copy(gateway: Gateway, request: Request, route: Route) -> None:
    payload = _payload(request)
    names = {field: text(payload, field) for field in ("source", "destination")}
    for field, name in names.items():
        if not name:
            raise RequestRefused(f"`{field}` is missing: name the model to copy and its new name, like "
                                 f"{{\"source\": \"smollm2-135m\", \"destination\": \"mine\"}}")
    source = gateway.directory.resolve_model(names["source"])
    for name in (source, names["destination"]):
        _allow(gateway, request, name)
    gateway.supervisor.copy(source, names["destination"], boolean(payload, "alias", default=False))
    request.answer(200, b"")


def push(gateway: Gateway, request: Request, route: Route) -> None:
    payload = _payload(request)
    name = gateway.directory.resolve_model(text(payload, "model") or text(payload, "name"))
    _allow(gateway, request, name)
    digest = gateway.supervisor.describe(name)["files"][0]["digest"]
    raise PushRefused(name=name, file=f"models/blobs/{digest}.gguf in the data dir")


def _payload(request: Request) -> dict[str, Any]:
    body = request.body()
    if len(body) > MAX_BODY:
        raise BodyTooLarge(f"the request body is over the limit of {format_bytes(MAX_BODY)}; send files on their own, "
                           f"to /api/blobs/:digest")
    return load_object(body)


def _recipe(payload: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The fields of the message `create`, and warnings. Raises RequestRefused and its kin."""
    for field, (reason, remedy) in REFUSED.items():
        if payload.get(field):
            raise KnobRefused(knob=f"`{field}`", reason=reason, remedy=remedy)
    warnings = [f"`{field}` has no effect here and is left out" for field in IGNORED if payload.get(field)]
    written = modelfile.Modelfile()
    files = _digests(payload, "files")
    source = text(payload, "from")
    if text(payload, "modelfile"):
        written = modelfile.parse(text(payload, "modelfile"))
        source, files = _sources(written, source, files)
    license = payload.get("license")
    licenses = [license] if isinstance(license, str) else strings(payload, "license")
    parameters, more = read_parameters(mapping(payload, "parameters"))
    preset = {"system": text(payload, "system") or written.preset.system,
              "template": text(payload, "template") or written.preset.template,
              "messages": list(modelfile.read_messages(objects(payload, "messages")) or written.preset.messages),
              "parameters": {**written.preset.parameters, **parameters}}
    recipe = {"name": text(payload, "model") or text(payload, "name"), "from": source or None, "files": files,
              "adapters": _digests(payload, "adapters"), "preset": preset,
              "license": "\n".join(licenses) or written.license}
    if not recipe["name"]:
        raise RequestRefused("`model` is missing: name the model to make, like \"model\": \"mine\"")
    return recipe, [*warnings, *written.warnings, *more]


def _sources(written: modelfile.Modelfile, source: str, files: dict[str, str]) -> tuple[str, dict[str, str]]:
    """What the FROM lines of a Modelfile in a request name: a model, or files that were sent, as `@sha256:…`."""
    if written.adapters:
        raise RequestRefused("ADAPTER in `modelfile` names a file that is not here; send it to /api/blobs/:digest and "
                             "name it in `adapters`")
    sent = {f"{number}.gguf": name.removeprefix("@") for number, name in enumerate(written.sources)
            if name.startswith(("@sha256:", "sha256:"))}
    named = [name for name in written.sources if not name.startswith(("@sha256:", "sha256:"))]
    for name in named[:1]:
        if name.startswith((".", "/", "~")):
            raise RequestRefused(f"FROM {name[:60]} names a file, and requests name no files of the server; send it to "
                                 f"/api/blobs/:digest and name it in `files`, or use `blazar create`")
    return source or next(iter(named), ""), {**files, **sent}


def _digests(payload: dict[str, Any], field: str) -> dict[str, str]:
    digests = mapping(payload, field)
    for name, digest in digests.items():
        if not isinstance(digest, str):
            refuse(f"{field}.{name[:60]}", "a digest like \"sha256:…\"", digest)
    return digests


def _allow(gateway: Gateway, request: Request, name: str) -> None:
    """Raises NameRefused, ModelForbidden, and AliasFixed for a name that the configuration gives to something else."""
    canonical = str(parse(name))
    if canonical in gateway.directory.presets and canonical not in gateway.directory.models:
        raise AliasFixed(name=canonical, change="give that name to a model", remedy="choose another name")
    gateway.keys.check_model(request.api_key, canonical)
