"""FC-11: exactly one well-formed data URL, or a refusal; no URL is opened."""

import base64
import struct

import pytest

from blazar.errors import RequestRefused
from blazar.proxy.dialects.images import BEGINNING, LARGEST, STEP, decoded, part, url_part

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU"
                       "5ErkJggg==")
JPEG, WEBP, GIF = b"\xff\xd8\xff\xe0rest", b"RIFF\x04\0\0\0WEBPVP8 ", b"GIF89a\1\0\1\0"


def encoded(image):
    return base64.b64encode(image).decode()


def urls(image, media_type):
    return {"type": "image_url", "image_url": {"url": f"data:image/{media_type};base64,{encoded(image)}"}}


@pytest.mark.parametrize(("image", "media_type"), [(PNG, "png"), (JPEG, "jpeg"), (WEBP, "webp"), (GIF, "gif")])
def test_the_type_is_that_of_the_bytes(image, media_type):
    assert part(encoded(image), "x") == urls(image, media_type)
    assert part(f"data:image/wrong;base64,{encoded(image)}", "x") == urls(image, media_type)
    assert url_part(f"data:image/{media_type};base64,{encoded(image)}", "x") == urls(image, media_type)


def test_a_url_in_form_is_kept_without_a_copy():
    url = f"data:image/png;base64,{encoded(PNG)}"
    assert part(url, "x")["image_url"]["url"] is url


@pytest.mark.parametrize("size", [STEP // 4 * 3 - 1, STEP // 4 * 3, STEP // 4 * 3 + 1, STEP * 3])
def test_base64_is_checked_in_steps(size):
    image, steps = PNG + bytes(size - len(PNG)), []
    found, text, start = decoded(f"data:,{encoded(image)}", "x", "image", LARGEST, lambda: steps.append(1))
    assert found == image and text[start:] == encoded(image)
    assert len(steps) == -(-len(text[start:].rstrip("=")) // STEP)
    padded = encoded(PNG + bytes(-len(PNG) % 3) + b"x")
    assert padded.endswith("==")
    for broken in ("A" * (STEP - len(padded)) + padded + "AAAA", "A" * STEP + "!AAA", "A" * STEP + "AA=A",
                   "A" * STEP + "A===", "A" * STEP + "====", "A" * STEP + "A"):
        with pytest.raises(RequestRefused, match="not base64"):
            decoded(broken, "x", "image", LARGEST)


def test_only_as_much_is_decoded_as_tells_what_it_is():
    assert len(decoded(encoded(PNG + bytes(3 * BEGINNING)), "x", "image", LARGEST)[0]) == BEGINNING // 4 * 3
    frame = b"\xff\xc0\0\x11\x08" + struct.pack(">HH", 20000, 20000)
    far = b"\xff\xd8" + b"\xff\xe1\xff\xff".ljust(0xffff + 2, b"x") * 20 + frame
    assert len(far) > BEGINNING
    with pytest.raises(RequestRefused, match="has 400000000 pixels"):
        part(encoded(far), "x")


def test_line_ends_and_missing_padding_are_mended():
    text = encoded(PNG)
    assert part("\n".join([text[:40], text[40:]]) + "\r\n", "x") == urls(PNG, "png")
    assert part(text.rstrip("="), "x") == urls(PNG, "png")


@pytest.mark.parametrize("data", ["!!!", "", "data:image/png;base64,", "data:image/png", "aGVsbG8gd29ybGQ=", "é",
                                  "http://127.0.0.1/x.png"])
def test_what_is_no_image_is_refused(data):
    with pytest.raises(RequestRefused, match=r"images\[0\]"):
        part(data, "`images[0]`")


@pytest.mark.parametrize("url", ["https://example.com/a.png", "http://127.0.0.1:8000/x", "file:///etc/hostname",
                                 "ftp://a/b", "HTTP://EXAMPLE.COM/", "http://user@127.0.0.1/"])
def test_nothing_is_fetched(url):
    with pytest.raises(RequestRefused, match=r"`url` names a place .* nothing is fetched"):
        url_part(url, "`url`")


def test_what_a_url_may_be_besides():
    assert url_part(encoded(PNG), "x") == urls(PNG, "png")
    for url in ("", "x", "http:", "data:,x"):
        with pytest.raises(RequestRefused, match="not base64"):
            url_part(url, "x")


def test_large_files_and_many_pixels_are_refused():
    with pytest.raises(RequestRefused, match=r"too large: the image may have 20\.0 MiB"):
        part(encoded(PNG + bytes(LARGEST)), "x")
    with pytest.raises(RequestRefused, match="too large"):
        part("A" * (2 * LARGEST + 4), "x")
    bomb = PNG[:16] + struct.pack(">II", 20000, 20000) + PNG[24:]
    with pytest.raises(RequestRefused, match="has 400000000 pixels, 100000000 are allowed"):
        part(encoded(bomb), "x")
