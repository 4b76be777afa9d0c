"""`blazar keys` beside a running daemon: keys are let in and refused at once, and no secret is left anywhere."""

import http.client
import json
import os
import re
import signal

import pytest

from blazar.control import connect
from blazar.errors import ConfigRefused
from blazar.supervisor import processes
from tests.support.shell import StubShell
from tests.support.waiting import until

CHAT = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]})


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    shell = StubShell(tmp_path_factory.mktemp("keys") / "home")
    shell.config.write_text(f'{shell.config.read_text()}[[keys]]\nname = "root"\nkey = "sk-root-in-plain"\n')
    shell.start()
    yield shell
    shell.stop()


class Caller:
    """One connection that is kept alive."""

    def __init__(self, shell, key):
        self.connection = http.client.HTTPConnection(shell.url.removeprefix("http://"), timeout=30)
        self.key = key

    def __call__(self, method="GET", path="/v1/models", body=None):
        self.connection.request(method, path, body, {"x-api-key": self.key})
        response = self.connection.getresponse()
        self.body = response.read().decode()
        return response.status


def added(shell, name, *options):
    return shell.ok("keys", "add", name, *options).strip()


def test_a_key_counts_and_no_longer_counts_at_once(shell):
    ann = Caller(shell, added(shell, "ann", "--rpm", "1"))
    assert (ann("POST", "/v1/chat/completions", CHAT), ann("POST", "/v1/chat/completions", CHAT)) == (200, 429)
    assert (ann(), ann()) == (200, 200), "its head is known by now"
    done = shell("keys", "revoke", "ann")
    assert done.stdout == "revoked ann\n" and "goes by it from now on" in done.stderr
    assert ann() == 401 and "not one of this server's" in ann.body
    again = Caller(shell, added(shell, "ann"))
    assert again() == 200 and ann() == 401
    assert again("POST", "/v1/chat/completions", CHAT) == 200, "the new key has no limit"


def test_a_new_gateway_worker_has_the_keys_of_now(shell):
    late = Caller(shell, added(shell, "late"))
    assert late() == 200
    link = connect(shell.paths.control_socket)
    try:
        [worker] = link.ask("status", 20)["gateway"]["workers"]
        os.kill(worker, signal.SIGKILL)
        until(lambda: link.ask("status", 20)["gateway"]["workers"] not in ([], [worker]), 20)
    finally:
        link.close()
    assert Caller(shell, late.key)() == 200 and Caller(shell, "sk-nobody")() == 401


def test_a_file_that_the_daemon_does_not_read_is_told(shell, tmp_path):
    other = tmp_path / "other.toml"
    other.write_text("")
    done = shell("keys", "add", "elsewhere", "--config", str(other), "--json")
    assert f"has {shell.config} as its settings file" in done.stderr
    told = json.loads(done.stdout)
    assert told["in_force"] is False and Caller(shell, told["key"])() == 401
    done = shell("config", "set", "max_queued", "9", "--config", str(other))
    assert f"has {shell.config} as its settings file" in done.stderr and "blazar reload" not in done.stderr
    assert "blazar reload" in shell("config", "set", "max_queued", "9").stderr


@pytest.mark.parametrize("text", [None, "[broken", '[[keys]]\nkey = "sha256:beef"\n'])
def test_a_settings_file_that_went_wrong_or_away_takes_no_key_from_anybody(shell, text):
    before, root = shell.config.read_text(), Caller(shell, "sk-root-in-plain")
    link = connect(shell.paths.control_socket)
    try:
        shell.config.unlink()
        if text is not None:
            shell.config.write_text(text)
        with pytest.raises(ConfigRefused, match=re.escape(str(shell.config))) as refused:
            link.ask("keys", 20)
        assert "beef" not in str(refused.value)
    finally:
        link.close()
        shell.config.write_text(before)
    assert root() == 200 and Caller(shell, "sk-nobody")() == 401


def test_no_secret_is_left_anywhere(shell):
    secrets = [added(shell, "quiet"), "sk-root-in-plain"]
    callers = [Caller(shell, secret) for secret in secrets]
    for caller in callers:
        assert caller("POST", "/v1/chat/completions", CHAT) == 200
        assert caller("POST", "/api/chat", '{"model": "nope"}') == 404
        assert caller("POST", "/v1/messages", "{") == 400
        assert caller("GET", "/metrics") == 200 and 'key="quiet"' in caller.body
        assert not any(secret in caller.body for secret in secrets)
    listed = shell.ok("keys", "list", "--json") + shell.ok("keys", "usage") + shell.ok("config", "list", "--json")
    assert not any(secret in listed for secret in secrets)
    files = [file for file in shell.home.rglob("*") if file.is_file() and file != shell.config]
    assert {"audit.jsonl", "daemon.log", "blazar.db"} <= {file.name for file in files}
    assert secrets[0] not in shell.config.read_text()
    for file in files:
        data = file.read_bytes()
        assert not any(secret.encode() in data for secret in secrets), file
    for pid in processes.marked(shell.paths.data_dir_id):
        with open(f"/proc/{pid}/cmdline", "rb") as words, open(f"/proc/{pid}/environ", "rb") as environment:
            data = words.read() + environment.read()
        assert not any(secret.encode() in data for secret in secrets), pid
