"""FC-11: exactly one well-formed data URL, or a refusal; no URL that leads inwards."""

import base64

import pytest

from blazar.errors import RequestRefused
from blazar.proxy.dialects.images import part, url_part

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU"
                       "5ErkJggg==")
JPEG, WEBP, GIF = b"\xff\xd8\xff\xe0rest", b"RIFF\x04\0\0\0WEBPVP8 ", b"GIF89a...."


def encoded(image):
    return base64.b64encode(image).decode()


def urls(image, media_type):
    return {"type": "image_url", "image_url": {"url": f"data:image/{media_type};base64,{encoded(image)}"}}


@pytest.mark.parametrize(("image", "media_type"), [(PNG, "png"), (JPEG, "jpeg"), (WEBP, "webp"), (GIF, "gif")])
def test_the_type_is_that_of_the_bytes(image, media_type):
    assert part(encoded(image), "x") == urls(image, media_type)
    assert part(f"data:image/wrong;base64,{encoded(image)}", "x") == urls(image, media_type)
    assert url_part(f"data:image/{media_type};base64,{encoded(image)}", "x") == urls(image, media_type)


def test_line_ends_and_missing_padding_are_mended():
    text = encoded(PNG)
    assert part("\n".join([text[:40], text[40:]]) + "\r\n", "x") == urls(PNG, "png")
    assert part(text.rstrip("="), "x") == urls(PNG, "png")


@pytest.mark.parametrize("data", ["!!!", "", "data:image/png;base64,", "data:image/png", "aGVsbG8gd29ybGQ=", "é",
                                  "http://127.0.0.1/x.png"])
def test_what_is_no_image_is_refused(data):
    with pytest.raises(RequestRefused, match=r"images\[0\]"):
        part(data, "`images[0]`")


@pytest.mark.parametrize("url", ["https://example.com/a.png", "http://93.184.216.34/x", "https://[2606:4700::1111]/x"])
def test_public_urls_are_the_engines_business(url):
    assert url_part(url, "x") == {"type": "image_url", "image_url": {"url": url}}


@pytest.mark.parametrize("url", [
    "http://127.0.0.1:8000/x.png", "http://169.254.169.254/", "file:///etc/hostname", "http://localhost/x",
    "http://a.localhost./x", "http://[::1]/", "http://10.0.0.1/", "http://2130706433/", "http://127.1/", "http://0x7f.1/",
    "http://nas/", "http://printer.local/", "ftp://example.com/x", "http://", "", "x", "http://[::1", "http://[::ffff:127.0.0.1]/",
    "http://user@127.0.0.1/"])
def test_urls_that_lead_inwards_are_refused(url):
    with pytest.raises(RequestRefused, match="public"):
        url_part(url, "`url`")
