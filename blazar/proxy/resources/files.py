"""OpenAI's files: what batches read and write. Their content goes to the disk and from it, never into memory whole."""

import os

from blazar.errors import RequestRefused
from blazar.proxy import greens
from blazar.proxy.dialects import openai_batches, queries
from blazar.proxy.dialects.responses import page
from blazar.proxy.gateway import Gateway
from blazar.proxy.json import dumps
from blazar.proxy.multipart import Part, boundary_of, parts, text_of
from blazar.proxy.request import Request
from blazar.proxy.routes import Route
from blazar.proxy.shelf import owner_of
from blazar.store.client_files import BLOCK, FileWriter, file_path, new_file_id

MOST_LISTED = 10_000
LONGEST_NAME = 255
"""Characters of a file's name that are kept."""


def upload(gateway: Gateway, request: Request, route: Route) -> None:
    boundary, owner = boundary_of(request.headers.get("content-type", "")), owner_of(request.api_key)
    gateway.supervisor.files("check", owner, size=request.length)
    writer = FileWriter(gateway.paths, new_file_id())
    try:
        fields: dict[str, str] = {}
        name = None
        for part in parts(request.pieces(), boundary):
            if part.filename is None and part.name != "file":
                fields[part.name] = text_of(part)
            elif part.name != "file" or name is not None:
                raise RequestRefused("send one file, in the field `file`")
            else:
                name = (part.filename or "upload")[:LONGEST_NAME]
                _write(part, writer)
        openai_batches.purpose(fields)
        lifetime = openai_batches.lifetime(fields)
        if name is None:
            raise RequestRefused("`file` is missing: the form has no file")
        greens.aside(writer.seal)
        row = gateway.supervisor.files("put", owner, object=writer.id, name=name, size=writer.size,
                                       lifetime=lifetime)["row"]
    finally:
        greens.aside(writer.close)
    request.answer(200, dumps(openai_batches.file(row)))


def listed(gateway: Gateway, request: Request, route: Route) -> None:
    query = queries.fields(request.query)
    answer = gateway.supervisor.files(
        "page", owner_of(request.api_key), after=query.get("after"), purpose=query.get("purpose"),
        limit=queries.limit(query, MOST_LISTED, MOST_LISTED), newest_first=queries.newest_first(query, "desc"))
    request.answer(200, page([openai_batches.file(row) for row in answer["rows"]], answer["more"]))


def retrieve(gateway: Gateway, request: Request, route: Route) -> None:
    request.answer(200, dumps(openai_batches.file(_row(gateway, request))))


def delete(gateway: Gateway, request: Request, route: Route) -> None:
    id = _id(request)
    gateway.supervisor.files("forget", owner_of(request.api_key), object=id)
    request.answer(200, dumps({"id": id, "object": "file", "deleted": True}))


def content(gateway: Gateway, request: Request, route: Route) -> None:
    row, sink = _row(gateway, request), request.sink
    descriptor = os.open(file_path(gateway.paths, row["id"]), os.O_RDONLY | os.O_CLOEXEC)
    try:
        sink.start(200, [*request.own_headers(), ("Content-Type", "application/octet-stream"),
                         ("Content-Length", str(row["size"]))])
        left = row["size"]
        while left and (block := greens.aside(os.read, descriptor, min(BLOCK, left))):
            sink.write(block)
            left -= len(block)
    finally:
        os.close(descriptor)
    sink.finish() if not left else sink.abort()


def _write(part: Part, writer: FileWriter) -> None:
    """The part into the file, a block at a time: the next one is read while nobody waits for the disk."""
    block = bytearray()
    for piece in part.pieces:
        block += piece
        if len(block) >= BLOCK:
            greens.aside(writer.write, bytes(block))
            block.clear()
    greens.aside(writer.write, bytes(block))


def _row(gateway: Gateway, request: Request) -> dict:
    return gateway.supervisor.files("find", owner_of(request.api_key), object=_id(request))["row"]


def _id(request: Request) -> str:
    return request.path.split("/")[3]
