import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace

import pytest

from blazar.engines.embedded import build_parser, fill, main
from blazar.engines.embedded_flags import ENUMS, PLAIN, SPECULATION, SWITCHES
from blazar.errors import UsageRefused
from blazar.supervisor import processes
from tests.support.tiny_gguf import tiny_gguf
from tests.support.waiting import until

ROOT = Path(__file__).parent.parent.parent.parent


class Names:
    """An enumeration of xllamacpp: each name is there, and is its own value."""

    def __getattr__(self, name):
        return name


class Params:
    """CommonParams, with every structure in it that is asked for."""

    def __getattr__(self, name):
        if name.startswith("__") or name not in {"model", "cpuparams", "cpuparams_batch", "sampling", "speculative",
                                                 "draft", "mparams", "mmproj", "ngram_simple", "ngram_map_k",
                                                 "ngram_map_k4v", "ngram_mod", "ngram_cache"}:
            raise AttributeError(name)
        self.__dict__[name] = Params()
        return self.__dict__[name]


class Engine:
    CommonAdapterLoraInfo = SimpleNamespace

    def __getattr__(self, name):
        return Names()


def filled(*words):
    return fill(Params(), build_parser().parse_args(["-m", "m.gguf", *words]), Engine())


@pytest.mark.parametrize("words, attribute, value", [
    ([], "hostnames", ["127.0.0.1"]), ([], "port", 8080),
    (["--host", "/run/m.sock", "--port", "0"], "hostnames", ["/run/m.sock"]),
    (["--port", "0"], "port", 0), (["-c", "512"], "n_ctx", 512), (["--ctx-size", "0"], "n_ctx", 0),
    (["-np", "3"], "n_parallel", 3), (["-b", "64"], "n_batch", 64), (["--ubatch-size", "32"], "n_ubatch", 32),
    (["--alias", "a, b,"], "model_alias", {"a", "b"}), (["--api-key", "k1,k2"], "api_keys", ["k1", "k2"]),
    (["--embeddings"], "embedding", True), (["--pooling", "mean"], "pooling_type", "LLAMA_POOLING_TYPE_MEAN"),
    (["--metrics"], "endpoint_metrics", True), (["--props"], "endpoint_props", True),
    (["--no-slots"], "endpoint_slots", False), (["--slots"], "endpoint_slots", True),
    (["--slot-save-path", "/s/"], "slot_save_path", "/s/"), (["--sleep-idle-seconds", "3"], "sleep_idle_seconds", 3),
    (["--jinja"], "use_jinja", True), (["--no-webui"], "ui", False), (["--timeout", "7"], "timeout_write", 7),
    (["--no-kv-unified"], "kv_unified", False), (["--no-repack"], "no_extra_bufts", True),
    (["--cpu-strict", "1"], "cpuparams.strict_cpu", True), (["--poll-batch", "50"], "cpuparams_batch.poll", 50),
    (["--cache-type-k", "iq4_nl"], "cache_type_k", "GGML_TYPE_IQ4_NL"),
    (["--load-mode", "dio"], "load_mode", "LLAMA_LOAD_MODE_DIRECT_IO"),
    (["--prio", "-1"], "cpuparams.priority", "GGML_SCHED_PRIO_LOW"),
    (["--reasoning", "off"], "enable_reasoning", 0), (["--rope-scale", "4"], "rope_freq_scale", 0.25),
    (["--spec-type", "ngram-map-k"], "speculative.types", ["COMMON_SPECULATIVE_TYPE_NGRAM_MAP_K"]),
    (["--spec-ngram-map-k-size-n", "5"], "speculative.ngram_map_k.size_n", 5),
    (["--spec-draft-model", "/d"], "speculative.draft.mparams.path", "/d"),
    (["--cpu-range", "2-3"], "cpuparams.mask_valid", True),
    (["--cpu-range", "2-3"], "cpuparams.cpumask", [False, False, True, True, *[False] * 508]),
    (["--tensor-split", "3,1"], "tensor_split", [3.0, 1.0, *[0.0] * 126]),
    (["--n-cpu-ffn", "1", "-ot", "x=CPU"], "tensor_buft_overrides",
     r"blk\.0\.ffn_(up|down|gate)\.weight=CPU,x=CPU"),
    (["--cpu-moe"], "tensor_buft_overrides", "ffn_(up|down|gate|gate_up)_(ch|)exps=CPU"),
    (["--chat-template-kwargs", '{"a": true, "b": "c"}'], "default_template_kwargs", {"a": "true", "b": '"c"'}),
    (["--tools", "get_info,read_file"], "server_tools", ["get_info", "read_file"]),
    (["--agent"], "server_tools", ["all"]), (["--agent"], "cors_origins", "localhost"),
    (["--mcp-servers-json", "{}"], "cors_origins", "localhost"),
    (["--lora", "/a", "--lora-scaled", "/b:0.5"], "lora_adapters",
     [SimpleNamespace(path="/a", scale=1.0), SimpleNamespace(path="/b", scale=0.5)]),
])
def test_flags_fill_the_parameters(words, attribute, value):
    assert attrgetter(attribute)(filled(*words)) == value


def test_what_is_not_given_keeps_the_engines_default():
    params = filled()
    assert not hasattr(params, "n_ctx") and not hasattr(params, "api_keys") and not hasattr(params, "ui")
    assert not hasattr(params.cpuparams, "n_threads") and not hasattr(params, "tensor_buft_overrides")
    assert filled("-t", "2", "-tb", "3").cpuparams_batch.n_threads == 3


def test_keys_and_template_come_from_files(tmp_path):
    (tmp_path / "keys").write_text("# comment\none\n\ntwo \n")
    (tmp_path / "chat.jinja").write_text("{{ messages }}")
    params = filled("--api-key-file", str(tmp_path / "keys"), "--chat-template-file", str(tmp_path / "chat.jinja"))
    assert params.api_keys == ["one", "two"]
    assert params.chat_template == "{{ messages }}"
    with pytest.raises(UsageRefused, match="--api-key-file"):
        filled("--api-key-file", str(tmp_path / "none"))


@pytest.mark.parametrize("words", [["--bogus"], ["--ctx", "5"], ["--port", "x"], ["--pooling", "sum"],
                                   ["--spec-type", "none,magic"], ["--chat-template-kwargs", "[1]"]])
def test_unknown_flags_are_refused_with_2(words, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["-m", "m.gguf", *words])
    assert caught.value.code == 2
    assert words[0] in capsys.readouterr().err


def test_every_flag_is_one_of_llama_servers():
    known = (ROOT / "tests" / "data" / "help" / "llama-server-b11434.txt").read_text().replace(",", " ").split()
    flags = {flag for action in build_parser()._actions for flag in action.option_strings}
    assert flags - set(known) == set()


@pytest.fixture
def launch(tmp_path):
    pytest.importorskip("xllamacpp")
    running = []

    def start(*words):
        process = subprocess.Popen([sys.executable, "-P", "-m", "blazar.engines.embedded", *words],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}, start_new_session=True)
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.wait()


def ask(port, path, key=None):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}",
                                     headers={"Authorization": f"Bearer {key}"} if key else {})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_on_a_port_of_its_own_and_ends_with_0(launch, tmp_path, number):
    tiny_gguf(tmp_path / "tiny.gguf")
    (tmp_path / "keys").write_text("sesame\n")
    process = launch("-m", str(tmp_path / "tiny.gguf"), "--port", "0", "-c", "512", "-np", "2", "--alias", "tiny",
                     "--api-key-file", str(tmp_path / "keys"))
    port = until(lambda: processes.owned_listeners(process.pid))[0].port
    until(lambda: ask(port, "/health")[0] == 200)
    assert ask(port, "/props")[0] == 401
    status, props = ask(port, "/props", "sesame")
    assert (status, props["total_slots"], props["default_generation_settings"]["n_ctx"]) == (200, 2, 256)
    assert ask(port, "/v1/models", "sesame")[1]["data"][0]["id"] == "tiny"
    until(lambda: "listening" in process.stdout.readline())
    process.send_signal(number)
    assert process.wait(10) == 0


def test_a_bad_model_ends_with_1_and_the_reason(launch, tmp_path):
    (tmp_path / "bad.gguf").write_bytes(b"GGUF" + bytes(100))
    for name, reason in (("bad.gguf", "bad.gguf"), ("none.gguf", "cannot read the model file")):
        process = launch("-m", str(tmp_path / name), "--port", "0")
        said = process.communicate(timeout=20)[0]
        assert process.returncode == 1
        assert reason in said  # the engine itself may be the last to speak
        assert "Traceback" not in said


def test_version_and_help(launch):
    assert launch("--version").communicate(timeout=10)[0].startswith("version: xllamacpp ")
    assert "--slot-save-path" in launch("--help").communicate(timeout=10)[0]


def test_xllamacpp_has_every_attribute_and_name_that_a_flag_sets():
    engine = pytest.importorskip("xllamacpp")
    params = engine.CommonParams()
    for _flags, attributes, *_rest in (*PLAIN, *SWITCHES, *ENUMS):
        for attribute in attributes.split():
            attrgetter(attribute)(params)
    for _flags, _attribute, enum, prefix, words, _text in ENUMS:
        assert all(hasattr(getattr(engine, enum), prefix + name) for name in words.values())
    types = [f"COMMON_SPECULATIVE_TYPE_{word.upper().replace('-', '_')}" for word in SPECULATION]
    assert all(hasattr(engine.common_speculative_type, name) for name in types)
