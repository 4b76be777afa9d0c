"""`blazar fit`, `blazar explain`, and loads that follow their plan, as a person sees them."""

import json
from pathlib import Path

import pytest

from tests.servers.rpc_worker import answering, server
from tests.support.shaped_gguf import write_shaped
from tests.support.shell import Shell
from tests.support.tiny_gguf import tiny_gguf

GIB = 1 << 30
CENSUS = Path(__file__).parent.parent / "data" / "census"


@pytest.fixture
def shell(tmp_path):
    shell = Shell(tmp_path)
    yield shell
    shell.stop()


@pytest.fixture
def workers():
    """The addresses of a large one and of a small one."""
    with server(answering(24, (790 * GIB, 800 * GIB))) as large, server(answering(24, (GIB, GIB))) as small:
        yield large, small


@pytest.fixture
def large(shell):
    """A model of 45 GiB that takes no disk."""
    return str(write_shaped(shell.home / "large.gguf", "grouped", vocabulary=50_000, layers=80, width=8192, ff=28672,
                            heads=64, kv=8, head=128))


def test_a_table_of_reasons_and_settings(shell, large):
    done = shell("fit", large, "--census", str(CENSUS / "no-gpu.json"))
    assert done.returncode == 0 and "not this one" in done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["WHAT", "VALUE", "WHY", "SETTING"]
    assert [line.split("  ")[0] for line in lines[1:9]] == [
        "weights", "context", "slots", "kv cache", "compute", "program", "main memory", "prompt cache"]
    assert "16384 tokens a slot" in lines[2] and lines[2].endswith("default_ctx, ctx")
    assert "5.0 GiB as f16" in lines[4] and "320.0 KiB a token" in lines[4]
    assert lines[-1] == "large.gguf fits: 73.8 GiB in all"


@pytest.mark.parametrize(("machine", "arguments", "expected"), [
    ("four-48", [], {"tensor_split": "40,41", "slots": 2, "cache_type_k": None}),
    ("four-48", ["--ctx", "2048", "--slots", "3"], {"default_ctx": 2048, "slots": 3}),
    ("two-24", ["--ctx", "1000"], {"cache_type_k": "q8_0", "default_ctx": 1000}),
    ("eight-80", ["--ctx", "0"], {"default_ctx": 131072}),
])
def test_the_plan_as_json(shell, large, machine, arguments, expected):
    told = json.loads(shell.ok("fit", large, "--census", str(CENSUS / f"{machine}.json"), "--json", *arguments))
    assert told["model"] == "large.gguf" and told["plan"]["fits"] is True
    assert {name: told["plan"]["settings"].get(name) for name in expected} == expected
    assert all(line["reason"] for line in told["plan"]["lines"])


def test_what_does_not_fit_says_what_helps_and_exits_with_1(shell, large):
    done = shell("fit", large, "--census", str(CENSUS / "laptop-8gb.json"))
    assert done.returncode == 1
    assert "large.gguf does not fit: it needs " in done.stdout and "What helps:\n  - take a smaller" in done.stdout
    told = json.loads(shell("fit", large, "--census", str(CENSUS / "laptop-8gb.json"), "--json").stdout)
    assert told["plan"]["fits"] is False and told["plan"]["needed"] > told["plan"]["limit"]


def test_workers_of_the_configuration_are_asked(shell, large):
    arguments = ("fit", large, "--census", str(CENSUS / "laptop-8gb.json"), "--json")
    with server(answering(24, (60 * GIB, 64 * GIB), (7 * GIB, 8 * GIB))) as address:
        shell.config.write_text(f'rpc_servers = "127.0.0.1:1"\n[model_overrides.large]\nrpc_servers = "{address}"\n')
        plan = json.loads(shell.ok(*arguments))["plan"]
        assert [part["place"] for part in plan["parts"]] == [
            f"{address} device 0", f"{address} device 1", "NVIDIA GeForce RTX 4060 Laptop GPU", "main memory"]
        assert plan["parts"][0]["layers"] > 60 and plan["warnings"] == []
        assert {line["what"]: line["value"] for line in plan["lines"]}[f"worker {address} device 0"] == (
            "57.6 GiB of 64.0 GiB")
    done = shell(*arguments)
    assert done.returncode == 1
    assert json.loads(done.stdout)["plan"]["levers"][0] == f"start the RPC worker {address}, which does not answer"


def test_doctor_shows_the_whole_fleet(shell):
    with (server(answering(24, (5 * GIB, 8 * GIB), (2 * GIB, 2 * GIB))) as ready, server(lambda sock: None) as busy,
          server(answering(0)) as empty):
        shell.config.write_text(f'rpc_servers = "{ready},{busy},{empty},127.0.0.1:1"\n')
        told = json.loads(shell("doctor", "--json").stdout)
    rows = {row["check"]: (row["state"], row["found"]) for row in told if row["check"].startswith("rpc")}
    assert rows == {
        f"rpc worker {ready}": ("ok", "protocol 7.0.2, device 0: 5.0 GiB free of 8.0 GiB, device 1: 2.0 GiB free of "
                                      "2.0 GiB"),
        f"rpc worker {busy}": ("ok", "busy: it accepts, and answers nothing: it serves another client"),
        f"rpc worker {empty}": ("ok", "protocol 7.0.2, no device"),
        "rpc worker 127.0.0.1:1": ("warn", "gone: Connection refused")}


@pytest.mark.parametrize(("arguments", "code", "words"), [
    (["fit", "no-such-model"], 1, "model 'no-such-model' not found"),
    (["fit", "./none.gguf"], 1, "none.gguf is not a usable GGUF file"),
    (["fit", "x", "--ctx", "many"], 2, "'many' is not a whole number"),
    (["fit", "x", "--slots", "-1"], 2, "'-1' is not a whole number"),
    (["fit", "./x.gguf", "--census", "/dev/null"], 2, "is not a census of a machine"),
    (["explain", "x"], 4, "no daemon answers"),
])
def test_refusals(shell, arguments, code, words):
    (shell.home / "x.gguf").write_bytes((tiny_gguf(shell.home / "tiny.gguf")).read_bytes())
    arguments = [word.replace("./", f"{shell.home}/") for word in arguments]
    done = shell(*arguments)
    assert done.returncode == code and words in done.stderr, done.stderr


def test_an_installed_model_with_its_own_settings(shell):
    shell.config.write_text(shell.config.read_text() + '[model_overrides.solo]\nctx = 512\nslots = 2\n')
    shell.ok("pull", str(tiny_gguf(shell.home / "solo.gguf")), "--name", "solo:f32")
    told = json.loads(shell.ok("fit", "solo", "--json"))
    assert told["model"] == "solo:f32"
    assert (told["plan"]["ctx"], told["plan"]["slots"], told["plan"]["cache_type_k"]) == (512, 2, "f16")
    assert json.loads(shell.ok("fit", "solo", "--slots", "5", "--json"))["plan"]["slots"] == 5


def test_the_daemon_explains_loads_and_refuses_by_the_plan(shell, workers):
    large, small = workers
    shell.config.write_text('[model_overrides.huge]\nslots = 256\ncache_type = "f32"\n'
                            '[model_overrides.solo]\nctx = 600\n'
                            f'[model_overrides.far]\nslots = 256\ncache_type = "f32"\nrpc_servers = "{large}"\n'
                            f'[model_overrides.full]\nslots = 256\ncache_type = "f32"\nrpc_servers = "{small}"\n')
    for name in ("solo", "huge", "far", "full"):
        file = write_shaped(shell.home / f"{name}.gguf", "grouped", layers=3, width=256, ff=512, heads=16, kv=16)
        shell.ok("pull", str(file), "--name", f"{name}:q8_0")
    shell.start()
    told = json.loads(shell.ok("explain", "solo", "--json", BLAZAR_HOST=shell.url))
    assert told["loaded"] is False and told["argv"] == [] and told["plan"]["ctx"] == 600
    shell.ok("run", "solo", "hi", "--max-tokens", "2", BLAZAR_HOST=shell.url)
    told = json.loads(shell.ok("explain", "solo", "--json", BLAZAR_HOST=shell.url))
    assert told["loaded"] is True and told["argv"][told["argv"].index("--ctx-size") + 1] == "600"
    assert "solo:q8_0 is loaded; its engine is " in shell.ok("explain", "solo", BLAZAR_HOST=shell.url)
    # 24 KiB a token as f32, 16384 tokens, 256 slots: 96 GiB and more.
    done = shell("run", "huge", "hi", BLAZAR_HOST=shell.url)
    assert done.returncode == 1 and "huge:q8_0 does not fit: it needs " in done.stderr
    assert "leave cache_type empty, or set q4_0" in done.stderr and "`blazar fit huge:q8_0`" in done.stderr
    done = shell("explain", "huge", BLAZAR_HOST=shell.url)
    assert done.returncode == 1 and "set fewer slots" in done.stdout
    plan = json.loads(shell.ok("explain", "far", "--json", BLAZAR_HOST=shell.url))["plan"]
    assert plan["fits"] and [part["place"] for part in plan["parts"]] == [large, "main memory"]
    assert {line["what"]: line["value"] for line in plan["lines"]}[f"worker {large}"] == "720.0 GiB of 800.0 GiB"
    done = shell("run", "full", "hi", BLAZAR_HOST=shell.url)
    assert done.returncode == 1 and "90% of the workers and main memory together is " in done.stderr
    done = shell("explain", "nothing", BLAZAR_HOST=shell.url)
    assert done.returncode == 1 and "'nothing' not found" in done.stderr
