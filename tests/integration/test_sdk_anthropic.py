"""Every method of Anthropic's official Python client against the real daemon: it works, or is refused in its own shape.

The list is tests/data/sdk-methods/anthropic-python.txt; a method that it does not have fails.
"""

import inspect
import json
from typing import Literal

import pytest

from tests.support.sdk_methods import fates
from tests.support.shell import Shell
from tests.support.tiny_gguf import tiny_gguf
from tests.support.waiting import until

anthropic = pytest.importorskip("anthropic")
pydantic = pytest.importorskip("pydantic")

MODEL = "solo:f32"
ASKED = {"model": MODEL, "messages": [{"role": "user", "content": "Write about a quiet library."}]}
CITY = {"type": "object", "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}}, "required": ["city"],
        "additionalProperties": False}
FATES = fates("anthropic-python")


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    shell = Shell(tmp_path_factory.mktemp("home"))
    shell.ok("pull", str(tiny_gguf(shell.home / "solo.gguf")), "--name", MODEL)
    shell.start()
    with anthropic.Anthropic(base_url=shell.url, api_key="none", max_retries=0, timeout=60) as client:
        yield client
    shell.stop()


def methods(resource, path=""):
    """Name and method of all that a client or one of its resources offers."""
    for name in dir(type(resource)):
        if name.startswith(("_", "with_")):
            continue
        found = getattr(resource, name)
        if isinstance(found, anthropic._resource.SyncAPIResource):
            yield from methods(found, f"{path}{name}.")
        elif callable(found) and path:
            yield f"{path}{name}", found


def dummies(method):
    """Arguments for whatever a method demands."""
    values = {}
    for name, parameter in inspect.signature(method).parameters.items():
        if parameter.default is inspect.Parameter.empty and parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            told = str(parameter.annotation)
            values[name] = (b"x" if "File" in told else {} if "Dict" in told or told.endswith("Params'") else
                            ["x"] if told.startswith(("Iterable", "List", "SequenceNotStr", "'Iterable", "'List")) else
                            "x")
    return values


class Place(pydantic.BaseModel):
    city: Literal["Paris", "Rome"]


def stream(messages):
    with messages.stream(**ASKED, max_tokens=8) as events:
        text = "".join(events.text_stream)
        assert text == events.get_final_message().content[0].text != ""


def parse(messages):
    parsed = messages.parse(**ASKED, max_tokens=200, output_format=Place).parsed_output
    assert isinstance(parsed, Place)


def batches(resource):
    """The life of a batch, in which every method has its part."""
    batch = resource.create(requests=[{"custom_id": "a", "params": {**ASKED, "max_tokens": 4}}])
    until(lambda: resource.retrieve(batch.id).processing_status == "ended", 60, "its end")
    assert batch.id in [found.id for found in resource.list()]
    assert [line.result.message.usage.output_tokens for line in resource.results(batch.id)] == [4]
    assert resource.cancel(batch.id).request_counts.succeeded == 1
    assert resource.delete(batch.id).id == batch.id


def tool_runner(messages):
    asked = []

    @anthropic.beta_tool
    def weather(city: Literal["Paris", "Rome"]) -> str:
        """The weather of a city."""
        asked.append(city)
        return "fine"

    runner = messages.tool_runner(**ASKED, max_tokens=200, tools=[weather], max_iterations=2,
                                  tool_choice={"type": "tool", "name": "weather"})
    answers = list(runner)
    assert len(answers) == 2 and len(asked) >= 1 and answers[0].stop_reason == "tool_use"


def of(client, name):
    for part in name.split("."):
        client = getattr(client, part)
    return client


def create(messages):
    assert 0 < messages.create(**ASKED, max_tokens=8).usage.output_tokens <= 8


def count_tokens(messages):
    assert messages.count_tokens(**ASKED).input_tokens > 10


DRIVEN = {
    **{f"{place}messages.{name}": (f"{place}messages", drive) for place in ("", "beta.") for name, drive in {
        "create": create, "stream": stream, "parse": parse,
        "count_tokens": count_tokens}.items()},
    **{f"{place}messages.batches.{name}": (f"{place}messages.batches", batches) for place in ("", "beta.")
       for name in ("create", "retrieve", "list", "results", "cancel", "delete")},
    **{f"{place}models.{name}": (f"{place}models", drive) for place in ("", "beta.") for name, drive in {
        "list": lambda models: [model.id for model in models.list()] == [MODEL] or pytest.fail("others"),
        "retrieve": lambda models: models.retrieve(MODEL).max_input_tokens > 0 or pytest.fail("none")}.items()},
    "beta.messages.tool_runner": ("beta.messages", tool_runner),
}
WAYS = list(dict.fromkeys(DRIVEN.values()))
"""Each once, in an order that every run of the suite has."""


def test_every_method_has_a_row():
    plain = anthropic.Anthropic(api_key="none")
    assert {name for name, _ in methods(plain)} == set(FATES)
    assert {name for name, fate in FATES.items() if fate == "works"} == set(DRIVEN)


@pytest.mark.parametrize("number", range(len(WAYS)))
def test_what_works(client, number):
    place, drive = WAYS[number]
    drive(of(client, place))


def test_what_is_refused(client):
    """Each says so in Anthropic's own shape, which the client's own errors show."""
    refused = {name for name, fate in FATES.items() if fate.startswith("refused")}
    wrong = {}
    for name, method in methods(client):
        if name in refused - {"beta.messages.thread"}:
            try:
                told = method(**dummies(method))
                wrong[name] = f"answered: {told!r:.80}"
            except (anthropic.NotFoundError, anthropic.BadRequestError) as error:
                if error.body.get("type") != "error" or not error.body["error"]["message"]:
                    wrong[name] = f"told: {error.body}"
            except Exception as error:
                wrong[name] = f"{type(error).__name__}: {error!s:.90}"
    assert wrong == {}


def test_threads_are_refused(client):
    thread = client.beta.messages.thread(model=MODEL, max_tokens=4)
    thread.append({"role": "user", "content": "hi"})
    with pytest.raises(anthropic.BadRequestError, match="`thread` is not available here"):
        thread.send()


def test_a_forced_tool_is_called_streamed_and_not(client):
    asked = {**ASKED, "max_tokens": 200, "tools": [{"name": "weather", "input_schema": CITY}],
             "tool_choice": {"type": "tool", "name": "weather"}}
    (block,) = client.messages.create(**asked).content
    assert (block.type, block.name) == ("tool_use", "weather") and block.input["city"] in ("Paris", "Rome")
    with client.messages.stream(**asked) as events:
        (block,) = events.get_final_message().content
    assert block.input["city"] in ("Paris", "Rome")


def test_a_stop_sequence_is_named(client):
    """FC-19: by the real engine, which says so only when it is asked."""
    stops = list("abcdefghijklmnopqrstuvwxyz")
    asked = {**ASKED, "max_tokens": 400, "stop_sequences": stops}
    with client.messages.stream(**asked) as events:
        streamed = events.get_final_message()
    for answer in (client.messages.create(**asked), streamed):
        assert answer.stop_reason == "stop_sequence" and answer.stop_sequence in stops
        assert not any(letter in block.text for block in answer.content for letter in stops)
    asked["stop_sequences"] = ["no model says this"]
    answer = client.messages.create(**{**asked, "max_tokens": 3})
    assert (answer.stop_reason, answer.stop_sequence) == ("max_tokens", None)


def test_a_schema_binds(client):
    answer = client.messages.create(**ASKED, max_tokens=200, output_config={"format": {
        "type": "json_schema", "schema": CITY}})
    assert json.loads(answer.content[0].text)["city"] in ("Paris", "Rome")
