"""Images in requests, in whatever form they come, as the one data URL that an engine reads.

Nothing is fetched: a URL in a request would have this machine open an address of a stranger's choice, and its text does
not tell where a name leads.
"""

import base64
import binascii
from typing import Any

from blazar.errors import RequestRefused
from blazar.proxy.dialects.picture_size import pixels
from blazar.units import format_bytes

LARGEST = 20 << 20
"""Bytes of an image's file."""
MOST_PIXELS = 100_000_000
"""Of one image: the engine unpacks it to three bytes each."""

_SIGNATURES = [(b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"),
               (b"BM", "image/bmp")]


def part(data: str, where: str) -> dict[str, Any]:
    """The image part for base64 text or a data URL; the type is that of the bytes. `where` names it in a refusal."""
    found, encoded = decoded(data, where, "image", LARGEST)
    media_type = type_of(found)
    if media_type is None:
        raise RequestRefused(f"{where} is not an image we know: send PNG, JPEG, WebP, GIF or BMP")
    if pixels(found) > MOST_PIXELS:
        raise RequestRefused(f"{where} has {pixels(found)} pixels, {MOST_PIXELS} are allowed: send it smaller")
    return {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{encoded}"}}


def url_part(url: str, where: str) -> dict[str, Any]:
    """The image part for a data URL, or for base64 in the place of a URL."""
    if "://" in url[:32]:
        raise RequestRefused(f"{where} names a place to get the image from, and nothing is fetched for a request here: "
                             "send the image itself, as a data: URL with base64")
    return part(url, where)


def decoded(data: str, where: str, what: str, largest: int) -> tuple[bytes, str]:
    """The bytes of base64 text or of a data URL, and their base64 without blanks. Raises RequestRefused."""
    encoded = data.partition(",")[2] if data.startswith("data:") else data
    if len(encoded) > 2 * largest:
        raise _too_large(where, what, largest)
    encoded = "".join(encoded.split())
    encoded += "=" * (-len(encoded) % 4)
    try:
        found = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        found = b""
    if not found:
        raise RequestRefused(f"{where} is not base64: send the {what}'s bytes as base64, or as a data: URL")
    if len(found) > largest:
        raise _too_large(where, what, largest)
    return found, encoded


def type_of(found: bytes) -> str | None:
    """The media type of an image, by its first bytes."""
    for signature, media_type in _SIGNATURES:
        if found.startswith(signature):
            return media_type
    return "image/webp" if found[:4] == b"RIFF" and found[8:12] == b"WEBP" else None


def _too_large(where: str, what: str, largest: int) -> RequestRefused:
    return RequestRefused(f"{where} is too large: the {what} may have {format_bytes(largest)}")
