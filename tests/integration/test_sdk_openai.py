"""Every public method of OpenAI's own clients: each has a row that says whether it works here, and what works is driven
against a running Blazar, in Python and in JavaScript."""

import base64
import hashlib
import hmac
import io
import json
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.needs import need_javascript_clients
from tests.support.shell import Shell
from tests.support.tiny_gguf import tiny_gguf
from tests.support.waiting import until

openai = pytest.importorskip("openai")
pydantic = pytest.importorskip("pydantic")

ROWS = Path(__file__).parent.parent / "data" / "sdk"
SCRIPTS = Path(__file__).parent / "npm"
CHAT, WORDS = "solo:f32", "words:f32"
MESSAGES = [{"role": "user", "content": "Write about a quiet library."}]
ASK = {"model": CHAT, "messages": MESSAGES, "max_tokens": 4}
RESPOND = {"model": CHAT, "input": "Write about a quiet library.", "max_output_tokens": 4}
BATCH = {"endpoint": "/v1/chat/completions", "completion_window": "24h"}
LINE = json.dumps({"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": ASK}).encode()
SIGNED = b'{"id": "evt_1", "type": "response.completed", "data": {"id": "resp_1"}, "created_at": 1, "object": "event"}'


class Verdict(pydantic.BaseModel):
    good: bool


def rows(client):
    """Whether each method works, and why not."""
    found = {}
    for line in (ROWS / f"openai-{client}.tsv").read_text().splitlines():
        method, verdict, *why = line.split("\t")
        assert verdict == "works" or (verdict == "refused" and why), line
        found[method] = verdict
    return found


def working(client):
    return {method for method, verdict in rows(client).items() if verdict == "works"}


def methods(resource, path=()):
    from openai._resource import SyncAPIResource
    for name in dir(type(resource)):
        if not name.startswith(("_", "with_")):
            value = getattr(resource, name)
            if isinstance(value, SyncAPIResource):
                yield from methods(value, (*path, name))
            elif callable(value) and path:
                yield ".".join((*path, name))


def test_every_method_has_a_row_and_what_works_is_driven():
    with openai.OpenAI(api_key="none") as sdk:
        known = set(methods(sdk))
    assert known - set(rows("python")) == set()
    assert working("python") & known == set(DRIVEN) & known


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    shell = Shell(tmp_path_factory.mktemp("home"))
    for seed, name in enumerate((CHAT, WORDS)):
        shell.ok("pull", str(tiny_gguf(shell.home / f"{seed}.gguf", seed=seed, pooling=seed)), "--name", name)
    shell.start()
    yield shell
    shell.stop()


@pytest.fixture(scope="module")
def sdk(daemon):
    with openai.OpenAI(base_url=f"{daemon.url}/v1", api_key="none", max_retries=0, timeout=60,
                       webhook_secret="whsec_c2VjcmV0") as client:
        yield client


def stored(sdk):
    return sdk.chat.completions.create(**ASK, store=True).id


def responded(sdk):
    return sdk.responses.create(**RESPOND).id


def uploaded(sdk):
    return sdk.files.create(file=("a.jsonl", io.BytesIO(LINE)), purpose="batch").id


def batched(sdk):
    return sdk.batches.create(input_file_id=uploaded(sdk), **BATCH).id


def done(sdk, id):
    return until(lambda: (found := sdk.batches.retrieve(id)).status == "completed" and found, 60, "the batch")


def text_of_stream(sdk):
    with sdk.chat.completions.stream(model=CHAT, messages=MESSAGES, response_format=Verdict) as stream:
        return stream.get_final_completion().choices[0].message.content


def text_of_response_stream(sdk):
    with sdk.responses.stream(model=CHAT, input="a", text_format=Verdict) as stream:
        return stream.get_final_response().output_text


def cancelled(sdk):
    stream = sdk.responses.create(**{**RESPOND, "max_output_tokens": 3000}, stream=True)
    id = next(iter(stream)).response.id
    try:
        return sdk.responses.cancel(id).status in ("cancelled", "completed", "incomplete")
    except openai.BadRequestError as error:  # the tiny model may have ended on its own, just now or before
        return "has ended" in str(error)


def cancelled_batch(sdk):
    text = b"\n".join(LINE.replace(b'"a"', b'"%d"' % number) for number in range(500))
    file = sdk.files.create(file=("a.jsonl", io.BytesIO(text)), purpose="batch").id
    return sdk.batches.cancel(sdk.batches.create(input_file_id=file, **BATCH).id).status == "cancelling"


def signature():
    now = str(int(time.time()))
    made = hmac.new(b"secret", b".".join((b"wh_1", now.encode(), SIGNED)), hashlib.sha256).digest()
    return {"webhook-id": "wh_1", "webhook-timestamp": now,
            "webhook-signature": f"v1,{base64.b64encode(made).decode()}"}


DRIVEN = {
    "batches.create": lambda sdk: sdk.batches.retrieve(batched(sdk)).request_counts is not None,
    "batches.retrieve": lambda sdk: done(sdk, batched(sdk)).output_file_id,
    "batches.list": lambda sdk: batched(sdk) in [one.id for one in sdk.batches.list(limit=5)],
    "batches.cancel": cancelled_batch,
    "chat.completions.create": lambda sdk: sdk.chat.completions.create(**ASK).usage.prompt_tokens > 0,
    "chat.completions.parse": lambda sdk: sdk.chat.completions.parse(
        model=CHAT, messages=MESSAGES, response_format=Verdict).choices[0].message.parsed.good in (True, False),
    "chat.completions.stream": text_of_stream,
    "chat.completions.list": lambda sdk: stored(sdk) in [one.id for one in sdk.chat.completions.list(order="desc")],
    "chat.completions.retrieve": lambda sdk: sdk.chat.completions.retrieve(id := stored(sdk)).id == id,
    "chat.completions.update": lambda sdk: sdk.chat.completions.update(
        stored(sdk), metadata={"a": "b"}).metadata == {"a": "b"},
    "chat.completions.messages.list": lambda sdk: sdk.chat.completions.messages.list(
        stored(sdk)).data[0].content == MESSAGES[0]["content"],
    "chat.completions.delete": lambda sdk: sdk.chat.completions.delete(stored(sdk)).deleted,
    "completions.create": lambda sdk: sdk.completions.create(
        model=CHAT, prompt="a", max_tokens=4).usage.prompt_tokens > 0,
    "embeddings.create": lambda sdk: len(sdk.embeddings.create(model=WORDS, input="a").data[0].embedding) == 64,
    "files.create": uploaded,
    "files.retrieve": lambda sdk: sdk.files.retrieve(id := uploaded(sdk)).id == id,
    "files.list": lambda sdk: uploaded(sdk) in [one.id for one in sdk.files.list(purpose="batch")],
    "files.content": lambda sdk: sdk.files.content(uploaded(sdk)).read() == LINE,
    "files.retrieve_content": lambda sdk: sdk.files.retrieve_content(uploaded(sdk)) == LINE.decode(),
    "files.wait_for_processing": lambda sdk: sdk.files.wait_for_processing(uploaded(sdk)).status == "processed",
    "files.delete": lambda sdk: sdk.files.delete(uploaded(sdk)).deleted,
    "models.list": lambda sdk: [one.id for one in sdk.models.list()] == [CHAT, WORDS],
    "models.retrieve": lambda sdk: sdk.models.retrieve(CHAT).id == CHAT,
    "responses.create": lambda sdk: sdk.responses.create(**RESPOND).usage.input_tokens > 0,
    "responses.parse": lambda sdk: sdk.responses.parse(
        model=CHAT, input="a", text_format=Verdict).output_parsed.good in (True, False),
    "responses.stream": text_of_response_stream,
    "responses.retrieve": lambda sdk: sdk.responses.retrieve(id := responded(sdk)).id == id,
    "responses.delete": lambda sdk: sdk.responses.delete(responded(sdk)) is None,
    "responses.cancel": cancelled,
    "responses.input_items.list": lambda sdk: sdk.responses.input_items.list(responded(sdk)).data[0].role == "user",
    "responses.input_tokens.count": lambda sdk: sdk.responses.input_tokens.count(
        model=CHAT, input="a").input_tokens > 0,
    "webhooks.unwrap": lambda sdk: sdk.webhooks.unwrap(SIGNED, signature()).id == "evt_1",
    "webhooks.verify_signature": lambda sdk: sdk.webhooks.verify_signature(SIGNED, signature()) is None,
}
DRIVEN |= {f"beta.{method}": lambda sdk, drive=drive: drive(sdk.beta) for method, drive in DRIVEN.items()
           if method.startswith("chat.") or (method.startswith("responses.") and "parse" not in method
                                             and "stream" not in method)}


@pytest.mark.parametrize("method", DRIVEN)
def test_what_works(sdk, method):
    if method not in set(methods(sdk)):
        pytest.skip(f"this version of the client has no {method}")
    assert DRIVEN[method](sdk)


@pytest.mark.parametrize("call, words", [
    (lambda sdk: sdk.moderations.create(input="a"), "not moderated here"),
    (lambda sdk: sdk.responses.compact(model=CHAT, input="a"), "sum the conversation up"),
    (lambda sdk: sdk.responses.create(**RESPOND, background=True), "in a batch"),
    (lambda sdk: sdk.models.delete(CHAT), "does not answer DELETE"),
    (lambda sdk: sdk.images.generate(prompt="a"), "nothing is served at"),
    (lambda sdk: sdk.audio.speech.create(input="a", model="m", voice="alloy"), "nothing is served at"),
    (lambda sdk: sdk.vector_stores.list(), "nothing is served at"),
    (lambda sdk: sdk.files.create(file=b"a", purpose="fine-tune"), "must be \"batch\"")])
def test_what_does_not_says_so(sdk, call, words):
    with pytest.raises(openai.APIStatusError, match=words) as refused:
        call(sdk)
    assert 400 <= refused.value.status_code < 500


def test_javascript(daemon):
    clients = need_javascript_clients()
    scripts = shutil.copytree(SCRIPTS, daemon.home / "scripts")  # node looks for packages beside the script
    (scripts / "node_modules").symlink_to(clients)
    ended = subprocess.run(["node", str(scripts / "openai_methods.mjs"), daemon.url, CHAT, WORDS], capture_output=True,
                           text=True, timeout=100)
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    known = set(told["methods"])
    assert known - set(rows("javascript")) == set()
    assert {method: found for method, found in told["driven"].items() if not found} == {}
    assert working("javascript") & known == set(told["driven"]) & known
