"""Images in requests, in whatever form they come, as the one data URL that an engine reads.

Nothing is fetched: a URL in a request would have this machine open an address of a stranger's choice, and its text does
not tell where a name leads.
"""

import binascii
from collections.abc import Callable
from string import ascii_letters, digits
from typing import Any

from blazar.errors import RequestRefused
from blazar.proxy.dialects.picture_size import pixels
from blazar.units import format_bytes

LARGEST = 20 << 20
"""Bytes of an image's file."""
STEP = 1 << 16
"""Characters of base64 that are checked in one go."""
BEGINNING = 1 << 20
"""Characters of base64 that are decoded to see what a file is."""
ALPHABET = (ascii_letters + digits + "+/").encode()
MOST_PIXELS = 100_000_000
"""Of one image: the engine unpacks it to three bytes each."""

_SIGNATURES = [(b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"),
               (b"BM", "image/bmp")]


def _go_on() -> None:
    """Pauses of those who make none."""


def part(data: str, where: str, pause: Callable[[], None] = _go_on) -> dict[str, Any]:
    """The image part for base64 text or a data URL; the type is that of the bytes. `where` names it in a refusal.

    A data URL that is as it should be is not written anew.
    """
    found, text, start = decoded(data, where, "image", LARGEST, pause)
    media_type = type_of(found)
    if media_type is None:
        raise RequestRefused(f"{where} is not an image we know: send PNG, JPEG, WebP, GIF or BMP")
    if media_type == "image/jpeg" and not pixels(found):  # much may stand before its size
        found = binascii.a2b_base64(text[start:])
    if pixels(found) > MOST_PIXELS:
        raise RequestRefused(f"{where} has {pixels(found)} pixels, {MOST_PIXELS} are allowed: send it smaller")
    head = f"data:{media_type};base64,"
    url = text if start == len(head) and text.startswith(head) else head + text[start:]
    return {"type": "image_url", "image_url": {"url": url}}


def url_part(url: str, where: str, pause: Callable[[], None] = _go_on) -> dict[str, Any]:
    """The image part for a data URL, or for base64 in the place of a URL."""
    if "://" in url[:32]:
        raise RequestRefused(f"{where} names a place to get the image from, and nothing is fetched for a request here: "
                             "send the image itself, as a data: URL with base64")
    return part(url, where, pause)


def decoded(data: str, where: str, what: str, largest: int,
            pause: Callable[[], None] = _go_on) -> tuple[bytes, str, int]:
    """How the bytes of base64 text or of a data URL begin, that text without blanks, which is the same one where it has
    none, and where the base64 begins in it. Raises RequestRefused. All of it is checked, and no copy is made of it."""
    if len(data) > 2 * largest:
        raise _too_large(where, what, largest)
    text, start = data, _start(data)
    if not _is_base64(text, start, pause):
        text = "".join(data.split())
        start = _start(text) if start else 0
        text += "=" * (-(len(text) - start) % 4)
        if not _is_base64(text, start, pause):
            raise RequestRefused(f"{where} is not base64: send the {what}'s bytes as base64, or as a data: URL")
    if (len(text) - start) // 4 * 3 - _padding(text) > largest:
        raise _too_large(where, what, largest)
    return binascii.a2b_base64(text[start:start + BEGINNING]), text, start


def _start(data: str) -> int:
    return data.find(",") + 1 if data.startswith("data:") else 0


def _padding(text: str) -> int:
    return 2 if text.endswith("==") else int(text.endswith("="))


def _is_base64(text: str, start: int, pause: Callable[[], None]) -> bool:
    """Whether there is base64 from there on, without blanks, and padded."""
    end = len(text) - _padding(text)
    for at in range(start, end, STEP):
        if text[at:min(at + STEP, end)].encode(errors="replace").translate(None, ALPHABET):
            return False
        pause()
    return end > start and (len(text) - start) % 4 == 0


def type_of(found: bytes) -> str | None:
    """The media type of an image, by its first bytes."""
    for signature, media_type in _SIGNATURES:
        if found.startswith(signature):
            return media_type
    return "image/webp" if found[:4] == b"RIFF" and found[8:12] == b"WEBP" else None


def _too_large(where: str, what: str, largest: int) -> RequestRefused:
    return RequestRefused(f"{where} is too large: the {what} may have {format_bytes(largest)}")
