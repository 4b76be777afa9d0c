"""A tiny model that sees, with the real engine: pictures in every dialect, one respawn, and what memory says of it."""

import base64
import http.client
import json
import threading

import pytest

from tests.support.shell import Shell
from tests.support.tiny_gguf import tiny_gguf
from tests.support.tiny_mmproj import png, tiny_mmproj

SEES, BLIND = "sees:f32", "blind:f32"
RED, BLUE = (base64.b64encode(png(*colour)).decode() for colour in ((255, 0, 0), (0, 0, 255)))

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    shell = Shell(tmp_path_factory.mktemp("home"))
    tiny_gguf(shell.home / "m.gguf")
    tiny_mmproj(shell.home / "mmproj.gguf")
    (shell.home / "Modelfile").write_text("FROM ./m.gguf\nFROM ./mmproj.gguf\n")
    shell.ok("pull", str(tiny_gguf(shell.home / "blind.gguf", seed=3)), "--name", BLIND)
    shell.start()
    shell.ok("create", SEES, "-f", str(shell.home / "Modelfile"))
    yield shell
    shell.stop()


def connection(daemon):
    return http.client.HTTPConnection(daemon.url.removeprefix("http://"), timeout=100)


def post(daemon, path, body):
    link = connection(daemon)
    try:
        link.request("POST", path, json.dumps(body))
        answer = link.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        link.close()


def chat(daemon, *pictures, model=SEES, **more):
    """Status, text and tokens of the prompt."""
    parts = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture}"}} for picture in pictures]
    content = [{"type": "text", "text": "What is it?"}, *parts] if parts else "What is it?"
    status, answer = post(daemon, "/v1/chat/completions", {
        "model": model, "messages": [{"role": "user", "content": content}], "temperature": 0, "max_tokens": 8, **more})
    assert status == 200, answer
    return answer["choices"][0]["message"]["content"], answer["usage"]["prompt_tokens"]


def explained(daemon, model=SEES):
    return post(daemon, "/api/explain", {"model": model})[1]


def children(daemon):
    """What each start of the model's child has logged, by its pid."""
    log = (daemon.home / ".local/share/blazar/run/daemon.log").read_text()
    return [line for line in log.splitlines() if f"{SEES}#" in line and "started pid" in line]


def test_a_stream_of_text_ends_before_the_model_sees(daemon):
    """The first picture costs one respawn, before which what runs ends; the picture is then answered."""
    _, plain = chat(daemon)
    assert "--mmproj" not in explained(daemon)["argv"] and len(children(daemon)) == 1
    link = connection(daemon)
    link.request("POST", "/v1/chat/completions", json.dumps({
        "model": SEES, "messages": [{"role": "user", "content": "x"}], "stream": True, "max_tokens": 1500,
        "ignore_eos": True}))
    stream = link.getresponse()
    assert stream.read(20).startswith(b"data: ")
    got = []
    asker = threading.Thread(target=lambda: got.append(chat(daemon, RED)))
    asker.start()
    whole = stream.read()
    assert whole.endswith(b"data: [DONE]\n\n") and b'"finish_reason":"length"' in whole, "nothing was cut"
    asker.join(100)
    ((red, tokens),) = got
    assert tokens == plain + 4 and len(children(daemon)) == 2
    log = (daemon.home / ".local/share/blazar/run/daemon.log").read_text()
    assert "tokens of its conversations again" in log and "not used and go" not in log, "what it has read goes over"
    told = explained(daemon)
    assert "--mmproj" in told["argv"] and told["plan"]["parts"][0]["beside"] > 100_000
    assert chat(daemon, RED)[0] == red and chat(daemon, BLUE)[0] != red and chat(daemon)[1] == plain
    assert len(children(daemon)) == 2


@pytest.mark.parametrize(("path", "body", "tokens"), [
    ("/api/chat", {"stream": False, "options": {"num_predict": 4},
                   "messages": [{"role": "user", "content": "a", "images": [RED, BLUE]}]}, "prompt_eval_count"),
    ("/api/generate", {"stream": False, "options": {"num_predict": 4}, "prompt": "a", "images": [RED]},
     "prompt_eval_count"),
    ("/v1/messages", {"max_tokens": 4, "messages": [{"role": "user", "content": [{"type": "image", "source": {
        "type": "base64", "media_type": "image/png", "data": RED}}]}]}, "input_tokens"),
    ("/v1/responses", {"max_output_tokens": 4, "store": False, "input": [{"role": "user", "content": [
        {"type": "input_image", "image_url": f"data:image/png;base64,{RED}"}]}]}, "input_tokens")])
def test_every_dialect(daemon, path, body, tokens):
    status, answer = post(daemon, path, {"model": SEES, **body})
    assert status == 200, answer
    assert answer.get("usage", answer)[tokens] > 10
    status, answer = post(daemon, path, {"model": BLIND, **body})
    assert status == 400 and "no projector for pictures" in json.dumps(answer)
    loaded = json.loads(daemon("ps", "--json").stdout)
    assert BLIND not in json.dumps(loaded), "it was not loaded for that"


def test_capabilities_say_so(daemon):
    assert post(daemon, "/api/show", {"model": SEES})[1]["capabilities"] == ["completion", "vision"]
    blind = post(daemon, "/api/show", {"model": BLIND})[1]
    assert blind["capabilities"] == ["completion"] and "context_length" not in blind
    chat(daemon, model=BLIND)
    assert post(daemon, "/api/show", {"model": BLIND})[1]["context_length"] == 4096


def test_a_broken_picture_is_the_clients_fault(daemon):
    """Its head is that of a picture, and the rest is noise: only the engine can tell."""
    broken = base64.b64encode(base64.b64decode(RED)[:40] + b"noise").decode()
    status, answer = post(daemon, "/api/chat", {"model": SEES, "stream": False,
                                                "messages": [{"role": "user", "content": "a", "images": [broken]}]})
    assert status == 400 and "video_ffmpeg_dir" in answer["error"], answer
    webp = {"type": "image_url", "image_url": {"url": "data:image/webp;base64,UklGRiIAAABXRUJQVlA4IBYAAAAwAQ=="}}
    status, answer = post(daemon, "/v1/chat/completions", {"model": SEES, "messages": [
        {"role": "user", "content": [webp]}]})
    assert (status, answer["error"]["code"]) == (400, "media-unread"), answer
    assert chat(daemon, RED)[1] > 10


def test_skip_and_attach(daemon):
    """Stands last: it leaves the daemon with other settings."""
    config = daemon.config.read_text()
    for policy, able, refused in (("false", ["completion"], True), ('"attach"', ["completion", "vision"], False)):
        daemon.stop()
        daemon.config.write_text(f"{config}mmproj_policy = {policy}\n")
        daemon.start()
        assert post(daemon, "/api/show", {"model": SEES})[1]["capabilities"] == able
        chat(daemon)
        assert ("--mmproj" in explained(daemon)["argv"]) is not refused
        status, answer = post(daemon, "/api/generate", {"model": SEES, "prompt": "a", "images": [RED],
                                                        "stream": False, "options": {"num_predict": 2}})
        assert (status == 400) is refused, answer
        assert not refused or 'mmproj_policy = \\"skip\\"` leaves its projector out' in json.dumps(answer)
