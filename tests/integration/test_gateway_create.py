"""Making models at the gateway: what a client's API key may make, what is asked of the supervisor, and bad bodies."""

import json

import pytest

from tests.support.fake_supervisor import eventually
from tests.support.gateway_under_test import MESSAGES, MODEL, GatewayUnderTest, is_error_of
from tests.support.scripted_child import hello_world

OTHER = "duo:q8_0"
KEYS = [{"name": "ann", "key": "sk-ann", "models": ["SOLO", "mine"]}, {"name": "bob", "key": "sk-bob"}]
ANN, BOB = {"Authorization": "Bearer sk-ann"}, {"Authorization": "Bearer sk-bob"}
DIGEST = "sha256:" + "a" * 64


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with GatewayUnderTest(tmp_path_factory.mktemp("made"), {"keys": KEYS}, installed=(MODEL, OTHER)) as gateway:
        gateway.supervisor.aliases["gpt"] = OTHER
        gateway.supervisor.push()
        yield gateway


@pytest.fixture
def gateway(shared):
    return shared.fresh()


def asked(gateway, kind):
    return gateway.supervisor.notes(kind)


@pytest.mark.parametrize(("path", "body", "headers", "status"), [
    ("/api/create", {"model": "mine", "from": "solo"}, {}, 401),
    ("/api/create", {"model": "mine", "from": "solo"}, ANN, 200),
    ("/api/create", {"model": "mine", "from": OTHER}, ANN, 403),
    ("/api/create", {"model": "yours", "from": "solo"}, ANN, 403),
    ("/api/create", {"model": "yours", "from": OTHER}, BOB, 200),
    ("/api/copy", {"source": "solo", "destination": "mine"}, ANN, 200),
    ("/api/copy", {"source": "duo", "destination": "mine"}, ANN, 403),
    ("/api/copy", {"source": "solo", "destination": "duo"}, ANN, 403),
    ("/api/copy", {"source": "solo"}, BOB, 400),
    ("/api/copy", {"source": "solo", "destination": "../x"}, BOB, 400),
    ("/api/push", {"model": "duo"}, ANN, 403),
])
def test_api_keys_hold_for_both_names(gateway, path, body, headers, status):
    answer = gateway.request("POST", path, body, headers)
    assert answer.status == status, answer
    kind = path.removeprefix("/api/")
    assert len(asked(gateway, kind)) == (status == 200)
    if status != 200:
        is_error_of("ollama", answer)


def test_what_the_supervisor_is_asked(gateway):
    body = {"name": "x", "modelfile": f"FROM @{DIGEST}\nSYSTEM hi\nPARAMETER top_k 3\nPARAMETER num_gpu 1",
            "parameters": {"top_k": 4.0, "stop": "s"}, "license": ["a", "b"], "parser": "p", "stream": False}
    answer = gateway.request("POST", "/api/create", body, BOB)
    assert answer.json()["status"] == "success" and len(answer.json()["warnings"]) == 2
    message = asked(gateway, "create")[0]
    assert {key: message[key] for key in message if key not in ("kind", "id")} == {
        "name": "x", "from": None, "files": {"0.gguf": DIGEST}, "adapters": {}, "license": "a\nb",
        "preset": {"system": "hi", "template": "", "messages": [], "parameters": {"top_k": 4, "stop": ["s"]}}}


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"model": 7}', b'{"model": "x", "files": []}',
                                  b'{"model": "x", "from": {}}', b'{"model": "x", "messages": "hi"}',
                                  b'{"model": "x", "license": [7]}', b'{"model": "x", "parameters": "a"}',
                                  b'{"model": "x", "stream": "yes"}', b'{"model": "x\\u0000", "from": "solo"}',
                                  json.dumps({"model": "x", "from": "solo", "adapters": {"a": None}}).encode()])
def test_bodies_of_the_wrong_kind(gateway, body):
    answer = gateway.request("POST", "/api/create", body, BOB)
    assert answer.status == 400, answer
    is_error_of("ollama", answer)
    assert asked(gateway, "create") == []


def test_an_alias_is_removed_and_its_model_is_not(gateway):
    gateway.supervisor.installed.append("gpt")  # lets the stand-in remove something of that name
    try:
        assert gateway.request("DELETE", "/api/delete", {"model": "GPT"}, BOB).status == 200
    finally:
        gateway.supervisor.installed[:] = [MODEL, OTHER]
        gateway.supervisor.push()
    assert [message["model"] for message in asked(gateway, "remove")] == ["gpt"]


def test_blobs_need_a_key_too(gateway):
    assert gateway.request("POST", f"/api/blobs/{DIGEST}", b"x").status == 401
    assert gateway.request("HEAD", f"/api/blobs/{DIGEST}").status == 401
    assert asked(gateway, "blob") == []


def test_a_file_that_is_here_already_is_read_and_dropped(gateway):
    gateway.supervisor.blobs.add("a" * 64)
    assert gateway.request("HEAD", f"/api/blobs/{DIGEST}", headers=BOB).status == 200
    assert gateway.request("POST", f"/api/blobs/{DIGEST}", b"x" * 3_000_000, BOB).status == 200
    assert [message["token"] for message in asked(gateway, "blob")] == [None, None]
    gateway.supervisor.blobs.clear()


def test_chunks_are_taken_and_bad_ones_leave_nothing(gateway):
    incoming = gateway.supervisor.paths.incoming
    head = (f"POST /api/blobs/{DIGEST} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer sk-bob\r\n"
            f"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n").encode()
    assert gateway.raw(head + b"3\r\nabc\r\n0\r\n\r\n").startswith(b"HTTP/1.1 201 ")
    assert len(asked(gateway, "blob")[-1]["token"]) == 32
    assert gateway.raw(head + b"3\r\nabc\r\nzz\r\n").startswith(b"HTTP/1.1 400 ")
    eventually(lambda: list(incoming.iterdir()) == [], what="an empty folder")


def test_a_gone_folder_is_told(gateway):
    incoming = gateway.supervisor.paths.incoming
    incoming.rmdir()
    try:
        answer = gateway.request("POST", f"/api/blobs/{DIGEST}", b"abc", BOB)
        assert answer.status == 507 and "No such file" in is_error_of("ollama", answer)
    finally:
        incoming.mkdir()
    assert [path for path in gateway.supervisor.paths.models.iterdir() if path.name.startswith(".")] == []


def test_defaults_reach_the_child_only_of_the_model_that_has_them(gateway):
    body = json.dumps({"model": MODEL, "messages": MESSAGES}).encode()
    gateway.request("POST", "/v1/chat/completions", body, BOB)
    assert gateway.child.received[-1].body == body, "byte for byte"
    gateway.supervisor.facts[MODEL] = {"defaults": {"system": "S", "parameters": {"top_k": 3}}}
    gateway.supervisor.push()
    gateway.child.play = hello_world

    def told():
        gateway.request("POST", "/v1/chat/completions", body, BOB)
        return json.loads(gateway.child.received[-1].body) == {
            "model": MODEL, "messages": [{"role": "system", "content": "S"}, *MESSAGES], "top_k": 3}

    eventually(told, what="the new snapshot")
    gateway.supervisor.facts.clear()
    gateway.supervisor.push()
