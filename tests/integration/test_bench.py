"""The instrument itself: the compiled engine and client, alone and with Blazar between them."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from blazar.supervisor import processes
from tools.bench import process, programs, rounds
from tools.bench.blazar_target import Blazar
from tools.bench.machine import Layout
from tools.bench.process import Process
from tools.bench.targets import Direct, Go, Haproxy, Nginx
from tools.bench.workloads import GONE, ONE, Workload

pytestmark = pytest.mark.skipif(not (shutil.which("cc") and shutil.which("taskset")),
                                reason="there is no cc or no taskset; they are in gcc and util-linux")

CORE = min(os.sched_getaffinity(0))
SET = "00c0ffee"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("built")
    return {name: programs.build_c(name, folder) for name in ("engine", "load")}


@pytest.fixture
def engine(built, tmp_path):
    """The engine as a lane would start it; `address` and `unix` say where it listens."""
    key = tmp_path / "key"
    key.write_text("secret\n")
    unix = f"{tmp_path}/engine.sock"
    flags = ["--model", "x.gguf", "--alias", "bench", "--ctx-size", "8192", "--parallel", "4", "--jinja",
             "--n-gpu-layers", "-1", "--api-key-file", str(key), "--host", "127.0.0.1", "--port", "0"]
    server = Process([str(built["engine"]), *flags, "--also-unix", unix], CORE, tmp_path / "engine.log")
    server.address = server.wait_for(lambda: server.line_after("listening on "), 10)
    server.unix = unix
    server.key = key
    yield server
    server.stop()


def load(built, to, *options, name=SET):
    result = subprocess.run([built["load"], "--to", to, "--set", name, *options], capture_output=True, text=True,
                            timeout=30)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def stats(engine, name=SET):
    return process.get_json(engine.address, f"/stats/{name}")


# -- the two programs --------------------------------------------------------------------------------------


def test_both_count_the_same_whole_answers(built, engine):
    client = load(built, engine.address, "--keys", str(engine.key), "--connections", "8", "--seconds", "0.3")
    counted = stats(engine)
    assert client["good"] == client["requests"] == counted["requests"] == counted["finished"] > 8
    assert client["first_error"] == "" and client["latency_us"]["count"] == client["requests"]
    assert counted["completion_tokens"] == 16 * client["requests"]


def test_both_count_the_same_events_of_streams_over_a_unix_socket(built, engine):
    client = load(built, engine.unix, "--keys", str(engine.key), "--stream", "--connections", "4", "--requests", "12",
                  "--tokens", "5", "--interval-us", "2000", "--skip-events", "1", "--warm", "4")
    assert (client["requests"], client["good"], client["events"]) == (12, 12, 60)
    assert stats(engine)["events"] == 60
    assert client["event_delay_us"]["count"] == 8 * 4
    assert client["latency_us"]["p50"] > 4 * 2000


def test_delays_are_kept_and_leaving_is_noticed(built, engine):
    client = load(built, engine.address, "--keys", str(engine.key), "--requests", "3", "--delay-us", "20000")
    assert client["latency_us"]["p50"] >= 20000
    client = load(built, engine.address, "--keys", str(engine.key), "--requests", "3", "--delay-us", "5000000",
                  "--leave-after-us", "20000", name="00000001")
    counted = stats(engine, "00000001")
    assert [serial for serial, _ in client["left"]] == [serial for serial, _ in counted["cancels"]]
    assert (client["ended"], counted["cancelled"], counted["finished"]) == (0, 3, 0)
    assert all(0 < seen - left < 1e9 for (_, left), (_, seen) in zip(client["left"], counted["cancels"], strict=True))


def test_a_large_prompt_arrives_whole(built, engine):
    client = load(built, engine.address, "--keys", str(engine.key), "--requests", "3", "--pad", "3000000")
    assert client["good"] == 3 == stats(engine)["finished"]


def test_the_engine_wants_its_key_and_the_client_says_so(built, engine):
    client = load(built, engine.address, "--requests", "2")
    assert client["errors"]["status"] == 2 and "status 401" in client["first_error"]
    assert stats(engine)["requests"] == 0


def test_an_engine_that_goes_away_is_an_error_and_no_hang(built, engine):
    with subprocess.Popen([built["load"], "--to", engine.address, "--set", SET, "--keys", str(engine.key), "--stream",
                           "--requests", "1", "--tokens", "1000", "--interval-us", "10000"],
                          stdout=subprocess.PIPE) as client:
        engine.wait_for(lambda: stats(engine)["events"] > 2, 10)
        engine.stop()
        report = json.loads(client.communicate(timeout=20)[0])
    assert report["errors"]["cut"] == 1 and report["ended"] == 0


def test_what_takes_too_long_is_unfinished(built, engine):
    client = load(built, engine.address, "--keys", str(engine.key), "--requests", "2", "--connections", "2",
                  "--delay-us", "30000000", "--limit", "0.2")
    assert client["unfinished"] == 2 and client["ended"] == 0


def test_props_tell_more_slots_than_any_run_has_connections(engine):
    status, body = process.get(engine.address, "/props", {"Authorization": "Bearer secret"})
    props = json.loads(body)
    assert status == 200 and props["total_slots"] >= 1000
    assert props["default_generation_settings"]["n_ctx"] == 2048


def marked(nonce):
    return f"@{nonce}.{0:019d};"


HEAD = "HTTP/1.1 200 OK\r\n"
ANSWERS = {
    # what a server answers, by the nonce it was asked with: the errors and the good answers it makes
    "good": (lambda nonce: f"{HEAD}Content-Length: 38\r\n\r\n{marked(nonce)}", {}, 1),
    "in pieces": (lambda nonce: f"{HEAD}Transfer-Encoding: chunked\r\n\r\n10;ext=1\r\n{marked(nonce)[:16]}\r\n16\r\n"
                  f"{marked(nonce)[16:]}\r\n0\r\nX-Trailer: 1\r\n\r\n", {}, 1),
    "until close": (lambda nonce: f"{HEAD}\r\n{marked(nonce)}", {}, 1),
    "crossed": (lambda nonce: f"{HEAD}Content-Length: 38\r\n\r\n{marked(f'{SET}99999999')}", {"wrong": 1}, 0),
    "no event": (lambda nonce: f"{HEAD}Content-Length: 2\r\n\r\n{{}}", {"wrong": 1}, 0),
    "twice": (lambda nonce: f"{HEAD}Content-Length: 76\r\n\r\n{2 * marked(nonce)}", {"wrong": 1}, 0),
    "more than its length": (lambda nonce: f"{HEAD}Content-Length: 38\r\n\r\n{marked(nonce)}x", {"wrong": 1}, 0),
    "cut": (lambda nonce: f"{HEAD}Content-Length: 50\r\n\r\n{marked(nonce)}", {"cut": 1}, 0),
    "cut before its last chunk": (lambda nonce: f"{HEAD}Transfer-Encoding: chunked\r\n\r\n26\r\n{marked(nonce)}\r\n",
                                  {"cut": 1}, 0),
    "no http": (lambda nonce: "x" * 20000, {"cut": 1}, 0),
    "refused": (lambda nonce: "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy", {"status": 1}, 0),
}


# A byte too many that comes later meets an idle connection, which is closed.
@pytest.mark.parametrize(("case", "bytewise"), [(case, bytewise) for case in ANSWERS for bytewise in (False, True)
                                                if not (bytewise and case == "more than its length")])
def test_the_client_checks_what_it_gets(built, case, bytewise):
    answer, errors, good = ANSWERS[case]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve_once, args=(listener, answer, bytewise), daemon=True)
        server.start()
        client = load(built, f"127.0.0.1:{listener.getsockname()[1]}", "--requests", "1", "--limit", "10")
        server.join(10)
    assert {kind: count for kind, count in client["errors"].items() if count} == errors
    assert client["good"] == good


def serve_once(listener, answer, bytewise):
    connection, _ = listener.accept()
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        asked = b""
        while not asked.endswith(b"}]}"):
            asked += connection.recv(65536)
        nonce = re.search(rb"\[bench ([0-9a-f]{16})", asked)[1].decode()
        data = answer(nonce).encode()
        try:
            for start in range(0, len(data), 1 if bytewise and len(data) < 1000 else len(data)):
                connection.sendall(data[start:start + 1] if bytewise and len(data) < 1000 else data)
        except OSError:
            pass  # the client has seen enough


@pytest.mark.parametrize(("options", "words"), [
    (["--requests", "1", "--seconds", "1"], "--requests N"),
    (["--requests", "many"], "--requests many: write a whole number"),
    (["--requests", "1", "--seconds", "-2"], "--seconds -2: write seconds above 0"),
    (["--requests", "1", "--dialect", "soap"], "--dialect soap: write openai, ollama or anthropic"),
    (["--requests", "1", "--keys", "/nonexistent"], "--keys /nonexistent: No such file"),
    (["--requests", "1", "--set", "XYZ"], "--set XYZ: write eight hexadecimal digits"),
])
def test_a_wrong_option_is_told_in_words(built, options, words):
    result = subprocess.run([built["load"], "--to", "127.0.0.1:1", "--set", SET, *options], capture_output=True,
                            text=True)
    assert result.returncode == 1 and words in result.stderr


def test_nobody_there_is_an_error(built):
    client = load(built, f"127.0.0.1:{process.free_port()}", "--requests", "5")
    assert client["errors"]["connect"] > 0 and "Connection refused" in client["first_error"]


# -- with a gateway between them ---------------------------------------------------------------------------

FEW = Workload("few", "a few requests", "--connections 4 --requests 40", frozenset())


@pytest.fixture(scope="module")
def direct(tmp_path_factory):
    target = Direct(Layout.here(), tmp_path_factory.mktemp("direct"))
    target.start()
    yield target
    target.stop()


@pytest.mark.parametrize("kind", [Nginx, Haproxy, Go])
def test_references_pass_everything_on(kind, direct, tmp_path):
    target = kind(direct.layout, tmp_path, direct.engine)
    try:
        try:
            target.start()
        except programs.ProgramMissing as missing:
            pytest.skip(str(missing))
        row = rounds.run(target, FEW)
        assert row["check"] == "no audit" and row["client"]["good"] == 40 and row["cpu_ns"] > 0
        assert re.fullmatch(r"\d+(\.\d+)+", target.version())
    finally:
        target.stop()


def test_blazar_is_measured_with_our_engine_as_its_child(tmp_path):
    target = Blazar(Layout.here(), tmp_path)
    try:
        target.start()
        assert target.worker_pid() in target.pids()
        target.load()
        child = Path(f"/proc/{target._child.pid}/exe").resolve()
        assert child == programs.BUILD / "engine" and target._child.pid not in target.pids()
        for workload in (FEW, ONE, GONE):
            assert rounds.run(target, workload)["check"] in ("ok", "no audit")
        for dialect in ("ollama", "anthropic"):
            row = rounds.run(target, Workload("few", "", f"--requests 8 --stream --tokens 6 --dialect {dialect}",
                                              frozenset()))
            assert row["check"] in ("ok", "no audit") and row["client"]["events"] == 48
    finally:
        target.stop()


def test_an_engine_that_is_gone_makes_the_row_invalid(tmp_path):
    direct = Direct(Layout.here(), tmp_path)
    try:
        direct.start()
        gateway = Go(direct.layout, tmp_path, direct.engine)
        gateway.to = direct.engine
        direct.stop()
        row = rounds.run(gateway, FEW)
        assert row["check"].startswith("INVALID: the engine is gone") and "Connection refused" in row["check"]
    finally:
        direct.stop()


def test_a_run_that_is_ended_early_ends_what_it_started(tmp_path):
    bench = subprocess.Popen([sys.executable, "-m", "tools.bench", "--quick", "--only", "one", "--rounds", "99"],
                             env={**os.environ, "TMPDIR": str(tmp_path)}, text=True, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
    for line in bench.stdout:
        if line.startswith("1  one"):
            break
    assert ours(tmp_path)
    bench.terminate()
    assert "ended early" in bench.communicate(timeout=30)[1] and bench.returncode == 130
    assert not ours(tmp_path)


def ours(folder):
    """Processes whose command names something in `folder`."""
    return [pid for pid in processes.all_pids() if str(folder) in processes.command_of(pid)]
