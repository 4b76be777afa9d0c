"""Pulling a model through the daemon, with Ollama's progress.

A client that leaves cancels its pull; what has come of it is kept for the next one.
"""

from collections.abc import Iterator

from blazar.errors import BlazarError, KnobRefused
from blazar.proxy import greens
from blazar.proxy.dialects.fields import boolean, model_name
from blazar.proxy.dialects.ollama_pull import BEGIN, END, PullTranslator
from blazar.proxy.dialects.ollama_render import error_line
from blazar.proxy.exchange import ClientGone
from blazar.proxy.gateway import Gateway
from blazar.proxy.job import Job
from blazar.proxy.json import dumps, load_object
from blazar.proxy.request import Request
from blazar.proxy.routes import Route
from blazar.store.name import parse
from blazar.store.reference import is_url


def pull(gateway: Gateway, request: Request, route: Route) -> None:
    payload = load_object(request.body())
    if "model" not in payload and "name" in payload:  # what older Ollama clients send
        payload = {**payload, "model": payload["name"]}
    reference, streams = model_name(payload), boolean(payload, "stream", default=True)
    if boolean(payload, "insecure", default=False):
        raise KnobRefused(knob="`insecure`", reason="certificates are always checked",
                          remedy="set BLAZAR_REGISTRY_BASE to an http:// address for a registry without them")
    gateway.keys.check_model(request.api_key, reference if is_url(reference) else str(parse(reference)))
    with gateway.supervisor.job("pull", reference=reference) as job, greens.interrupter(ClientGone) as interrupt:
        request.sink.watch(interrupt)
        try:
            if streams:
                _stream(request, job, gateway.dialects[route.dialect].stream_type)
            else:
                _wait(request, job)
        finally:
            request.sink.unwatch()


def _wait(request: Request, job: Job) -> None:
    for _ in job:
        pass
    request.answer(200, dumps(END))


def _stream(request: Request, job: Job, content_type: str) -> None:
    request.sink.start(200, [*request.own_headers(), ("Content-Type", content_type)])
    for line in _lines(job):
        request.sink.write(line)
    request.sink.finish()


def _lines(job: Job) -> Iterator[bytes]:
    """The lines of the answer; an error is the last of them, as Ollama has it."""
    yield dumps(BEGIN) + b"\n"
    translator = PullTranslator()
    try:
        for note in job:
            status = translator.feed(note)
            if status is not None:
                yield dumps(status) + b"\n"
        yield dumps(END) + b"\n"
    except BlazarError as error:
        yield error_line(error)
