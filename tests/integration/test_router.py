"""The real llama-server as the router child: swaps, the store, and its ends."""

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import urllib.error
import urllib.request

import pytest

from blazar.engines.manifest import manifest_of
from blazar.engines.program import Program
from blazar.engines.router import Unwritable, model_of, pairs, section
from blazar.store.store import Store
from blazar.supervisor import processes
from blazar.supervisor.gateway import LAUNCHER
from blazar.transport import connection_to
from tests.support.built_engines import built
from tests.support.daemon import UnixDaemon
from tests.support.tiny_gguf import tiny_gguf
from tests.support.waiting import until

pytestmark = pytest.mark.built

GIVEN = {"--host", "--port", "--alias", "--log-colors", "--api-key", "--api-key-file", "--ssl-key-file",
         "--ssl-cert-file", "--models-dir", "--models-preset", "--models-max", "--models-autoload", "--version"}
"""Flags that a router keeps to itself."""
DIALECTS = ("/v1/chat/completions", "/api/chat", "/v1/messages")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    folder = tmp_path_factory.mktemp("router")
    with UnixDaemon(folder, launcher=LAUNCHER, router=True, router_max_models=1,
                    engine_path=str(built("llama-server")), default_ctx=2048, samplers="top_k;temperature",
                    threads_http=4, model_overrides={"second": {"slots": 2}}) as daemon:
        daemon.folder = folder
        daemon.first = add(daemon, "first", 1, "UD-F32")
        daemon.second = add(daemon, "second", 2, "ud-f16")
        add(daemon, "vectors", 3, "f32", pooling=1)
        yield daemon.start()


def add(daemon, name, seed, variant, **made):
    file = tiny_gguf(daemon.folder / f"{name}.gguf", seed=seed, name=name, **made)
    return Store(daemon.paths).install_file(file, f"{name}:{variant}")["name"]


def chat(daemon, model, path=DIALECTS[0], limit=8, **fields):
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}], "stream": False, **fields}
    body |= {"options": {"num_predict": limit}} if path == "/api/chat" else {"max_tokens": limit}
    return daemon.post(path, body, 120)


def loaded(daemon):
    return [model["name"] for model in daemon.get("/api/ps")[1]["models"]]


def router(daemon):
    return next((child for child in daemon.status()["children"] if child["model"] == "router"), None)


def long_stream(daemon, model):
    """An open stream of many tokens, of which the first has come."""
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}], "stream": True, "max_tokens": 400,
            "ignore_eos": True}
    answer = urllib.request.urlopen(urllib.request.Request(
        daemon.url + DIALECTS[0], json.dumps(body).encode()), timeout=60)
    assert answer.readline().startswith(b"data: {")
    return answer


def engines(daemon):
    """The processes of the router's own children."""
    leader = router(daemon)["pid"]
    return [pid for pid in daemon.tree() if pid != leader and parent_of(pid) == leader]


def parent_of(pid):
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def test_every_flag_may_stand_in_a_section_and_comes_out_of_it(tmp_path):
    """By one real router with a section for each spelling of each flag of its own help."""
    program, asked = built("llama-server"), {}
    manifest = manifest_of(Program("llamacpp", (str(program),), "a test"), tmp_path)
    for flag in manifest.distinct():
        for name in flag.names:
            with contextlib.suppress(Unwritable):
                [pair] = pairs([name, *(["7"] if flag.value is not None else [])], manifest) or [None]
                if pair is not None and not GIVEN.intersection(flag.names):
                    asked[f"m:{len(asked)}x"] = (flag, name, pair)
    assert len(asked) > 350
    (tmp_path / "p.ini").write_text("\n".join(section(model, [pair]) for model, (_, _, pair) in asked.items()))
    for model in asked_of(program, tmp_path):
        flag, name, pair = asked[model_of(model["id"])]
        args = model["status"]["args"]
        [place] = [place for place, word in enumerate(args) if word in flag.names]
        long = [word.startswith("--no-") for word in flag.names if word.startswith("--")]
        if name.startswith("--") and len({*long}) == 2:
            assert args[place].startswith("--no-") == name.startswith("--no-"), (name, args)
        assert flag.value is None or args[place + 1] == "7", (name, args)


def asked_of(program, folder):
    """What a router with the preset file in `folder` says of its models."""
    with tempfile.TemporaryDirectory(prefix="bz-") as short:
        process = subprocess.Popen([program, "--models-preset", folder / "p.ini", "--host", f"{short}/r.sock"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            return until(lambda: models_at(f"{short}/r.sock"), 30)
        finally:
            process.kill()
            process.wait()


def models_at(socket):
    try:
        connection = connection_to(socket, 10)
        connection.request("GET", "/models")
        return json.loads(connection.getresponse().read()).get("data")
    except OSError:
        return None
    finally:
        connection.close()


def test_models_are_swapped_through_every_dialect_and_keep_their_names(daemon):
    for path in DIALECTS:
        for model in (daemon.first, "second"):
            status, answer = chat(daemon, model, path)
            assert status == 200, answer
            assert loaded(daemon) == [daemon.first if model == daemon.first else daemon.second]
    answer = chat(daemon, "FIRST")[1]
    assert (answer["model"], answer["usage"]["completion_tokens"]) == (daemon.first, 8)
    [model] = daemon.get("/api/ps")[1]["models"]
    assert (model["name"], model["context_length"]) == (daemon.first, 2048)


def test_what_needs_no_text_goes_through_it_as_well(daemon):
    status, answer = daemon.post("/v1/embeddings", {"model": "vectors", "input": ["a", "b"]}, 60)
    assert status == 200 and len(answer["data"]) == 2
    status, counted = daemon.post("/v1/messages/count_tokens", {
        "model": "second", "messages": [{"role": "user", "content": "hi"}]}, 60)
    assert status == 200 and counted["input_tokens"] > 5


def test_general_flags_that_no_section_can_hold_reach_the_engine(daemon):
    chat(daemon, "second")
    [pid] = engines(daemon)
    with open(f"/proc/{pid}/cmdline") as file:
        words = file.read().split("\0")
    assert words[words.index("--samplers") + 1] == "top_k;temperature"
    assert words[words.index("--parallel") + 1] == "2" and words[words.index("--ctx-size") + 1] == "4096"


def test_its_own_children_want_the_secret_too(daemon):
    chat(daemon, "second")
    [pid] = engines(daemon)
    [listener] = processes.owned_listeners(pid)
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"http://127.0.0.1:{listener.port}/props", timeout=10)
    assert caught.value.code == 401


def test_one_model_is_unloaded_and_comes_again(daemon):
    chat(daemon, "first")
    before = router(daemon)
    assert daemon.post("/api/generate", {"model": "first", "keep_alive": 0}, 60)[1]["done_reason"] == "unload"
    assert loaded(daemon) == [] and router(daemon) == before
    assert chat(daemon, "first")[0] == 200


def test_a_new_model_is_served_after_the_running_stream(daemon):
    stream = long_stream(daemon, "first")
    before = router(daemon)
    third = add(daemon, "third", 7, "f32")
    link = daemon.control()
    link.ask("changed", 30, what="store")
    link.close()
    assert chat(daemon, "third", "/api/chat")[0] == 200
    assert stream.read().endswith(b"data: [DONE]\n\n")
    assert router(daemon)["id"] != before["id"] and loaded(daemon) == [third]


def test_an_engine_that_dies_in_a_stream_ends_it_with_an_error_and_is_started_again(daemon):
    chat(daemon, "first")
    stream = long_stream(daemon, "first")
    before = router(daemon)
    for pid in engines(daemon):
        os.kill(pid, signal.SIGKILL)
    *_, last = stream.read().rstrip().split(b"\n\n")
    assert json.loads(last.removeprefix(b"data: "))["error"]["code"] == "child-failed"
    assert chat(daemon, "first")[0] == 200 and router(daemon) == before


def test_killed_it_takes_its_engines_along_and_is_started_again(daemon):
    chat(daemon, "first")
    gone = [router(daemon)["pid"], *engines(daemon)]
    assert len(gone) == 2
    os.kill(gone[0], signal.SIGKILL)
    daemon.wait_gone(gone)
    assert chat(daemon, "second", "/v1/messages")[0] == 200
    until(lambda: loaded(daemon) == [daemon.second])


def test_a_model_that_it_cannot_load_is_explained(daemon):
    daemon.file(daemon.second).write_bytes(b"GGUF" + bytes(100))
    assert daemon.post("/api/generate", {"model": "second", "keep_alive": 0}, 60)[0] == 200
    status, told = chat(daemon, "second")
    assert (status, told["error"]["code"]) == (503, "load-failed"), told
    assert chat(daemon, "first")[0] == 200
    assert daemon.stop() == 0 and daemon.tree() == []
