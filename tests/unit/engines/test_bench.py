"""`bench`: with a stand-in for llama-bench that plays faults, and with the embedded engine's own server."""

import json
import os
import signal

import pytest

from blazar.engines.bench import Wanted, by_server, by_tool
from blazar.engines.routing import find_program
from blazar.engines.tools import Tool
from blazar.errors import EngineToolFailed, UsageRefused
from blazar.paths import Paths
from blazar.store.store import Store
from tests.support.real_engine import engine_path
from tests.support.stub_model import EMBEDDING, write_header
from tests.support.tiny_gguf import tiny_gguf
from tests.support.tool_stubs import play, starts, tool


@pytest.fixture
def store(tmp_path):
    store = Store(Paths(tmp_path / "data"))
    store.install_file(write_header(tmp_path / "m.gguf", "m", ctx=1024), "m:f32")
    return store


@pytest.fixture
def stub(tmp_path):
    return Tool(tool(tmp_path, "llama-bench"), "b7")


def test_what_llama_bench_measures(store, stub):
    model = store.get("m")
    figures = by_tool(stub, model, Wanted(64, 32, 2))
    assert [(one.task, one.tokens, one.rate, one.deviation, one.runs, one.engine, one.method) for one in figures] == [
        ("prompt", 64, 500.0, 1.5, 2, "b7", "llama-bench"), ("generate", 32, 50.0, 1.5, 2, "b7", "llama-bench")]
    assert figures[0].conditions == {"backends": "CPU", "cpu_info": "a processor", "n_threads": 2,
                                     "build_number": 11434, "build_commit": "stub"}
    assert starts(stub.path) == [["-m", str(model.file), "-p", "64", "-n", "32", "-r", "2", "-o", "json"]]
    row = figures[1].row(model, "2026-01-02T03:04:05Z")
    assert (row["subject"], row["model"], row["digest"]) == ("bench", "m:f32", model.digest)
    assert json.loads(row["conditions"])["n_threads"] == 2


def test_one_of_the_two_may_be_left_out(store, stub):
    assert [one.task for one in by_tool(stub, store.get("m"), Wanted(0, 8))] == ["generate"]
    assert [one.task for one in by_tool(stub, store.get("m"), Wanted(8, 0))] == ["prompt"]


@pytest.mark.parametrize(("wanted", "words"), [
    (Wanted(0, 0), "not both 0"), (Wanted(-1, 5), "not both 0"), (Wanted(5, 5, 0), "at least 1"),
    (Wanted(1000, 100), "m:f32 has a context of 1024 tokens; `--prompt` and `--generate` together may be at most 960")])
def test_what_cannot_be_measured_is_refused(store, stub, wanted, words):
    with pytest.raises(UsageRefused, match=words):
        by_tool(stub, store.get("m"), wanted)
    assert starts(stub.path) == []


def test_a_model_that_writes_nothing(store, stub, tmp_path):
    store.install_file(write_header(tmp_path / "e.gguf", "e", architecture=EMBEDDING), "e:f32")
    with pytest.raises(UsageRefused, match=r"e:f32 writes no text \(embedding\)"):
        by_tool(stub, store.get("e"), Wanted())


@pytest.mark.parametrize(("scenario", "words"), [
    ({"fails": "no such backend"}, "could not measure m:f32: it ended with exit code 1; it said: no such backend"),
    ({"crash": int(signal.SIGILL)}, "it was ended by SIGILL, without a word"),
    ({"output": "all is well"}, "its output is not understood"), ({"output": "[{}]"}, "its output is not understood"),
    ({"output": '{"n_gen": 1}'}, "its output is not understood"),
    ({"rates": [float("nan"), 1.0]}, "its output is not understood"), ({"rates": [0, 0]}, "a speed of 0")])
def test_a_tool_that_fails(store, stub, scenario, words):
    play(stub.path, **scenario)
    with pytest.raises(EngineToolFailed, match=words):
        by_tool(stub, store.get("m"), Wanted(8, 8))


def test_the_server_is_asked_where_there_is_no_tool(tmp_path):
    store = Store(Paths(tmp_path / "data"))
    store.install_file(tiny_gguf(tmp_path / "t.gguf"), "t:f32")
    program = find_program("t", engine_path())
    figures = by_server(program, "embedded", store.get("t"), Wanted(24, 6, 2), {})
    assert [(one.task, one.tokens, one.runs, one.engine, one.method) for one in figures] == [
        ("prompt", 24, 2, "embedded", "http"), ("generate", 6, 2, "embedded", "http")]
    assert all(one.rate > 1 and one.deviation >= 0 for one in figures)


def test_a_server_that_cannot_load_the_model(store):
    with pytest.raises(EngineToolFailed, match="it ended with exit code 1; it said: "):
        by_server(find_program("m", engine_path()), "embedded", store.get("m"), Wanted(8, 8), {})
    assert not [name for name in os.listdir("/tmp") if name.startswith("blazar-engine-") and os.path.exists(
        f"/tmp/{name}/engine.sock")]
