"""Real engines started with the flags of our settings, one child for each group of them: they serve, and say so."""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from blazar.config.config import Config
from blazar.config.effective import effective
from blazar.config.registry import SETTINGS
from blazar.engines.embedded import build_parser
from blazar.engines.help_text import read_flags
from blazar.engines.lane import Launch
from blazar.engines.llamacpp import LlamaCpp
from blazar.engines.manifest import Manifest
from blazar.engines.program import EMBEDDED_FLAVOUR, EMBEDDED_MODULE, Program
from blazar.supervisor import processes
from blazar.supervisor.drafts import read_drafts
from blazar.transport import Endpoint
from tests.support.built_engines import built
from tests.support.programs import HELP
from tests.support.real_engine import engine_path
from tests.support.tiny_gguf import tiny_gguf
from tests.support.tiny_lora import tiny_lora
from tests.support.waiting import until

GROUPS = {
    "memory": {"cache_ram_mb": 16, "cache_type": "bf16", "kv_unified_per_slot": 128, "swa_full": True, "slots": 2,
               "ctx_checkpoints": 2, "no_kv_offload": True, "load_mode": "mmap", "keep_tokens": 4, "no_host": True,
               "context_shift": True, "lazy_mode": "off", "check_tensors": True, "cpu_moe_n": 1, "cpu_ffn_n": 1,
               "override_tensor": ["attn=CPU"], "tensor_preset": "moe-cpu-offload", "op_offload": False,
               "ctx_extend": 2.0, "yarn_ext_factor": 1.0, "yarn_attn_factor": 1.0, "yarn_beta_fast": 32.0,
               "yarn_beta_slow": 1.0, "idle_sleep_secs": 1000},
    "threads": {"cpu_range": "0-1", "cpu_strict": True, "prio_batch": 0, "poll": 10, "poll_batch": 20,
                "threads_http": 4, "threads_batch": 2, "main_gpu": 0, "split_mode": "none", "repack": False,
                "batch_size": 128, "ubatch_size": 64, "slot_prompt_similarity": 0.5, "cache_idle_slots": False,
                "cont_batching": False, "reuse_port": True, "warmup": False, "server_timeout_secs": 60,
                "numa": "distribute", "load_mode": "direct-io", "tensor_split": "3,1"},
    "answers": {"reasoning": "off", "reasoning_format": "deepseek", "reasoning_effort": "low", "reasoning_budget": 8,
                "reasoning_budget_message": "enough", "samplers": "top_k;temperature", "adaptive_target": 0.5,
                "adaptive_decay": 50, "sse_ping_interval": 5, "embd_normalize": 1, "chat_template_kwargs": '{"a": 1}',
                "image_min_tokens": 4, "image_max_tokens": 64, "mtmd_batch_max_tokens": 128, "mmproj_offload": False,
                "mmproj_device": "none", "video_fps": 1.0, "video_timestamp_interval": 2.0, "video_ffmpeg_dir": "/usr",
                "server_tools": "get_info", "mcp_servers_json": '{"mcpServers": {}}'},
    "speculation": {"spec": "ngram", "ngram_size_n": 3, "ngram_size_m": 4, "ngram_min_hits": 1,
                    "spec_draft_cpu_range": "0-1", "spec_draft_cpu_strict": True, "spec_draft_ngl": 0,
                    "spec_draft_threads": 1, "spec_draft_prio": 0, "spec_draft_threads_batch": 1,
                    "spec_draft_type_k": "f32", "spec_draft_type_v": "f32", "spec_draft_p_min": 0.1,
                    "spec_draft_p_split": 0.2, "spec_draft_poll": 1, "spec_draft_poll_batch": 0,
                    "spec_draft_backend_sampling": False, "spec_draft_cpu_moe": True, "spec_draft_n_cpu_moe": 1,
                    "ngram_mod_n_match": 8, "ngram_mod_n_max": 9, "ngram_mod_n_min": 4},
    "own": {"model_overrides": {"solo": {"extra_args": ["--metrics"], "chat_template": "chatml", "spm_infill": True,
                                         "warmup": False, "deterministic": True}}},
    "agent": {"agent": True},
}


def embedded():
    path = engine_path()
    argv = (path,) if path else (sys.executable, *EMBEDDED_MODULE)
    return Program("llamacpp", argv, EMBEDDED_FLAVOUR), read_flags(build_parser().format_help())


def llama_server():
    return (Program("llamacpp", (str(built("llama-server")),), "PATH"),
            read_flags((HELP / "llama-server-b11434.txt").read_text()))


ENGINES = {"embedded": embedded, "built": llama_server}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny_gguf(tmp_path_factory.mktemp("flags") / "tiny.gguf")


@pytest.fixture
def launch(model, tmp_path):
    running = []

    def start(program, flags, settings, **fields):
        config = Config.from_dict({"default_ctx": 256, **settings})
        command = LlamaCpp(SETTINGS.values()).command(Launch(
            model="solo", file=Path(model), facts={"format": "gguf", "context_length": 256},
            settings=effective(config, "solo"), program=program, secret_file=None, manifest=Manifest("x", flags),
            **fields))
        with open(tmp_path / "output", "wb") as output:
            process = subprocess.Popen(
                [*command.argv, *LlamaCpp().address_flags(("127.0.0.1", 0))], stdout=output, stderr=output,
                env={"PATH": "/usr/bin:/bin", **command.env}, start_new_session=True)
        running.append(process)
        return process, command

    yield start
    for process in running:
        process.kill()
        process.wait()


def port_of(process, tmp_path):
    def listening():
        assert process.poll() is None, (tmp_path / "output").read_text()[-2000:]
        return processes.owned_listeners(process.pid)
    return until(listening, 20)[0].port


def ask(port, path, body=None):
    data = json.dumps(body).encode() if body else None
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", data, timeout=20) as answer:
        return json.loads(answer.read())


def healthy(port):
    try:
        return ask(port, "/health") == {"status": "ok"}
    except OSError:
        return False


@pytest.mark.parametrize("engine", [pytest.param(name, marks=[pytest.mark.built] if name == "built" else [])
                                    for name in ENGINES])
@pytest.mark.parametrize("group", GROUPS)
def test_an_engine_serves_with_each_group_of_flags(launch, tmp_path, engine, group):
    process, command = launch(*ENGINES[engine](), GROUPS[group])
    port = port_of(process, tmp_path)
    until(lambda: healthy(port), 20)
    props = ask(port, "/props")
    assert props["total_slots"] == command.slots
    answer = ask(port, "/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4})
    assert 1 <= answer["usage"]["completion_tokens"] <= 4
    if group == "own":
        assert "im_start" in props["chat_template"]


@pytest.mark.parametrize("engine", [pytest.param(name, marks=[pytest.mark.built] if name == "built" else [])
                                    for name in ENGINES])
def test_adapters_count_as_much_as_they_are_told_to(launch, tmp_path, engine):
    adapter = tiny_lora(tmp_path / "a.gguf")
    again = tiny_lora(tmp_path / "b.gguf")
    process, _ = launch(*ENGINES[engine](), {"model_overrides": {"solo": {"loras": [
        {"path": str(adapter)}, {"path": str(again), "scale": 0.5}]}}})
    port = port_of(process, tmp_path)
    until(lambda: healthy(port), 20)
    assert [(one["path"], one["scale"]) for one in ask(port, "/lora-adapters")] == [(str(adapter), 1.0),
                                                                                    (str(again), 0.5)]


@pytest.mark.parametrize("engine", [pytest.param(name, marks=[pytest.mark.built] if name == "built" else [])
                                    for name in ENGINES])
def test_an_engine_that_sleeps_wakes_for_the_next_request(launch, tmp_path, engine):
    process, _ = launch(*ENGINES[engine](), {"idle_sleep_secs": 1})
    port = port_of(process, tmp_path)
    until(lambda: healthy(port), 20)
    until(lambda: ask(port, "/props").get("is_sleeping"), 20)
    answer = ask(port, "/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4})
    assert 1 <= answer["usage"]["completion_tokens"] <= 4
    assert not ask(port, "/props").get("is_sleeping")


def test_how_many_drafts_were_right_can_be_read(launch, tmp_path):
    process, command = launch(*embedded(), {"spec": "ngram-cache", "spec_auto_manage": True})
    assert "--metrics" in command.argv
    port = port_of(process, tmp_path)
    until(lambda: healthy(port), 20)
    child = Endpoint("solo#1", "solo", ("127.0.0.1", port), None, "llamacpp", process.pid, 1, 256, 1, 0, -1.0, 0.0)
    assert read_drafts(child) == (0, 0)
    answer = ask(port, "/v1/chat/completions", {"messages": [{"role": "user", "content": "one two " * 20}],
                                                "max_tokens": 48, "temperature": 0})
    timings = answer["timings"]
    assert read_drafts(child) == (timings.get("draft_n", 0), timings.get("draft_n_accepted", 0))
