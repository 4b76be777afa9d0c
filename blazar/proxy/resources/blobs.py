"""Files that clients send for models they are about to make. They are never held in memory, whatever their size."""

from blazar.proxy import greens
from blazar.proxy.gateway import Gateway
from blazar.proxy.request import Request
from blazar.proxy.routes import Route
from blazar.store.uploads import BLOCK, Incoming, read_digest

PREFIX = "/api/blobs/"


def look(gateway: Gateway, request: Request, route: Route) -> None:
    """200 when a file of that content is here, else 404."""
    here = gateway.supervisor.has_blob(read_digest(request.path.removeprefix(PREFIX)))
    request.answer(200 if here else 404, b"")


def take(gateway: Gateway, request: Request, route: Route) -> None:
    """201 when the file has been kept, 200 when it was here already."""
    digest = read_digest(request.path.removeprefix(PREFIX))
    if gateway.supervisor.has_blob(digest):
        for _ in request.pieces():
            pass  # clients that send without asking first take an early answer for a broken connection
        request.answer(200, b"")
        return
    incoming = Incoming(gateway.paths)
    try:
        incoming.check_room(request.length)
        _write(request, incoming)
        gateway.supervisor.take_blob(digest, incoming.token)
    finally:
        greens.aside(incoming.close)
    request.answer(201, b"")


def _write(request: Request, incoming: Incoming) -> None:
    """The body into the file, a block at a time: the next one is read while nobody waits for the disk."""
    block = bytearray()
    for piece in request.pieces():
        block += piece
        if len(block) >= BLOCK:
            greens.aside(incoming.write, bytes(block))
            block.clear()
    greens.aside(incoming.write, bytes(block))
