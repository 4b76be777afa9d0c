"""How large a picture is, by its head alone; the heads are written by hand."""

import struct

import pytest

from blazar.proxy.dialects.picture_size import pixels

JPEG = (b"\xff\xd8\xff\xe0\x00\x04JF\xff\xff\xdb\x00\x04ab\xff\xc4\x00\x03x\xff\xc2\x00\x11\x08"
        + struct.pack(">HH", 300, 70) + b"\x03")


@pytest.mark.parametrize(("head", "size"), [
    (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 40, 20), 800),
    (b"GIF89a" + struct.pack("<HH", 7, 9), 63),
    (b"BM" + bytes(12) + struct.pack("<Iii", 40, 30, -20), 600),
    (b"BM" + bytes(12) + struct.pack("<IHH", 12, 30, 20), 600),
    (b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + b"\x63\0\0" + b"\x31\0\0", 5000),
    (b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f" + struct.pack("<I", 99 | 49 << 14), 5000),
    (b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 100 | 1 << 14, 50), 5000),
    (JPEG, 21000)])
def test_every_format(head, size):
    assert pixels(head) == size


@pytest.mark.parametrize("head", [
    b"\x89PNG\r\n\x1a\n", b"GIF8", b"BM", b"RIFF\0\0\0\0WEBP", b"\xff\xd8\xff", b"\xff\xd8\xff\xff\xff",
    b"\xff\xd8\xff\xd9", b"\xff\xd8\x00\x00", b"\xff\xd8\xff\xe0\x00\x00\xff\xe0\x00\x00"])
def test_what_does_not_tell(head):
    assert pixels(head) == 0
