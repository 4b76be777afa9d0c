"""The verbs as a person types them, with and without a daemon."""

import json
import os
import re
import signal
import socket
import subprocess

import pytest

from blazar.control import connect
from tests.support.shell import BLAZAR, Shell, StubShell, free_port
from tests.support.tiny_gguf import tiny_gguf
from tests.support.waiting import until


@pytest.fixture
def shell(tmp_path):
    shell = Shell(tmp_path)
    yield shell
    shell.stop()


@pytest.fixture
def solo(shell):
    """The name of a tiny model that is installed."""
    file = tiny_gguf(shell.home / "solo.gguf")
    shell.ok("pull", str(file), "--name", "solo:f32")
    return "solo:f32"


@pytest.fixture
def served(shell, solo):
    shell.start()
    return solo


# -- without a daemon ------------------------------------------------------------------------------------


def test_local_verbs_work_without_a_daemon_and_say_so(shell, solo):
    for arguments in (["list"], ["show", "solo"], ["rm", solo]):
        done = shell(*arguments)
        assert done.returncode == 0
        assert "no daemon answers at http://127.0.0.1:" in done.stderr
        assert str(shell.home / ".local/share/blazar") in done.stderr
    assert json.loads(shell.ok("list", "--json")) == []


def test_what_is_listed_and_shown_locally(shell, solo):
    listed = json.loads(shell.ok("list", "--json"))
    assert [(model["name"], model["details"]["format"]) for model in listed] == [(solo, "gguf")]
    assert shell.ok("list").splitlines()[1].startswith(f"{solo}  {listed[0]['digest'][:12]}  ")
    shown = json.loads(shell.ok("show", "solo", "--json"))
    assert shown["model_info"]["general.architecture"] == "llama"
    assert "<|im_start|>" in shell.ok("show", "solo", "--template")
    assert re.search(r"^context length +4096$", shell.ok("show", "solo"), re.MULTILINE)


@pytest.mark.parametrize("arguments", [["ps"], ["run", "solo", "hello"], ["stop", "solo"]])
def test_verbs_that_need_a_daemon_say_how_to_start_one(shell, arguments):
    done = shell(*arguments)
    assert (done.returncode, done.stdout) == (4, "")
    assert re.fullmatch(r"blazar: no daemon answers at http://127\.0\.0\.1:\d+; start one with `blazar serve`.*\n",
                        done.stderr)


@pytest.mark.parametrize("arguments", [["list"], ["show", "solo"], ["rm", "solo"]])
def test_a_daemon_that_was_named_is_never_replaced_by_this_machine(shell, solo, arguments):
    done = shell(*arguments, BLAZAR_HOST=f"127.0.0.1:{free_port()}")
    assert done.returncode == 4
    assert [model["name"] for model in json.loads(shell.ok("list", "--json"))] == [solo]


def test_an_unknown_model_is_one_line(shell, solo):
    for verb in ("show", "rm"):
        done = shell(verb, "nobody")
        assert done.returncode == 1
        last = done.stderr.splitlines()[-1]
        assert last.startswith("blazar: model 'nobody") and "blazar list" in last


def test_pulling_the_same_file_twice_changes_nothing(shell, solo):
    assert "installed already" in shell.ok("pull", str(shell.home / "solo.gguf"), "--name", solo)


@pytest.mark.parametrize(("name", "content"), [("text.gguf", b"this is no model"), ("cut.gguf", b"GGUF\x03\0\0\0")])
def test_a_file_that_is_no_model_is_refused_in_words(shell, name, content):
    (shell.home / name).write_bytes(content)
    done = shell("pull", str(shell.home / name))
    assert done.returncode == 1 and "is not a usable GGUF file" in done.stderr


def test_a_refused_configuration_is_told_and_ends_with_2(shell):
    shell.config.write_text("prot = 8080\n")
    for arguments in (["serve"], ["ps"], ["config", "check"]):
        done = shell(*arguments)
        assert done.returncode == 2, arguments
        assert "prot" in done.stderr and str(shell.config) in done.stderr


WRONG_FILES = {
    # FC-31: bytes of the file, and what the refusal must say
    "utf-16": ("port = 1\n".encode("utf-16"), "UTF-16"),
    "unknown key": (b"max_loaded_model = 2", "did you mean `max_loaded_models`?"),
    "unknown field of a key": (b'[[keys]]\nkey = "s"\nmodles = ["m"]', "did you mean `models`?"),
    "of a remote": (b'[[remotes]]\nname = "a"\nur1 = "https://x"', "did you mean `url`?"),
    "of a server": (b'[[mcp]]\nname = "a"\ncommand = ["x"]\nalowed_env = []', "did you mean `allowed_env`?"),
    "of a model": (b"[model_overrides.m]\nctxx = 5", "did you mean `ctx`?"),
    "wrong group": (b"[gateway]\ndefault_ctx = 5", "[resources]"),
    "twice": (b"port = 0\n[gateway]\nport = 0", "keep one of the two"),
    "unknown group": (b"[gatway]\nport = 0", "did you mean [gateway]?"),
    "text": (b'port = "11435"', "write 11435 without quotes"),
    "too high": (b"port = 70000", "from 0 to 65535"), "boolean": (b"port = true", "not a whole number"),
    "same line twice": (b"port = 0\nport = 0", "line 2, key `port`: it is written in line 1 already"),
}


@pytest.mark.parametrize("case", WRONG_FILES)
def test_no_daemon_starts_with_a_wrong_file(shell, case):
    content, words = WRONG_FILES[case]
    shell.config.write_bytes(content)
    done = shell("serve")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"blazar: {shell.config}") and words in done.stderr
    changed = shell("config", "set", "log_level", "debug")
    assert changed.returncode != 0 and shell.config.read_bytes() == content, "nothing is written over it"


def test_no_daemon_starts_with_a_wrong_variable(shell):
    done = shell("serve", BLAZAR_DEFAULT_CTX="abc")
    assert done.returncode == 2 and "environment variable BLAZAR_DEFAULT_CTX" in done.stderr


@pytest.mark.parametrize("content", [
    b"", b'\xef\xbb\xbfport = 0\r\n' + '[[keys]]\r\nname = "Jürgen"\r\nkey = "s"\r\nmodels = ["模型:q4"]\r\n'
    '[model_overrides."模型:q4"]\r\nctx = 5\r\n'.encode()], ids=["empty", "bom, crlf, other letters"])
def test_a_daemon_starts_with_an_odd_but_right_file(tmp_path, content):
    """FC-31."""
    shell = StubShell(tmp_path)
    shell.config.write_bytes(content)
    assert shell("config", "set", "port", str(free_port())).returncode == 0
    assert shell.config.read_bytes().endswith(content.partition(b"\n")[2])
    shell.start()
    try:
        assert (shell("list").returncode == 0) == (content == b""), "a key that is written down is asked for"
    finally:
        shell.stop()


def test_doctor_names_what_is_missing(shell):
    findings = {row["check"]: row for row in json.loads(shell("doctor", "--json").stdout)}
    assert list(findings) == ["config", "data dir", "permissions", "clock", "machine", "drivers", "programs", "limits",
                              "engine", "lanes", "devices", "rpc workers", "model", "port"]
    assert findings["model"]["state"] == "warn" and "blazar pull" in findings["model"]["remedy"]
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        shell.config.write_text(f"port = {other.getsockname()[1]}\n")
        done = shell("doctor")
    assert done.returncode == 1 and "taken by another program" in done.stdout


def test_a_taken_port_ends_with_3(shell):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = shell("serve", "--port", str(port))
    assert done.returncode == 3
    refusal = done.stderr.splitlines()[-1]
    assert refusal.startswith(f"blazar: cannot listen on 127.0.0.1:{port}:") and "--port" in refusal


# -- with a daemon ---------------------------------------------------------------------------------------


def test_a_model_lives_its_life(shell, served):
    assert [model["name"] for model in json.loads(shell.ok("list", "--json"))] == [served]
    assert json.loads(shell.ok("ps", "--json")) == []
    answer = shell.ok("run", "solo", "hello", "there", "--max-tokens", "5", "--temperature", "0")
    assert answer.endswith("\n") and len(answer) > 1
    assert shell.ok("run", "solo", stdin="hello there\n") != ""
    loaded = json.loads(shell.ok("ps", "--json"))
    assert [model["name"] for model in loaded] == [served]
    assert re.search(r"^solo:f32 .* (in \d|never)", shell.ok("ps"), re.MULTILINE)
    shell.ok("stop", "solo")
    assert json.loads(shell.ok("ps", "--json")) == []
    assert shell.ok("rm", "solo") == "removed solo\n"
    assert json.loads(shell.ok("list", "--json")) == []


def test_seeded_answers_repeat(shell, served):
    asked = ("run", "solo", "hello", "--seed", "7", "--temperature", "1", "--max-tokens", "12")
    assert shell.ok(*asked) == shell.ok(*asked)


def test_local_and_served_lists_are_the_same(shell, solo):
    local, shown = json.loads(shell.ok("list", "--json")), json.loads(shell.ok("show", "solo", "--json"))
    shell.start()
    assert json.loads(shell.ok("list", "--json")) == local
    assert json.loads(shell.ok("show", "solo", "--json")) == shown


def test_a_running_daemon_learns_of_a_pull_at_once(shell, served):
    file = tiny_gguf(shell.home / "second.gguf", seed=2)
    shell.ok("pull", str(file), "--name", "second:f32")
    assert "second:f32" in shell.ok("list")
    assert shell.ok("run", "second", "hello", "--max-tokens", "3") != ""


def test_unknown_models_are_told_in_the_daemon_s_words(shell, served):
    for arguments in (["show", "nobody"], ["run", "nobody", "hi"], ["rm", "nobody"], ["stop", "nobody"]):
        done = shell(*arguments)
        assert done.returncode == 1
        assert done.stderr.startswith("blazar: model 'nobody") and done.stderr.count("\n") == 1


def test_blazar_host_leads_to_the_daemon_from_anywhere(shell, served, tmp_path_factory):
    elsewhere = str(tmp_path_factory.mktemp("elsewhere"))
    for target in (shell.url, shell.url.removeprefix("http://")):
        assert served in shell.ok("list", HOME=elsewhere, BLAZAR_HOST=target)


def test_ctrl_c_stops_an_answer_and_ends_with_130(shell, served):
    asking = subprocess.Popen([*BLAZAR, "run", "solo", "hello", "--max-tokens", "3000"], env=shell.env,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    assert asking.stdout.read(1)
    asking.send_signal(signal.SIGINT)
    _, errors = asking.communicate(timeout=10)
    assert (asking.returncode, errors) == (130, b"")


def test_a_reader_that_leaves_is_quiet(shell, served):
    done = subprocess.run(["bash", "-c", "set -o pipefail; \"$@\" | head -c 1 >/dev/null", "-",
                           *BLAZAR, "show", "solo", "--json"], env=shell.env, capture_output=True, timeout=30)
    assert done.stderr == b""


def test_a_second_daemon_on_one_data_dir_is_told_who_runs(shell, served):
    done = shell("start", "--port", "0")
    assert done.returncode == 3
    assert f"already running, pid {shell.daemon.pid}" in done.stderr


def test_doctor_sees_the_daemon(shell, served):
    findings = {row["check"]: row for row in json.loads(shell("doctor", "--json").stdout)}
    assert findings["port"]["state"] == "ok" and shell.url in findings["port"]["found"]
    assert findings["model"]["found"] == f"1 installed: {served}"


def test_a_key_is_sent_from_the_environment(shell, solo):
    shell.config.write_text('[[keys]]\nname = "laptop"\nkey = "a-long-secret"\n')
    shell.start()
    refused = shell("list")
    assert refused.returncode == 1 and "API key" in refused.stderr
    assert solo in shell.ok("list", BLAZAR_API_KEY="a-long-secret")


def test_keys_may_come_from_the_daemon_s_environment(shell, solo):
    shell.env["BLAZAR_KEYS"] = "laptop:a-long-secret"
    shell.start()
    assert shell("list").returncode == 1
    assert solo in shell.ok("list", BLAZAR_API_KEY="a-long-secret")


def test_what_is_removed_beside_a_daemon_that_does_not_answer_is_gone_there_too(shell, served):
    worker = gateway_worker(shell)
    os.kill(worker, signal.SIGSTOP)
    try:
        done = shell("rm", served)
    finally:
        os.kill(worker, signal.SIGCONT)
    assert "no daemon answers" in done.stderr
    assert done.stdout == f"removed {served}\n", done.stderr
    until(lambda: json.loads(shell.ok("list", "--json")) == [])


def gateway_worker(shell):
    link = connect(shell.home / ".local/share/blazar/run/control.sock")
    try:
        return link.ask("status", 5)["gateway"]["workers"][0]
    finally:
        link.close()
