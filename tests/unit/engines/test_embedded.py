import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import pytest

from blazar.engines.embedded import build_parser, fill, main
from blazar.errors import UsageRefused
from blazar.supervisor import processes
from tests.support.tiny_gguf import tiny_gguf
from tests.support.waiting import until

ROOT = Path(__file__).parent.parent.parent.parent


def filled(*words):
    params = SimpleNamespace(model=SimpleNamespace(path=""), cpuparams=SimpleNamespace(n_threads=0),
                             cpuparams_batch=SimpleNamespace(n_threads=0))
    return fill(params, build_parser().parse_args(["-m", "m.gguf", *words]), str.upper)


@pytest.mark.parametrize("words, attribute, value", [
    ([], "hostnames", ["127.0.0.1"]), ([], "port", 8080),
    (["--host", "/run/m.sock", "--port", "0"], "hostnames", ["/run/m.sock"]),
    (["--port", "0"], "port", 0), (["-c", "512"], "n_ctx", 512), (["--ctx-size", "0"], "n_ctx", 0),
    (["-np", "3"], "n_parallel", 3), (["-b", "64"], "n_batch", 64), (["--ubatch-size", "32"], "n_ubatch", 32),
    (["--alias", "a, b,"], "model_alias", {"a", "b"}), (["--api-key", "k1,k2"], "api_keys", ["k1", "k2"]),
    (["--embeddings"], "embedding", True), (["--pooling", "mean"], "pooling_type", "MEAN"),
    (["--metrics"], "endpoint_metrics", True), (["--props"], "endpoint_props", True),
    (["--no-slots"], "endpoint_slots", False), (["--slots"], "endpoint_slots", True),
    (["--slot-save-path", "/s/"], "slot_save_path", "/s/"), (["--sleep-idle-seconds", "3"], "sleep_idle_seconds", 3),
    (["--jinja"], "use_jinja", True), (["--no-webui"], "ui", False), (["--timeout", "7"], "timeout_write", 7),
])
def test_flags_fill_the_parameters(words, attribute, value):
    assert getattr(filled(*words), attribute) == value


def test_what_is_not_given_keeps_the_engines_default():
    params = filled()
    assert not hasattr(params, "n_ctx") and not hasattr(params, "api_keys") and not hasattr(params, "ui")
    assert params.cpuparams.n_threads == 0
    assert filled("-t", "2", "-tb", "3").cpuparams_batch.n_threads == 3


def test_keys_and_template_come_from_files(tmp_path):
    (tmp_path / "keys").write_text("# comment\none\n\ntwo \n")
    (tmp_path / "chat.jinja").write_text("{{ messages }}")
    params = filled("--api-key-file", str(tmp_path / "keys"), "--chat-template-file", str(tmp_path / "chat.jinja"))
    assert params.api_keys == ["one", "two"]
    assert params.chat_template == "{{ messages }}"
    with pytest.raises(UsageRefused, match="--api-key-file"):
        filled("--api-key-file", str(tmp_path / "none"))


@pytest.mark.parametrize("words", [["--bogus"], ["--ctx", "5"], ["--port", "x"], ["--pooling", "sum"]])
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
