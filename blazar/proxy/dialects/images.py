"""Images in requests, in whatever form they come, as the one data URL that an engine reads."""

import base64
import binascii
import ipaddress
from typing import Any
from urllib.parse import urlsplit

from blazar.errors import RequestRefused

_SIGNATURES = [(b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"),
               (b"BM", "image/bmp")]


def part(data: str, where: str) -> dict[str, Any]:
    """The image part for base64 text or a data URL; the type is that of the bytes. `where` names it in a refusal."""
    encoded = data.partition(",")[2] if data.startswith("data:") else data
    encoded = "".join(encoded.split())
    try:
        found = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        found = b""
    if not found:
        raise RequestRefused(f"{where} is not base64: send the image's bytes as base64, or as a data: URL")
    url = f"data:{_media_type(found, where)};base64,{base64.b64encode(found).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


def url_part(url: str, where: str) -> dict[str, Any]:
    """The image part for a URL: a data URL, or one that the engine may fetch from a public place."""
    if url.startswith("data:"):
        return part(url, where)
    if not _is_public(url):
        raise RequestRefused(f"{where} must be a public http(s) or a data: URL; send a local image as base64")
    return {"type": "image_url", "image_url": {"url": url}}


def _media_type(found: bytes, where: str) -> str:
    for signature, media_type in _SIGNATURES:
        if found.startswith(signature):
            return media_type
    if found[:4] == b"RIFF" and found[8:12] == b"WEBP":
        return "image/webp"
    raise RequestRefused(f"{where} is not an image we know: send PNG, JPEG, WebP, GIF or BMP")


def _is_public(url: str) -> bool:
    """Whether the URL names a public host, as far as its text tells; no name is looked up."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".")
    except ValueError:
        return False
    if parts.scheme not in ("http", "https") or not host:
        return False
    try:
        return ipaddress.ip_address(host).is_global
    except ValueError:
        pass
    # A last label that begins with a digit is an old spelling of an address, such as 127.1 or 0x7f000001.
    last = host.rpartition(".")[2]
    return "." in host and not last[0].isdigit() and last not in ("localhost", "local", "internal")
