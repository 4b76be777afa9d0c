"""How large a picture is, by the first bytes of its file: a small file may unfold into a great many pixels."""

import struct

_NO_FRAME = (0xC4, 0xC8, 0xCC)
"""JPEG markers among those of frames that begin something else."""


def pixels(found: bytes) -> int:
    """Width times height of a PNG, JPEG, GIF, BMP or WebP; 0 when its head does not tell."""
    try:
        width, height = _size(found)
    except (struct.error, IndexError):
        return 0
    return abs(width) * abs(height)


def _size(found: bytes) -> tuple[int, int]:
    if found.startswith(b"\x89PNG"):
        return struct.unpack_from(">II", found, 16)
    if found.startswith(b"GIF8"):
        return struct.unpack_from("<HH", found, 6)
    if found.startswith(b"BM"):
        old = struct.unpack_from("<I", found, 14)[0] == 12
        return struct.unpack_from("<HH" if old else "<ii", found, 18)
    return _webp(found) if found.startswith(b"RIFF") else _jpeg(found)


def _webp(found: bytes) -> tuple[int, int]:
    kind = found[12:16]
    if kind == b"VP8X":
        return (int.from_bytes(found[24:27], "little") + 1, int.from_bytes(found[27:30], "little") + 1)
    if kind == b"VP8L":
        bits = struct.unpack_from("<I", found, 21)[0]
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    width, height = struct.unpack_from("<HH", found, 26)
    return width & 0x3FFF, height & 0x3FFF


def _jpeg(found: bytes) -> tuple[int, int]:
    at = 2
    while True:
        while found[at] == 0xFF and found[at + 1] in (0xFF, 0x01):  # filling, and a marker without a segment
            at += 1 if found[at + 1] == 0xFF else 2
        marker = found[at + 1]
        if found[at] != 0xFF or marker in (0xD9, 0xDA):
            return 0, 0
        if 0xC0 <= marker <= 0xCF and marker not in _NO_FRAME:
            height, width = struct.unpack_from(">HH", found, at + 5)
            return width, height
        at += 2 + max(2, struct.unpack_from(">H", found, at + 2)[0])
