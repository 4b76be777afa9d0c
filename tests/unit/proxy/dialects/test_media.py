"""What a chat completion shows: found by its bytes, brought into the one form that opens nothing, counted."""

import base64
import json

import pytest

from blazar.errors import RequestRefused
from blazar.proxy.dialects.media import MOST, STEP, holds_only, may_show, settle_offers, shown
from tests.support.tiny_mmproj import png

PICTURE = base64.b64encode(png(1, 2, 3, side=2)).decode()
WAV = base64.b64encode(b"RIFF\0\0\0\0WAVEfmt ").decode()
MP4 = base64.b64encode(b"\0\0\0\x18ftypmp42").decode()
PLAYLIST = base64.b64encode(b"#EXTM3U\nhttp://169.254.169.254/\n").decode()
URL = f"data:image/png;base64,{PICTURE}"


def asked(*parts):
    return {"messages": [{"role": "system", "content": "x"}, {"role": "user", "content": list(parts)}]}


def look(*parts):
    """The senses, and the parts as they are then."""
    body = asked(*parts)
    return shown(body, lambda: None)[0], body["messages"][1]["content"]


@pytest.mark.parametrize(("part", "becomes"), [
    ({"type": "image_url", "image_url": {"url": URL}}, {"url": URL}),
    ({"type": "image_url", "image_url": {"url": URL, "detail": "low"}}, {"url": URL, "detail": "low"}),
    ({"type": "image_url", "image_url": URL}, {"url": URL}),
    ({"type": "image_url", "image_url": {"url": PICTURE}}, {"url": URL}),
    ({"type": "image_url", "image_url": {"url": f"data:image/gif;base64,{PICTURE[:9]}\n{PICTURE[9:]}"}}, {"url": URL})])
def test_every_form_of_a_picture(part, becomes):
    text = {"type": "text", "text": "what is it?"}
    assert look(text, part, text) == ({"vision"}, [text, {"type": "image_url", "image_url": becomes}, text])


def test_sound_and_film():
    sound = {"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}}
    assert look(sound) == ({"audio"}, [sound])
    for kind in ("input_video", "video_url"):
        film = {"type": kind, kind: {"url": f"data:video/mp4;base64,{MP4}"}}
        assert look(film) == ({"vision"}, [{"type": kind, kind: {"data": MP4}}])
    assert look(sound, {"type": "image_url", "image_url": URL})[0] == {"audio", "vision"}


@pytest.mark.parametrize(("part", "why"), [
    ({"type": "image_url"}, r"content\[0\].image_url.url` must be a data: URL"),
    ({"type": "image_url", "image_url": {"url": 7}}, "must be a data: URL with base64, not 7"),
    ({"type": "image_url", "image_url": {"url": "http://10.0.0.1/x.png"}}, "nothing is fetched"),
    ({"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}, "nothing is fetched"),
    ({"type": "image_url", "image_url": {"url": "data:image/png;base64,!!!"}}, "not base64"),
    ({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PLAYLIST}"}}, "not an image we know"),
    ({"type": "input_audio", "input_audio": {"url": "http://10.0.0.1/"}}, "not base64"),
    ({"type": "input_audio", "input_audio": {"data": PLAYLIST}}, "no recording we know: send WAV"),
    ({"type": "input_audio", "input_audio": {"data": 5}}, "must be base64, not 5"),
    ({"type": "input_video", "input_video": {"data": PLAYLIST}}, "no recording we know: send MP4"),
    ({"type": "video_url", "video_url": {"url": "file:///etc/passwd"}}, "not base64")])
def test_what_is_refused(part, why):
    with pytest.raises(RequestRefused, match=why):
        look(part)


def test_so_many_and_no_more():
    part = {"type": "image_url", "image_url": URL}
    assert look(*[part] * MOST)[0] == {"vision"}
    with pytest.raises(RequestRefused, match="more than 100 pictures"):
        look(*[part] * (MOST + 1))


def test_completions_show_bare_data():
    for data, senses in ((PICTURE, {"vision"}), (WAV, {"audio"}), (MP4, {"vision"})):
        for prompt in ({"prompt_string": "x", "multimodal_data": [data]}, ["y", {"multimodal_data": [data]}]):
            assert shown({"prompt": prompt}, lambda: None) == (senses, 0)
    for data in (PLAYLIST, "!!!", URL, 5):
        with pytest.raises(RequestRefused, match=r"multimodal_data\[0\]"):
            shown({"prompt": {"multimodal_data": [data]}}, lambda: None)


@pytest.mark.parametrize("odd", [{}, {"messages": 5}, {"messages": [5, {"content": 5}, {"content": [5, {"type": 5}]}]},
                                 {"prompt": [5, {"multimodal_data": 5}]}, asked({"type": "text", "text": "x"})])
def test_what_shows_nothing(odd):
    assert shown(odd, lambda: None) == (set(), 0)


PICTURE_PART = {"type": "image_url", "image_url": {"url": URL, "detail": "low"}}


@pytest.mark.parametrize(("parts", "pictures"), [
    ([PICTURE_PART], 1), ([PICTURE_PART, {"type": "text", "text": '"url"'}, PICTURE_PART], 2),
    ([PICTURE_PART, {"type": "image_url", "image_url": URL}], 0),
    ([PICTURE_PART, {"type": "image_url", "image_url": {"url": URL.replace("png", "gif")}}], 0),
    ([PICTURE_PART, {"type": "image_url", "image_url": {"url": URL + "\n"}}], 0),
    ([PICTURE_PART, {"type": "image_url", "image_url": {"url": PICTURE}}], 0),
    ([PICTURE_PART, {"type": "input_audio", "input_audio": {"data": WAV}}], 0)])
def test_pictures_in_form_are_left_alone(parts, pictures):
    request = asked(*parts)
    before, steps = json.dumps(request), []
    assert shown(request, lambda: steps.append(1))[1] == pictures
    assert len(steps) == 2 * len([part for part in parts if part["type"] != "text"]), "others have their turn"
    assert request["messages"][1]["content"][0]["image_url"]["url"] is URL, "without a copy"
    assert not pictures or (json.dumps(request) == before and holds_only(before.encode(), pictures))


def test_a_request_that_was_translated_is_not_decoded_again():
    request = asked({"type": "image_url", "image_url": {"url": "data:image/png;base64,!!"}})
    assert shown(request, lambda: None, translated=True) == ({"vision"}, 1)


def test_more_than_the_pictures_that_were_looked_at():
    """What one reader of JSON takes and another passes over: repeated keys, in disguise too."""
    body = json.dumps(asked(PICTURE_PART))
    assert holds_only(body.encode(), 1)
    for more in ('"image_url": {"x": 1}, ', '"image_url": "http://10.0.0.1/", ', r'"image\u005Furl": "x", '):
        assert not holds_only(body.replace('"image_url": {', more + '"image_url": {').encode(), 1)
    assert not holds_only(body.replace('"url": ', '"url": "http://10.0.0.1/", "url": ').encode(), 1)
    assert not holds_only(body.replace('"url": ', r'"ur\u006c": "http://10.0.0.1/", "url": ').encode(), 1)
    turns = '"messages": [{"content": [{"type": "image_url", "image_url": {"url": "http://10.0.0.1/"}}]}], '
    assert not holds_only(("{" + turns + body[1:]).encode(), 1)


@pytest.mark.parametrize(("sees", "wanted"), [
    (True, [["a", URL], [URL, "b"], "c"]), (False, ["a\n[x]", [URL, "b"], "c"])])
def test_offers_are_settled(sees, wanted):
    """What is only offered is shown, or words take its place; what a client shows itself stays."""
    def turn(*parts):
        return {"role": "tool", "content": [{"type": "text", "text": part} if isinstance(part, str) else part
                                            for part in parts]}
    own = {"type": "image_url", "image_url": {"url": URL}}
    request = {"messages": [turn("a", {**own, "offered": "[x]"}), turn(own, "b"), {"role": "user", "content": "c"}]}
    assert settle_offers(request, sees)
    assert [[part.get("text") or part["image_url"]["url"] for part in found["content"]]
            if isinstance(found["content"], list) else found["content"] for found in request["messages"]] == wanted
    assert not settle_offers(request, sees) and "offered" not in json.dumps(request)


def test_bytes_tell_whether_to_look():
    tails = []
    assert not may_show(b"x" * (3 * STEP), lambda: tails.append(1)) and len(tails) == 3, "with pauses"
    for part in ({"type": "image_url", "image_url": "x"}, {"type": "input_audio", "input_audio": {"data": WAV}},
                 {"type": "video_url", "video_url": {}}, {"type": "input_video", "input_video": {}}):
        body = json.dumps(asked(part))
        assert may_show(body.encode())
        for letter in "_iu":
            assert may_show(body.replace(letter, f"\\u00{ord(letter):02x}").encode()), "an escape hides nothing"
        for start in range(STEP - len(body), STEP + 2):
            assert may_show(b" " * start + body.encode() + b" " * STEP), "wherever it stands"
    assert may_show(b'{"prompt": {"multimodal_data": []}}')
    assert may_show(b'{"prompt": {"multi\\u006Dodal_data": []}}')
    for text in ("plain", "\xfc\xdf \u4f60", 'they write "image_url" in JSON', "a 'video_url'", "<b>&amp;</b>"):
        assert not may_show(json.dumps(asked({"type": "text", "text": text})).encode())
