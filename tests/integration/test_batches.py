"""OpenAI's files and batches against a running Blazar, with its official client; killed in the middle."""

import io
import json

import pytest

from blazar.paths import Paths
from tests.support.shell import Shell
from tests.support.tiny_gguf import tiny_gguf
from tests.support.waiting import until

openai = pytest.importorskip("openai")

MODEL, VECTORS = "tiny:f32", "vectors:f32"
ENDED = ("completed", "failed", "expired", "cancelled")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    shell = Shell(tmp_path_factory.mktemp("batches"))
    shell.ok("pull", str(tiny_gguf(shell.home / "tiny.gguf", ctx=512)), "--name", MODEL)
    shell.ok("pull", str(tiny_gguf(shell.home / "vectors.gguf", seed=1, pooling=1, ctx=512)), "--name", VECTORS)
    shell.start()
    yield shell
    shell.stop()


def client(daemon):
    return openai.OpenAI(base_url=f"{daemon.url}/v1", api_key="none", max_retries=0, timeout=60)


def files(daemon):
    return Paths(daemon.home / ".local" / "share" / "blazar").files


def lines(count, url="/v1/chat/completions", **body):
    asked = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4, **body}
    return "".join(json.dumps({"custom_id": f"r{number}", "method": "POST", "url": url, "body": asked}) + "\n"
                   for number in range(count))


def upload(sdk, text, name="requests.jsonl"):
    return sdk.files.create(file=(name, io.BytesIO(text.encode())), purpose="batch")


def run(sdk, text, endpoint="/v1/chat/completions", **more):
    return sdk.batches.create(input_file_id=upload(sdk, text).id, endpoint=endpoint, completion_window="24h", **more)


def ended(sdk, id):
    return until(lambda: (found := sdk.batches.retrieve(id)).status in ENDED and found, 120, "the end of the batch")


def until_answered(sdk, id, count):
    until(lambda: sdk.batches.retrieve(id).request_counts.completed >= count, 60, f"{count} answers")


def answers(sdk, file):
    return [json.loads(line) for line in sdk.files.content(file).text.splitlines()]


def test_a_file_is_kept_listed_read_and_deleted(daemon):
    sdk, text = client(daemon), lines(2)
    made = upload(sdk, text, 'a "quoted" näme.jsonl')
    assert (made.bytes, made.purpose, made.status) == (len(text), "batch", "processed")
    assert made.filename == 'a "quoted" näme.jsonl'
    assert sdk.files.retrieve(made.id) == made and made.id in [one.id for one in sdk.files.list()]
    assert sdk.files.content(made.id).text == text
    path = files(daemon) / made.id
    assert path.stat().st_mode & 0o777 == 0o600
    assert sdk.files.delete(made.id).deleted and not path.exists()
    with pytest.raises(openai.NotFoundError, match="GET /v1/files"):
        sdk.files.retrieve(made.id)


def test_a_batch_is_answered(daemon):
    sdk = client(daemon)
    text = lines(2) + lines(1, model="missing").replace("r0", "bad")
    batch = ended(sdk, run(sdk, text, metadata={"topic": "a"}).id)
    assert batch.status == "completed" and batch.metadata == {"topic": "a"}, batch
    assert (batch.request_counts.total, batch.request_counts.completed, batch.request_counts.failed) == (3, 2, 1)
    good, bad = answers(sdk, batch.output_file_id), answers(sdk, batch.error_file_id)
    assert [one["custom_id"] for one in good] == ["r0", "r1"]
    assert good[0]["response"]["status_code"] == 200 and good[0]["response"]["body"]["object"] == "chat.completion"
    assert bad[0]["custom_id"] == "bad" and bad[0]["response"]["status_code"] == 404
    assert batch.id in [one.id for one in sdk.batches.list(limit=1)]
    with pytest.raises(openai.ConflictError, match="nothing to cancel"):
        sdk.batches.cancel(batch.id)


@pytest.mark.parametrize("endpoint, body, kind", [
    ("/v1/completions", {"prompt": "a", "messages": None}, "text_completion"),
    ("/v1/embeddings", {"input": "a", "model": VECTORS}, "list"),
    ("/v1/responses", {"input": "a", "max_output_tokens": 4, "messages": None, "max_tokens": None}, "response")])
def test_every_endpoint(daemon, endpoint, body, kind):
    sdk = client(daemon)
    batch = ended(sdk, run(sdk, lines(1, endpoint, **body), endpoint).id)
    assert batch.request_counts.completed == 1, batch.error_file_id and answers(sdk, batch.error_file_id)
    answer, = answers(sdk, batch.output_file_id)
    assert answer["response"]["body"]["object"] == kind


def test_a_file_with_faults_is_refused_with_their_lines(daemon):
    sdk = client(daemon)
    batch = ended(sdk, run(sdk, lines(1) + "\n{nonsense\n" + lines(1)).id)
    assert batch.status == "failed"
    assert [(one.code, one.line) for one in batch.errors.data] == [("invalid_json_line", 2),
                                                                    ("duplicate_custom_id", 3)]


def test_killed_at_half_each_request_is_answered_once(daemon):
    sdk = client(daemon)
    batch = run(sdk, lines(24, max_tokens=24))
    for worth in (4, 12):
        until_answered(sdk, batch.id, worth)
        daemon.kill()
        daemon.start()
        sdk = client(daemon)
    done = ended(sdk, batch.id)
    assert done.status == "completed" and done.request_counts.completed == 24
    assert [one["custom_id"] for one in answers(sdk, done.output_file_id)] == [f"r{number}" for number in range(24)]


def test_cancelled_it_keeps_what_was_answered(daemon):
    sdk = client(daemon)
    batch = run(sdk, lines(200, max_tokens=24))
    until_answered(sdk, batch.id, 2)
    with pytest.raises(openai.ConflictError, match="cancel that first"):
        sdk.files.delete(batch.input_file_id)
    assert sdk.batches.cancel(batch.id).status == "cancelling"
    done = ended(sdk, batch.id)
    assert done.status == "cancelled" and 2 <= done.request_counts.completed < 200
    assert len(answers(sdk, done.output_file_id)) == done.request_counts.completed
    sdk.files.delete(batch.input_file_id)
