"""What clients show a model, through the gateway (FC-11): each dialect's forms, its refusals, and who is asked."""

import base64
import itertools
import json
import socket

import pytest

from tests.support.fake_supervisor import endpoint, eventually
from tests.support.gateway_under_test import MODEL, GatewayUnderTest, is_error_of
from tests.support.tiny_mmproj import png

SEES, BLINDED = "sees:q4_0", "blinded:q4_0"
PICTURE = base64.b64encode(png(9, 8, 7, side=2)).decode()
URL = f"data:image/png;base64,{PICTURE}"


def openai(*parts):
    return "/v1/chat/completions", {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, *parts]}]}


def ollama(*images):
    return "/api/chat", {"messages": [{"role": "user", "content": "a", "images": list(images)}]}


def anthropic(*sources):
    blocks = [{"type": "text", "text": "a"}, *({"type": "image", "source": source} for source in sources)]
    return "/v1/messages", {"max_tokens": 9, "messages": [{"role": "user", "content": blocks}]}


def responses(*urls):
    parts = [{"type": "input_text", "text": "a"}, *({"type": "input_image", "image_url": url} for url in urls)]
    return "/v1/responses", {"input": [{"role": "user", "content": parts}]}


SHOWN = {
    "openai": openai({"type": "image_url", "image_url": {"url": URL}}),
    "openai, a string": openai({"type": "image_url", "image_url": URL}),
    "ollama": ollama(PICTURE),
    "ollama, a data URL": ollama(URL),
    "ollama, generate": ("/api/generate", {"prompt": "a", "images": [PICTURE]}),
    "anthropic": anthropic({"type": "base64", "media_type": "image/png", "data": PICTURE}),
    "responses": responses(URL),
}
NUMBERS = itertools.count(1001)
DIALECT = {"/v1/chat/completions": "openai", "/api/chat": "ollama", "/api/generate": "ollama",
           "/v1/messages": "anthropic", "/v1/responses": "responses"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    gateway = GatewayUnderTest(tmp_path_factory.mktemp("vision"), installed=(MODEL, SEES, BLINDED))
    gateway.supervisor.facts[SEES] = {"capabilities": ["completion", "vision"]}
    gateway.supervisor.facts[BLINDED] = {"blind": 'mmproj_policy = "skip"'}
    gateway.supervisor.loadable[SEES] = endpoint(SEES, gateway.child.address, 2, projector=True)
    with gateway:
        yield gateway


@pytest.fixture
def gateway(shared):
    ctx = next(NUMBERS)
    shared.supervisor.loaded[SEES] = endpoint(SEES, shared.child.address, ctx=ctx)
    shared.supervisor.push()
    eventually(lambda: shared.request("GET", f"/v1/models/{SEES}").json()["context_length"] == ctx)
    return shared.fresh()


def ask(gateway, asked, model=SEES):
    path, body = asked
    return gateway.request("POST", path, {"model": model, "stream": False, **body})


def loads(gateway):
    return [message for message in gateway.supervisor.heard if message["kind"] == "ensure_ready"]


@pytest.mark.parametrize("form", SHOWN)
def test_one_data_url_reaches_a_child_with_its_projector(gateway, form):
    asked_before = len(loads(gateway))
    for _ in range(2):
        answer = ask(gateway, SHOWN[form])
        assert answer.status == 200, answer
    turn = json.loads(gateway.child.received[-1].body)["messages"][-1]
    assert turn["content"] == [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": URL}}]
    assert [message["shown"] for message in loads(gateway)[asked_before:]] == [True], "the second finds it there"


def test_pictures_in_form_go_on_as_the_bytes_that_came(gateway):
    parts = [{"type": "image_url", "image_url": {"detail": "low", "url": URL}}] * 2
    body = json.dumps({"messages": [{"content": parts, "role": "user"}], "model": SEES, "x": 1.50}, indent=3).encode()
    assert gateway.request("POST", "/v1/chat/completions", body).status == 200
    assert gateway.child.received[-1].body == body
    odd = body.replace(b"image/png", b"image/gif", 1)
    assert gateway.request("POST", "/v1/chat/completions", odd).status == 200
    assert json.loads(gateway.child.received[-1].body) == json.loads(body), "one that is not is written anew"


@pytest.mark.parametrize("hidden", [
    '"image_url": {"url": "http://10.0.0.1/"}, ', r'"image\u005furl": {"url": "http://10.0.0.1/"}, '])
def test_of_a_key_that_comes_twice_the_child_sees_what_was_looked_at(gateway, hidden):
    path, body = SHOWN["openai"]
    sent = json.dumps({"model": SEES, **body}).replace('"image_url": {', hidden + '"image_url": {').encode()
    assert b"10.0.0.1" in sent and gateway.request("POST", path, sent).status == 200
    assert b"10.0.0.1" not in gateway.child.received[-1].body and URL.encode() in gateway.child.received[-1].body


def test_text_is_asked_of_the_child_that_is_there(gateway):
    asked_before = len(loads(gateway))
    body = {"model": SEES, "messages": [{"role": "user", "content": "no \"image_url\" at all"}]}
    assert gateway.request("POST", "/v1/chat/completions", body).status == 200
    assert len(loads(gateway)) == asked_before
    assert json.loads(gateway.child.received[-1].body) == body


@pytest.mark.parametrize("form", SHOWN)
@pytest.mark.parametrize(("model", "why"), [(MODEL, "it has no projector for pictures"),
                                            (BLINDED, 'mmproj_policy = "skip"` leaves its projector out')])
def test_a_model_that_cannot_see_is_not_loaded_for_it(gateway, form, model, why):
    asked_before = len(loads(gateway)), len(gateway.child.received)
    answer = ask(gateway, SHOWN[form], model)
    assert answer.status == 400 and why in is_error_of(DIALECT[SHOWN[form][0]], answer)
    assert (len(loads(gateway)), len(gateway.child.received)) == asked_before


@pytest.mark.parametrize(("asked", "why"), [
    (openai({"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}), "nothing is fetched"),
    (openai({"type": "image_url", "image_url": {"url": "file:///etc/hostname"}}), "nothing is fetched"),
    (openai({"type": "image_url", "image_url": {"url": "data:image/png;base64,!!"}}), "not base64"),
    (openai(*[{"type": "image_url", "image_url": {"url": URL}}] * 101), "more than 100"),
    (openai({"type": "input_audio", "input_audio": {"data": "UklGRgAAAABXQVZF", "format": "wav"}}), "for sound"),
    (ollama("!!!"), "not base64"), (ollama("aGVsbG8="), "not an image we know"),
    (ollama(*[PICTURE] * 101), "more than 100"),
    (anthropic({"type": "url", "url": "http://169.254.169.254/"}), "fetches nothing"),
    (anthropic({"type": "base64", "media_type": "image/png", "data": "!!"}), "not base64"),
    (responses("http://127.0.0.1/x.png"), "nothing is fetched"), (responses("data:image/png;base64,"), "not base64")])
def test_what_is_refused(gateway, asked, why):
    before = len(gateway.child.received)
    answer = ask(gateway, asked)
    assert answer.status == 400 and why in is_error_of(DIALECT[asked[0]], answer)
    assert len(gateway.child.received) == before


@pytest.mark.parametrize("form", ["openai", "openai, a string", "ollama", "anthropic", "responses"])
def test_no_place_that_a_client_names_is_visited(gateway, form):
    with socket.create_server(("127.0.0.1", 0)) as place:
        place.setblocking(False)
        url = f"http://127.0.0.1:{place.getsockname()[1]}/x.png"
        asked = {"openai": openai({"type": "image_url", "image_url": {"url": url}}),
                 "openai, a string": openai({"type": "image_url", "image_url": url}), "ollama": ollama(url),
                 "anthropic": anthropic({"type": "url", "url": url}), "responses": responses(url)}[form]
        assert ask(gateway, asked).status == 400
        with pytest.raises(BlockingIOError):
            place.accept()


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
def test_text_stays_before_and_after_the_picture(gateway, dialect):
    path, body = SHOWN[dialect]
    body = json.loads(json.dumps(body))
    body["messages"][0]["content"].append({"type": "text", "text": "b"})
    assert ask(gateway, (path, body)).status == 200
    content = json.loads(gateway.child.received[-1].body)["messages"][-1]["content"]
    assert [part.get("text", part["type"]) for part in content] == ["a", "image_url", "b"]


def test_an_escape_hides_no_address(gateway):
    path, body = openai({"type": "image_url", "image_url": {"url": "http://169.254.169.254/"}})
    before = len(gateway.child.received)
    hidden = json.dumps({"model": SEES, **body}).replace("image_url", r"image\u005furl").encode()
    answer = gateway.request("POST", path, hidden)
    assert answer.status == 400 and "nothing is fetched" in is_error_of("openai", answer)
    assert len(gateway.child.received) == before
