"""Models that people make: create, copy, blobs, show and delete with Ollama's own client and the real engine."""

import hashlib
import http.client
import json
import shutil
import socket
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from blazar.control import connect
from tests.support.raw_safetensors import write_model
from tests.support.shell import Shell
from tests.support.tiny_gguf import tiny_gguf
from tests.support.tiny_lora import tiny_lora
from tests.support.tiny_split import split
from tests.support.waiting import until

ollama = pytest.importorskip("ollama")

TINY = "solo:f32"
CHAT = [{"role": "user", "content": "Hello"}]
GREEDY = {"temperature": 0, "num_predict": 8}


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    shell = Shell(tmp_path_factory.mktemp("home"))
    shell.ok("pull", str(tiny_gguf(shell.home / "tiny.gguf")), "--name", TINY)
    shell.start()
    yield shell
    shell.stop()


@pytest.fixture
def client(shell):
    return ollama.Client(host=shell.url, timeout=60)


@pytest.fixture
def models(shell):
    return shell.home / ".local/share/blazar/models"


def post(shell, path, body):
    """Status and text of an answer."""
    host = shell.url.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=60)
    try:
        connection.request("POST", path, body if isinstance(body, bytes) else json.dumps(body).encode())
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def digest_of(file):
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()


def blobs(models):
    return sorted(file.stem for file in (models / "blobs").iterdir())


def unfinished(models):
    return [str(path) for folder in ("incoming", "uploads") for path in (models / folder).iterdir()] + [
        str(path) for path in models.glob(".*")]


# -- what is given with a model reaches the engine, in every dialect ----------------------------------------------


def test_create_from_a_model_applies_system_and_messages_in_every_dialect(shell, client):
    turns = [{"role": "user", "content": "Ping"}, {"role": "assistant", "content": "Pong"}]
    statuses = [piece.status for piece in client.create(
        "mario", from_=TINY, system="You are Mario.", messages=turns, parameters={"temperature": 0, "num_predict": 8,
                                                                               "stop": ["@@"]}, stream=True)]
    assert statuses[-1] == "success" and "writing manifest" in statuses
    said = [{"role": "system", "content": "You are Mario."}, *turns, *CHAT]
    expected = client.chat(TINY, said, options=GREEDY)
    assert client.chat("mario", CHAT).message.content == expected.message.content
    assert client.chat("mario", CHAT).prompt_eval_count <= expected.prompt_eval_count
    status, body = post(shell, "/v1/chat/completions", {"model": "mario", "messages": CHAT})
    assert (status, json.loads(body)["choices"][0]["message"]["content"]) == (200, expected.message.content)
    assert json.loads(body)["usage"]["prompt_tokens"] == expected.prompt_eval_count
    _, body = post(shell, "/v1/messages", {"model": "mario", "messages": CHAT, "max_tokens": 8})
    assert json.loads(body)["content"][0]["text"] == expected.message.content
    _, counted = post(shell, "/v1/messages/count_tokens", {"model": "mario", "messages": CHAT})
    assert json.loads(counted)["input_tokens"] == expected.prompt_eval_count
    generated = client.generate("mario", CHAT[0]["content"])
    assert generated.response == expected.message.content and generated.prompt_eval_count > 0


def test_what_a_request_says_wins(shell, client):
    client.create("luigi", from_=TINY, system="You are Luigi.", parameters={"temperature": 0, "num_predict": 2})
    own = [{"role": "system", "content": "Be brief."}, *CHAT]
    expected = client.chat(TINY, own, options={"temperature": 0, "num_predict": 5})
    found = client.chat("luigi", own, options={"num_predict": 5})
    assert (found.message.content, found.eval_count) == (expected.message.content, expected.eval_count)
    assert found.eval_count > 2 == client.chat("luigi", CHAT).eval_count
    _, body = post(shell, "/v1/chat/completions", {"model": "luigi", "messages": CHAT, "max_completion_tokens": 3})
    assert json.loads(body)["usage"]["completion_tokens"] == 3


def test_show_tells_what_was_given(shell, client):
    client.create("shown", from_=TINY, system="Say \"hi\".", license=["One.", "Two."],
                  messages=[{"role": "user", "content": "a\nb"}], parameters={"num_ctx": 512, "stop": ["x y", "z"]})
    shown = client.show("shown")
    assert [line.split(None, 1) for line in shown.parameters.splitlines()] == [
        ["num_ctx", "512"], ["stop", '"x y"'], ["stop", '"z"']]
    assert shown.license == "One.\nTwo."
    _, body = post(shell, "/api/show", {"model": "shown"})
    assert json.loads(body)["system"] == "Say \"hi\"."
    again = shell.ok("create", "again", "-f", "-", stdin=shown.modelfile)
    assert "created again" in again
    first, second = (json.loads(post(shell, "/api/show", {"model": name})[1]) for name in ("shown", "again"))
    same = ("parameters", "system", "messages", "license", "template")
    assert {key: first[key] for key in same} == {key: second[key] for key in same}
    client.delete("again")
    client.delete("shown")


def is_loaded(client, model, tokens):
    return any((entry.model, entry.context_length) == (model, tokens) for entry in client.ps().models)


def test_num_ctx_shapes_the_load(shell, client):
    for tokens in (256, 768):
        client.create("short", from_=TINY, parameters={"num_ctx": tokens})
        client.chat("short", CHAT, options=GREEDY)
        until(partial(is_loaded, client, "short:f32", tokens), what=f"it is loaded with {tokens} tokens of context")


def test_a_jinja_template_replaces_that_of_the_file(shell, client):
    client.create("plain", from_=TINY, template="{% for m in messages %}[{{ m.content }}]{% endfor %}")
    found = client.chat("plain", CHAT, options=GREEDY)
    assert found.prompt_eval_count < client.chat(TINY, CHAT, options=GREEDY).prompt_eval_count
    assert "<|im_start|>" not in client.show("plain").template


def test_a_simple_go_template_is_translated(client):
    client.create("simple", from_=TINY, template="[{{ .Prompt }}]")
    client.create("plain", from_=TINY, template="{% for m in messages %}[{{ m.content }}]{% endfor %}")
    assert client.show("simple").template == "[{{ .Prompt }}]"
    assert client.chat("simple", CHAT, options=GREEDY).message.content == \
        client.chat("plain", CHAT, options=GREEDY).message.content


def test_an_involved_go_template_is_ignored_loudly(client, tmp_path):
    template = "{{ range .Messages }}{{ json .Content }}{{ end }}"
    statuses = [piece.status for piece in client.create("go", from_=TINY, template=template, stream=True)]
    assert any(status.startswith("warning: TEMPLATE is a Go template") for status in statuses)
    assert client.show("go").template == template
    bare = client.create_blob(tiny_gguf(tmp_path / "bare.gguf", template=" "))
    with pytest.raises(ollama.ResponseError, match="write it as a Jinja template"):
        client.create("bare", files={"bare.gguf": bare}, template=template)
    assert client.chat("go", CHAT, options=GREEDY).message.content == \
        client.chat(TINY, CHAT, options=GREEDY).message.content


# -- files ----------------------------------------------------------------------------------------------------------


def test_blobs_make_a_model_and_an_adapter_changes_what_it_says(shell, client, models, tmp_path):
    file, lora = tiny_gguf(tmp_path / "x.gguf", seed=11), tiny_lora(tmp_path / "lora.gguf")
    before = unfinished(models)
    digest, adapter = client.create_blob(file), client.create_blob(lora)
    assert digest == f"sha256:{digest_of(file)}" and len(unfinished(models)) == len(before) + 2
    client.create("sent", files={"x.gguf": digest})
    client.create("tuned", from_="sent", adapters={"lora.gguf": adapter})
    assert unfinished(models) == before and {digest_of(file), digest_of(lora)} <= set(blobs(models))
    plain = client.chat("sent", CHAT, options=GREEDY).message.content
    assert client.chat("tuned", CHAT, options=GREEDY).message.content != plain
    listed = {entry.model: entry for entry in client.list().models}
    assert listed["sent:f32"].digest == digest_of(file) != listed["tuned:f32"].digest
    client.delete("sent")
    assert digest_of(file) in blobs(models), "the other model still uses it"
    client.delete("tuned")
    assert not {digest_of(file), digest_of(lora)} & set(blobs(models))


def test_a_split_set_answers_as_the_whole_file(shell, client, models, tmp_path):
    whole = tiny_gguf(tmp_path / "whole.gguf", seed=5, name="")
    parts = split(whole, tmp_path, 3, stem="big")
    assert "installed big:f32" in shell.ok("pull", str(parts[1]))
    shell.ok("pull", str(whole), "--name", "whole")
    said = client.chat("big", CHAT, options=GREEDY)
    assert said.message.content == client.chat("whole", CHAT, options=GREEDY).message.content
    listed = {entry.model: entry for entry in client.list().models}
    assert listed["big:f32"].size == sum(part.stat().st_size for part in parts)
    assert {digest_of(part) for part in parts} <= set(blobs(models))
    digests = {part.name: client.create_blob(part) for part in reversed(parts)}
    client.create("uploaded", files=digests)
    assert client.chat("uploaded", CHAT, options=GREEDY).message.content == said.message.content
    client.delete("big")
    assert digest_of(parts[0]) in blobs(models)
    client.delete("uploaded")
    assert not {digest_of(part) for part in parts} & set(blobs(models))


def test_copies_and_aliases(shell, client):
    client.copy(TINY, "twin")
    names = {entry.model: entry.digest for entry in client.list().models}
    assert names["twin:f32"] == names[TINY]
    shell.ok("cp", "--alias", TINY, "gpt-4o")
    assert client.chat("gpt-4o", CHAT, options=GREEDY).message.content
    assert "gpt-4o" not in [entry.model for entry in client.ps().models]
    assert "gpt-4o:f32" not in [entry.model for entry in client.list().models]
    assert "gpt-4o" in shell.ok("show", TINY)
    client.delete("gpt-4o")
    assert client.show(TINY).template, "only the alias went"
    shell.ok("cp", "--alias", TINY, "gpt-4o")
    assert shell.ok("rm", "gpt-4o") == f"removed gpt-4o, another name for {TINY}, which stays; `blazar rm {TINY}` " \
                                       f"removes that too\n"
    with pytest.raises(ollama.ResponseError, match="gpt-4o"):
        client.show("gpt-4o")
    status, body = post(shell, "/api/copy", {"source": TINY, "destination": TINY, "alias": True})
    assert status == 409 and "may not hide" in body
    with pytest.raises(ollama.ResponseError, match="nobody"):
        client.copy("nobody", "x")
    client.delete("twin")
    assert client.chat(TINY, CHAT, options=GREEDY).message.content


# -- refusals leave everything as it was ----------------------------------------------------------------------------


@pytest.mark.parametrize(("body", "status", "words"), [
    ({"from": TINY}, 400, "`model` is missing"),
    ({"model": "../x", "from": TINY}, 400, "not a model name"),
    ({"model": "x"}, 400, "give one of the two"),
    ({"model": "x", "from": "nobody"}, 404, "not found"),
    ({"model": "x", "from": TINY, "quantize": "q4_0"}, 400, "blazar quantize"),
    ({"model": "x", "from": TINY, "parameters": {"temprature": 1}}, 400, "did you mean temperature"),
    ({"model": "x", "from": TINY, "parameters": {"temperature": "hot"}}, 400, "must be a number"),
    ({"model": "x", "from": TINY, "parameters": {"num_ctx": -1}}, 400, "between 1 and"),
    ({"model": "x", "from": TINY, "messages": [{"role": "tool", "content": ""}]}, 400, "messages[0]"),
    ({"model": "x", "from": TINY, "system": "x" * (1 << 19)}, 400, "shorten them"),
    ({"model": "x", "from": TINY, "template": "x" * (1 << 21)}, 400, "are allowed"),
    ({"model": "x", "from": TINY, "system": "x" * (5 << 20)}, 413, "send files on their own"),
    ({"model": "x", "files": {"x.gguf": "sha256:" + "0" * 64}}, 400, "send it first"),
    ({"model": "x", "files": {"x.gguf": "../../../etc/passwd"}}, 400, "is no digest"),
    ({"model": "x", "files": {"x.gguf": 7}}, 400, "a digest like"),
    ({"model": "x", "from": TINY, "adapters": {"a.gguf": "@tiny"}}, 400, "is an adapter" ),
    ({"model": "x", "modelfile": "FROM /etc/passwd"}, 400, "requests name no files"),
    ({"model": "x", "modelfile": "FROM a\nNONSENSE b"}, 400, "line 2, column 1"),
])
def test_refused(shell, client, models, tmp_path, body, status, words):
    if "@tiny" in json.dumps(body):
        digest = client.create_blob(tiny_gguf(tmp_path / "t.gguf", seed=99))
        body = {**body, "adapters": {"a.gguf": digest}}
        words = "given as an adapter, and is a model"
    before, names = blobs(models), [entry.model for entry in client.list().models]
    found = post(shell, "/api/create", body)
    assert found[0] == status and words in json.loads(found[1])["error"], found
    assert blobs(models) == before and [entry.model for entry in client.list().models] == names


@pytest.mark.parametrize("name", ["../x.gguf", "/etc/x.gguf", "a/b.gguf", "..", "a\\b.gguf", "a\nb.gguf", "",
                                  "x" * 300])
def test_file_names_that_lead_elsewhere(shell, models, tmp_path, client, name):
    digest = client.create_blob(tiny_gguf(tmp_path / "t.gguf", seed=98))
    status, body = post(shell, "/api/create", {"model": "x", "files": {name: digest}})
    assert status == 400 and "not a plain file name" in body
    assert "x" not in [entry.model.partition(":")[0] for entry in client.list().models]


def test_push_is_refused_with_words(shell, client):
    with pytest.raises(ollama.ResponseError, match="sends no models anywhere"):
        client.push(TINY)


# -- uploads --------------------------------------------------------------------------------------------------------


def test_uploads_are_checked(shell, models):
    content = b"x" * 3_000_000
    right, wrong = hashlib.sha256(content).hexdigest(), "1" * 64
    before = unfinished(models)
    status, body = post(shell, f"/api/blobs/sha256:{wrong}", content)
    assert status == 400 and f"has the digest sha256:{right}" in body
    assert unfinished(models) == before
    assert post(shell, "/api/blobs/sha256:nonsense", content)[0] == 400
    assert post(shell, f"/api/blobs/sha256:{right}", content)[0] == 201
    assert post(shell, f"/api/blobs/sha256:{right}", content)[0] == 200
    assert (models / "uploads" / right).read_bytes() == content
    (models / "uploads" / right).unlink()


def test_head_of_a_blob(shell, models):
    connection = http.client.HTTPConnection(shell.url.removeprefix("http://"))
    for digest, status in ((blobs(models)[0], 200), ("2" * 64, 404), ("nonsense", 400)):
        connection.request("HEAD", f"/api/blobs/sha256:{digest}")
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (status, b"")
    connection.close()


def test_a_client_that_leaves_in_the_middle_leaves_nothing(shell, models):
    before = unfinished(models)
    host, _, port = shell.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port))) as sock:
        sock.sendall(f"POST /api/blobs/sha256:{'3' * 64} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 9000000\r\n\r\n"
                     .encode() + b"x" * 4_000_000)
        until(lambda: len(unfinished(models)) == len(before) + 1, 10, "the file to appear")
    until(lambda: unfinished(models) == before, 10, "it to go again")


def test_an_upload_larger_than_the_disk_is_refused_at_once(shell, models):
    before = unfinished(models)
    host, _, port = shell.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=10) as sock:
        sock.sendall(f"POST /api/blobs/sha256:{'3' * 64} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {10 ** 14}\r\n\r\n"
                     .encode())
        assert sock.recv(65536).startswith(b"HTTP/1.1 507 ")
    until(lambda: unfinished(models) == before, 10, "nothing to stay")


def test_an_upload_is_never_held_in_memory(shell, models):
    pid = next(worker for worker in gateway_pids(shell))
    before = resident(pid)
    content = b"x" * (96 << 20)
    digest = hashlib.sha256(content).hexdigest()
    assert post(shell, f"/api/blobs/sha256:{digest}", content)[0] == 201
    assert peak(pid) - before < 24 << 20
    (models / "uploads" / digest).unlink()


def gateway_pids(shell):
    link = connect(shell.home / ".local/share/blazar/run/control.sock")
    try:
        return link.ask("status", 10)["gateway"]["workers"]
    finally:
        link.close()


def resident(pid):
    """Bytes of memory that the process has now; its peak is counted from here on."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return memory(pid, "VmRSS")


def peak(pid):
    return memory(pid, "VmHWM")


def memory(pid, field):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{field}:"))


def test_safetensors_are_listed_and_say_why_they_do_not_load(shell, client, models, tmp_path):
    folder = write_model(tmp_path / "Tensors")
    told = "installed tensors:bf16; no engine here reads safetensors files yet, so it only waits\n"
    assert shell.ok("pull", str(folder)) == told
    assert client.show("tensors").details.format == "safetensors"
    with pytest.raises(ollama.ResponseError, match="no engine here reads safetensors files; install the same model as"):
        client.chat("tensors", CHAT)
    digests = {file.name: client.create_blob(file) for file in folder.iterdir() if file.name != "README.md"}
    client.create("sent-tensors", files=digests, system="S")
    assert client.show("sent-tensors").details.quantization_level == "BF16"
    client.delete("tensors")
    client.delete("sent-tensors")
    assert not {digest.removeprefix("sha256:") for digest in digests.values()} & set(blobs(models))


def test_made_anew_of_another_quantisation_it_replaces_itself(shell, client, tmp_path):
    shell.ok("pull", str(tiny_gguf(tmp_path / "q.gguf", seed=41, file_type=7)), "--name", "other")
    client.create("mine", from_=TINY, system="one")
    client.create("mine", from_="other", system="two")
    assert [entry.model for entry in client.list().models if entry.model.startswith("mine")] == ["mine:q8_0"]
    client.delete("mine")
    client.delete("other")


# -- the verb --------------------------------------------------------------------------------------------------------


def test_create_verb_sends_files_and_teaches(shell, client, models, tmp_path):
    tiny_gguf(tmp_path / "base.gguf", seed=21)
    tiny_lora(tmp_path / "fine tuning.gguf")
    (tmp_path / "Modelfile").write_text('FROM ./base.gguf\nADAPTER "fine tuning.gguf"\nPARAMETER num_thread 4\n'
                                        'SYSTEM """You are\nLuigi."""\nMESSAGE user hi\n')
    done = shell("create", "made", "-f", str(tmp_path / "Modelfile"))
    assert done.returncode == 0 and "PARAMETER num_thread has no effect here" in done.stderr, done.stderr
    assert client.chat("made", CHAT, options=GREEDY).message.content
    assert shell.ok("show", "made", "--system") == "You are\nLuigi.\n"
    assert not [path for path in unfinished(models) if "/uploads/" not in path]
    (tmp_path / "Bad").write_text("FROM ./base.gguf\n\nPARAMETR temperature 1\n")
    refused = shell("create", "bad", "-f", str(tmp_path / "Bad"))
    assert refused.returncode == 2
    assert f"{tmp_path}/Bad, line 3, column 1: 'PARAMETR' is no instruction" in refused.stderr
    missing = shell("create", "bad", "-f", str(tmp_path / "nowhere"))
    assert missing.returncode == 2 and "cannot be read" in missing.stderr


def test_moved_data_dir_keeps_models_working(tmp_path):
    shell = Shell(tmp_path / "home")
    parts = split(tiny_gguf(tmp_path / "big.gguf", seed=3), tmp_path, 2)
    shell.ok("pull", str(parts[0]), "--name", "big")
    (tmp_path / "Modelfile").write_text("FROM big\nTEMPLATE \"{% for m in messages %}[{{ m.content }}]{% endfor %}\"\n")
    assert "created mine" in shell.ok("create", "mine", "-f", str(tmp_path / "Modelfile"))  # no daemon runs
    asked = {"model": "mine", "messages": CHAT, "options": GREEDY, "stream": False}
    shell.start()
    first = json.loads(post(shell, "/api/chat", asked)[1])["message"]["content"]
    shell.stop()
    shutil.move(tmp_path / "home/.local/share/blazar", tmp_path / "home/.local/share/elsewhere")
    (tmp_path / "home/.local/share/blazar").symlink_to("/nonexistent")
    (tmp_path / "home/.local/share/blazar").unlink()
    shell.env["XDG_DATA_HOME"] = str(tmp_path / "new")
    (tmp_path / "new").mkdir()
    shutil.move(tmp_path / "home/.local/share/elsewhere", tmp_path / "new/blazar")
    shell.start()
    assert json.loads(post(shell, "/api/chat", asked)[1])["message"]["content"] == first != ""
    shell.stop()
    with sqlite3.connect(tmp_path / "new/blazar/blazar.db") as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def at_once(count, ask):
    """What `count` clients are answered who ask at the same time, each by its number."""
    with ThreadPoolExecutor(count) as clients:
        return list(clients.map(ask, range(count)))


@pytest.mark.parametrize("names", [["same"] * 20, [f"n{number}" for number in range(20)]], ids=["one name", "many"])
def test_twenty_clients_make_models_of_one_file_at_once(shell, client, models, tmp_path, names):
    before = unfinished(models)
    file = tiny_gguf(tmp_path / "t.gguf", seed=len(set(names)) + 50, name="at once")
    digest = f"sha256:{digest_of(file)}"
    sent = at_once(20, lambda number: post(shell, f"/api/blobs/{digest}", file.read_bytes())[0])
    assert set(sent) <= {200, 201}
    made = at_once(20, lambda number: post(shell, "/api/create", {"model": names[number], "files": {"a.gguf": digest}}))
    assert [answer for answer in made if answer[0] != 200] == []
    assert unfinished(models) == before and digest[7:] in blobs(models)
    gone = at_once(20, lambda number: post(shell, "/api/show", {"model": names[number]})[0])
    assert set(gone) == {200}
    for name in set(names):
        client.delete(name)
    assert digest[7:] not in blobs(models)


def test_makers_copiers_and_removers_of_one_name_at_once(shell, client, models):
    before = blobs(models)

    def ask(number):
        return (lambda: post(shell, "/api/create", {"model": "fought", "from": TINY, "system": str(number)}),
                lambda: post(shell, "/api/copy", {"source": TINY, "destination": "fought"}),
                lambda: delete(shell, "fought"),
                lambda: post(shell, "/api/show", {"model": "fought"}))[number % 4]()

    answers = at_once(20, ask)
    assert {status for status, _ in answers} <= {200, 404}, answers
    assert blobs(models) == before
    database = sqlite3.connect(models.parent / "blazar.db")
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()
    if delete(shell, "fought")[0] == 404:
        assert "fought:f32" not in [model.model for model in client.list().models]


def delete(shell, name):
    connection = http.client.HTTPConnection(shell.url.removeprefix("http://"), timeout=60)
    try:
        connection.request("DELETE", "/api/delete", json.dumps({"model": name}))
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize("count", [2, 2000])
def test_one_file_under_many_names_is_refused_at_once(shell, models, tmp_path, count):
    """Each of them would have its header read."""
    digest = f"sha256:{digest_of(tiny_gguf(tmp_path / 't.gguf', seed=77))}"
    assert post(shell, f"/api/blobs/{digest}", (tmp_path / "t.gguf").read_bytes())[0] == 201
    files = {f"{number}.gguf": digest for number in range(count)}
    status, body = post(shell, "/api/create", {"model": "x", "files": files})
    assert status == 400 and "two of the files are the same one" in body
    (models / "uploads" / digest[7:]).unlink()
