"""[[alias]] through the running gateway: one model under several names, each with a preset of its own."""

import json

import pytest

from tests.support.fake_supervisor import eventually
from tests.support.gateway_under_test import ASK, MODEL, GatewayUnderTest, is_error_of

ALIASES = [{"name": "Brief", "model": "solo", "strip": ["seed"],
            "set": {"system": "Be brief.", "temperature": 0.25, "chat_template_kwargs": {"enable_thinking": False}}},
           {"name": "plain", "model": MODEL}, {"name": "hollow", "model": "gone"}]
KEYS = [{"name": "all", "key": "sk-all"}, {"name": "model", "key": "sk-model", "models": ["solo"]},
        {"name": "alias", "key": "sk-alias", "models": ["BRIEF"]}]
NAMES = ["brief", "plain", MODEL]


def key(name):
    return {"Authorization": f"Bearer sk-{name}"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with GatewayUnderTest(tmp_path_factory.mktemp("aliases"), {"alias": ALIASES, "keys": KEYS}) as gateway:
        yield gateway


@pytest.fixture
def gateway(shared):
    return shared.fresh()


def asked(gateway):
    return json.loads(gateway.child.received[-1].body)


@pytest.mark.parametrize("dialect", ASK)
@pytest.mark.parametrize("stream", [False, True])
def test_the_child_gets_the_preset_and_nobody_loads_anything(gateway, dialect, stream):
    for name in ("brief", "BRIEF:latest"):
        answer = gateway.ask(dialect, key("all"), model=name, stream=stream)
        assert answer.status == 200 and b"Hello" in answer.body
        assert (answer.headers["x-blazar-alias"], answer.headers["x-blazar-model"]) == ("brief", MODEL)
        sent = asked(gateway)
        assert sent["messages"][0] == {"role": "system", "content": "Be brief."} and len(sent["messages"]) == 2
        assert sent["temperature"] == 0.25 and sent["chat_template_kwargs"] == {"enable_thinking": False}
    answer = gateway.ask(dialect, key("all"), model=MODEL, stream=stream)
    assert "x-blazar-alias" not in answer.headers
    assert len(asked(gateway)["messages"]) == 1 and "temperature" not in asked(gateway)
    assert gateway.supervisor.notes("ensure_ready") == []


def test_the_request_wins_but_for_what_is_stripped(gateway):
    gateway.ask("openai", key("all"), model="brief", temperature=0.75, seed=7)
    assert asked(gateway)["temperature"] == 0.75 and "seed" not in asked(gateway)
    gateway.ask("ollama", key("all"), model="brief", options={"temperature": 0.75, "seed": 7}, stream=False)
    assert asked(gateway)["temperature"] == 0.75 and "seed" not in asked(gateway)


def test_a_plain_alias_leaves_the_body_alone(gateway):
    body = b'{"model":  "plain","messages":[{"role":"user","content":"hi"}]}'
    assert gateway.request("POST", "/v1/chat/completions", body, key("all")).status == 200
    assert gateway.child.received[-1].body == body


@pytest.mark.parametrize("dialect", ASK)
def test_keys_hold_for_the_model_with_its_aliases_or_for_one_alias(gateway, dialect):
    for name, status in (("brief", 200), ("plain", 200), (MODEL, 200), ("solo", 200)):
        assert gateway.ask(dialect, key("model"), model=name).status == status
    for name, status in (("brief", 200), ("plain", 403), (MODEL, 403), ("solo", 403)):
        answer = gateway.ask(dialect, key("alias"), model=name)
        assert answer.status == status, name
        if status == 403:
            assert "BRIEF" in is_error_of(dialect, answer)


@pytest.mark.parametrize("dialect", ASK)
def test_an_alias_without_its_model_is_a_404_that_says_why(gateway, dialect):
    answer = gateway.ask(dialect, key("all"), model="hollow")
    assert answer.status == 404 and "[[alias]] of the model 'gone'" in is_error_of(dialect, answer)


def test_they_are_listed_as_models(gateway):
    listed = gateway.request("GET", "/v1/models", headers=key("all")).json()["data"]
    assert [(model["id"], model.get("parent"), model["status"]) for model in listed] == [
        ("brief", MODEL, "loaded"), ("plain", MODEL, "loaded"), (MODEL, None, "loaded")]
    tags = gateway.request("GET", "/api/tags", headers=key("all")).json()["models"]
    assert [(model["name"], model["details"]["parent_model"]) for model in tags] == [
        ("brief", MODEL), ("plain", MODEL), (MODEL, "")]
    page = gateway.request("GET", "/v1/models", headers={**key("all"), "anthropic-version": "2023-06-01"}).json()
    assert [model["id"] for model in page["data"]] == NAMES
    assert [model["id"] for model in gateway.request("GET", "/v1/models", headers=key("alias")).json()["data"]] == [
        "brief"]
    one = gateway.request("GET", "/v1/models/Brief", headers=key("alias")).json()
    assert (one["id"], one["parent"], one["context_length"]) == ("brief", MODEL, 2048)
    assert gateway.request("GET", "/v1/models/plain", headers=key("alias")).status == 403


def test_show_tells_of_the_alias(gateway):
    shown = gateway.request("POST", "/api/show", {"model": "brief"}, key("all")).json()
    assert shown["system"] == "Be brief." and "temperature" in shown["parameters"]
    assert shown["details"]["parent_model"] == MODEL


def test_no_request_changes_them(gateway):
    for method, path, body in (("DELETE", "/api/delete", {"model": "brief"}),
                               ("POST", "/api/copy", {"source": MODEL, "destination": "brief"}),
                               ("POST", "/api/create", {"model": "Brief", "from": MODEL})):
        answer = gateway.request(method, path, body, key("all"))
        assert answer.status == 409 and "[[alias]] of the configuration" in is_error_of("ollama", answer)
    assert gateway.supervisor.installed == [MODEL] and not gateway.supervisor.notes("copy")


def test_the_audit_line_names_both(gateway):
    gateway.ask("openai", {**key("all"), "X-Request-Id": "of-an-alias"}, model="BRIEF")
    lines = eventually(lambda: [line for line in gateway.supervisor.paths.audit_log.read_text().splitlines()
                                if "of-an-alias" in line])
    line = json.loads(lines[0])
    assert (line["asked"], line["alias"], line["model"]) == ("BRIEF", "brief", MODEL)
