"""Anthropic's content blocks as text and parts of a chat message; a block we cannot pass on leaves a placeholder."""

from typing import Any

from blazar.errors import KnobRefused, RequestRefused
from blazar.proxy.dialects import images
from blazar.proxy.dialects.fields import mapping, objects, refuse, text
from blazar.proxy.dialects.media import OFFERED
from blazar.proxy.json import dumps

SHOWN = 200
"""Characters of a block that its placeholder shows."""
NOT_READ = {
    # type of a source: why it is not taken
    "base64": "engines read text, not PDF",
    "url": "this server fetches nothing from addresses that a request names",
    "file": "this server keeps no files for messages",
}


def shown_parts(blocks: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """A user's blocks in order: a string when all are text, parts when there are images."""
    if not any(block.get("type") == "image" for block in blocks):
        return plain_text(blocks)
    return [_image(block) if block.get("type") == "image" else {"type": "text", "text": block_text(block)}
            for block in blocks]


def plain_text(blocks: list[dict[str, Any]]) -> str:
    return "\n".join(block_text(block) for block in blocks)


def tool_result(block: dict[str, Any]) -> str | list[dict[str, Any]]:
    """The content of a tool's result: text, '' when it has none; parts when there are images. An error says so."""
    content, error = block.get("content"), "Error: " if block.get("is_error") is True else ""
    if isinstance(content, str):
        return error + content
    inner = _inner(block, "content", block["where"])
    pictures = [_offered_image(block) if block.get("type") == "image" else None for block in inner]
    if not any(pictures):
        return error + plain_text(inner)
    parts = [picture or {"type": "text", "text": block_text(block)}
             for block, picture in zip(inner, pictures, strict=True)]
    return [{"type": "text", "text": error.strip()}, *parts] if error else parts


def block_text(block: dict[str, Any]) -> str:
    """One block as text."""
    where = block.get("where", "")
    kind = block.get("type")
    if kind == "text":
        return text(block, "text", where)
    if kind == "document":
        return _document(block, where)
    if kind == "compaction":
        return text(block, "content", where)
    if kind == "search_result":
        heading = [text(block, "title", where), text(block, "source", where)]
        return "\n".join([*filter(None, heading), plain_text(_inner(block, "content", where))])
    if not isinstance(kind, str):
        refuse(f"{where}type", "the kind of the block, like \"text\"", kind)
    return placeholder(block)


def placeholder(block: dict[str, Any]) -> str:
    """A short note in place of a block that the model cannot be shown: '[image]', '[tool_reference: {...}]'."""
    facts = {key: value for key, value in block.items() if key not in ("type", "where", "source", "cache_control")}
    shown = dumps(facts).decode() if facts else ""
    shown = shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}..."
    return f"[{block['type']}: {shown}]" if shown else f"[{block['type']}]"


def _document(block: dict[str, Any], where: str) -> str:
    source = mapping(block, "source", where)
    if source.get("type") == "text":
        words = text(source, "data", f"{where}source.")
    elif source.get("type") == "content" and isinstance(source.get("content"), str):
        words = source["content"]
    elif source.get("type") == "content":
        words = plain_text(_inner(source, "content", f"{where}source."))
    else:
        return placeholder(block)
    heading = [text(block, "title", where), text(block, "context", where)]
    return "\n".join([*filter(None, heading), words])


def check_document(block: dict[str, Any]) -> None:
    """Refuse a user's document that is not text. In a tool's result, which nobody can write anew, it leaves a
    placeholder."""
    where = f"{block['where']}source."
    kind = mapping(block, "source", block["where"]).get("type")
    if kind in ("text", "content"):
        return
    if kind not in ("base64", "url", "file"):
        refuse(f"{where}type", "text or content", kind)
    raise KnobRefused(knob=f"a document of the kind {kind!r} (`{where}type`)", reason=NOT_READ[kind],
                      remedy="take the text out of it, and send that as a source of the type \"text\"")


def _image(block: dict[str, Any]) -> dict[str, Any]:
    where = f"{block['where']}source."
    source = mapping(block, "source", block["where"])
    kind = source.get("type")
    if kind == "base64":
        return images.part(text(source, "data", where), f"`{where}data`")
    if kind == "url" and text(source, "url", where).startswith("data:"):
        return images.part(source["url"], f"`{where}url`")
    if kind not in ("url", "file"):
        refuse(f"{where}type", "base64", kind)
    raise KnobRefused(knob=f"an image by {kind} (`{where}type`)", reason=NOT_READ[kind],
                      remedy="send its bytes as a source of the type \"base64\"")


def _offered_image(block: dict[str, Any]) -> dict[str, Any] | None:
    """An image of a tool's result, for models that can see; None for one that nobody can be shown, since a result
    cannot be written anew."""
    try:
        return {**_image(block), OFFERED: placeholder(block)}
    except RequestRefused:
        return None


def _inner(holder: dict[str, Any], field: str, where: str) -> list[dict[str, Any]]:
    """The blocks inside a block, each with its place."""
    inner = holder.get(field)
    if inner is not None and not isinstance(inner, list):
        refuse(where + field, "a string or a list of blocks", inner)
    return [{**block, "where": f"{where}{field}[{position}]."}
            for position, block in enumerate(objects(holder, field, where))]
