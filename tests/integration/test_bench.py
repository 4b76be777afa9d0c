"""The instrument itself: the compiled engine and client, alone and with Blazar between them."""

import contextlib
import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from blazar.config.load import load as load_config
from blazar.supervisor import processes
from tools.bench import figures, process, programs, rounds, soak
from tools.bench.__main__ import references
from tools.bench.blazar_target import KEY_NAMES, Blazar
from tools.bench.machine import Layout
from tools.bench.process import Process
from tools.bench.targets import LITELLM_VENV, Direct, Go, Haproxy, Nginx, Target
from tools.bench.workloads import ALONE, GONE, ONE, Workload

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

FEW = Workload("few", "a few requests", "--connections 4 --requests 40", ALONE)


@pytest.fixture(scope="module")
def direct(tmp_path_factory):
    target = Direct(Layout.here(), tmp_path_factory.mktemp("direct"))
    target.start()
    yield target
    target.stop()


@contextlib.contextmanager
def reference(kind, direct, folder):
    """One of them, started; the test is left out where it is not there."""
    target = kind(direct.layout, folder, direct.engine)
    try:
        try:
            target.start()
        except programs.ProgramMissing as missing:
            pytest.skip(str(missing))
        yield target
    finally:
        target.stop()


@pytest.mark.parametrize("kind", [Nginx, Haproxy, Go])
def test_references_pass_everything_on(kind, direct, tmp_path):
    with reference(kind, direct, tmp_path) as target:
        row = rounds.run(target, FEW)
        assert row["check"] == "no audit" and row["client"]["good"] == 40 and row["cpu_ns"] > 0
        assert re.fullmatch(r"\d+(\.\d+)+", target.version())


def test_nginx_passes_large_bodies_and_streams_on_without_a_file(direct, tmp_path):
    with reference(Nginx, direct, tmp_path) as nginx:
        folders = [tmp_path / "body", tmp_path / "proxy"]
        before = [folder.stat().st_mtime_ns for folder in folders]
        with unread(nginx, f"[bench {SET}00000000 tokens=8000 interval_us=0 delay_us=0 bytes=4000]"):
            for options in ("--pad 200000", "--stream --tokens 500 --event-bytes 4000"):
                row = rounds.run(nginx, Workload("large", "", f"--connections 4 --requests 4 {options}", ALONE))
                assert row["check"] == "no audit" and row["client"]["good"] == 4
            assert process.get_json(direct.engine, f"/stats/{SET}")["finished"] == 0
        # a file that was made and removed again changes the time of its folder
        assert [folder.stat().st_mtime_ns for folder in folders] == before
        assert not any(file for folder in folders for file in folder.iterdir())
        assert "temporary file" not in (tmp_path / "nginx.log").read_text()


@contextlib.contextmanager
def unread(target, prompt):
    """A stream that has begun, and of which the client reads no more."""
    body = json.dumps({"model": "bench", "stream": True, "messages": [{"role": "user", "content": prompt}]})
    host, _, port = target.to.partition(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n"
                       f"{body}".encode())
        assert client.recv(1024).startswith(b"HTTP/1.1 200 OK")
        yield


def test_haproxy_passes_on_that_a_client_has_left(direct, tmp_path):
    with reference(Haproxy, direct, tmp_path) as haproxy:
        row = rounds.run(haproxy, Workload("gone", "", f"{GONE.options} --requests 1 --delay-us 9000000", ALONE))
        assert row["check"] == "no audit" and row["engine"]["cancelled"] == 1 == len(row["client"]["left"])
        assert 0 < figures.noticed(row) < 2_000_000


@pytest.mark.parametrize(("quick", "names"), [(True, ["go", "nginx"]), (False, ["go", "haproxy", "nginx"])])
def test_a_quick_run_compares_with_nginx_and_go_alone_and_what_is_missing_is_said(quick, names, direct, tmp_path,
                                                                                  monkeypatch):
    monkeypatch.delenv(LITELLM_VENV, raising=False)
    if not quick:  # without Go, whether it is installed or not; daemons are found all the same
        (tmp_path / "taskset").symlink_to(shutil.which("taskset"))
        monkeypatch.setenv("PATH", str(tmp_path))
    missing: dict[str, str] = {}
    with contextlib.ExitStack() as running:
        found = [one.name for one in references(direct.layout, tmp_path, direct.engine, quick, running, missing)]
    assert sorted([*found, *missing]) == names
    assert all(f"`sudo apt-get install {programs.PACKAGES[name]}` brings it" in why for name, why in missing.items())
    assert quick or "go" in missing


def test_every_target_has_its_turn_and_the_order_is_another_each_time(direct):
    workloads = [Workload("a", "", "--requests 1", frozenset({"direct", "nginx"}), repeats=2),
                 Workload("b", "", "--requests 2", ALONE)]
    told = []
    rows = rounds.interleaved([stand_in(name, direct) for name in ("direct", "nginx", "go", "blazar")], workloads, 2,
                              ["blazar"], told.append, random.Random(4))
    assert told == rows and {row["check"] for row in rows} == {"no audit"}
    turns: dict[tuple[int, str, int], list[str]] = {}
    for row in rows:
        turns.setdefault((row["round"], row["workload"], row["repeat"]), []).append(row["target"])
        assert row["client"]["requests"] == (1 if row["workload"] == "a" else 2)
    assert list(turns) == [(number, *turn) for number in range(2) for turn in (("a", 0), ("a", 1), ("b", 0))]
    assert all(sorted(turn) == (["blazar", "direct", "nginx"] if name == "a" else ["blazar"])
               for (_, name, _), turn in turns.items())
    assert len({tuple(turn) for turn in turns.values() if len(turn) == 3}) > 2


def stand_in(name, direct):
    """A target of that name, which is the engine itself."""
    target = Target(direct.layout, direct.folder)
    target.name, target.to, target.engine = name, direct.to, direct.engine
    return target


def test_blazar_is_measured_with_our_engine_as_its_child(tmp_path):
    target = Blazar(Layout.here(), tmp_path)
    try:
        target.start()
        assert target.worker_pid() in target.pids()
        target.load()
        child = Path(f"/proc/{target._child.pid}/exe").resolve()
        assert child == programs.BUILD / "engine" and target._child.pid not in target.pids()
        for workload in (FEW, ONE, GONE):
            assert rounds.run(target, workload)["check"] == "ok"
        for dialect in ("ollama", "anthropic"):
            row = rounds.run(target, Workload("few", "", f"--requests 8 --stream --tokens 6 --dialect {dialect}",
                                              ALONE))
            assert row["check"] == "ok" and row["client"]["events"] == 48
        assert_defaults(target, tmp_path)
    finally:
        target.stop()


def assert_defaults(target, folder):
    """What Blazar runs with is what it is by default, but for what the page tells."""
    running = target._ask("hello", role="cli", pid=os.getpid(), leases={})["config"]
    plain = load_config(folder / "none.toml", {}, {}).as_dict()
    assert {name for name, value in running.items() if value != plain[name]} == {"default_ctx", "keys", "port", "slots"}
    for feature in ("singleflight", "sentinel", "prompt_preflight", "audit_log"):
        assert running[feature] is True
    assert [key["name"] for key in running["keys"]] == list(KEY_NAMES)
    assert all(key[limit] for key in running["keys"] for limit in ("rpm", "tpm", "daily_tokens", "max_concurrent"))


def test_a_run_goes_to_its_end_and_says_what_it_could_not_measure(tmp_path):
    file = programs.BUILD / "partial.json"
    file.unlink(missing_ok=True)
    bench = subprocess.run([sys.executable, "-m", "tools.bench", "--quick", "--only", "body", "--rounds", "1"],
                           env={**os.environ, "TMPDIR": str(tmp_path)}, text=True, capture_output=True, timeout=100)
    told = json.loads(file.read_text())
    rows, missing = told["raw"]["rows"], told["raw"]["missing"]
    assert {row["target"]: row["check"] for row in rows} == {
        **{name: "no audit" for name in ("direct", "nginx", "go") if name not in missing}, "blazar": "ok"}
    assert len(rows) == 4 - len(missing) and all(row["client"]["good"] == 150 for row in rows)
    assert told["rounds"] == 1 and told["seconds"] > 0 and told["raw"]["sources"] == programs.digest()
    assert told["raw"]["programs"]["blazar"] and told["layout"] == str(Layout.here())
    judged = told["targets"]["body_200k_x_nginx"]
    assert judged["must"] == "<= 2.5" and (judged["value"] is None) == ("nginx" in missing)
    assert told["targets"]["start_s"] == {"value": None, "must": "<= 1.5", "aim": "<= 0.8",
                                          "note": "no sample of start was taken"}
    assert bench.returncode == 1 and "\nnot all promises kept\n" in bench.stdout and "\nit took " in bench.stdout
    assert not list(tmp_path.iterdir())


def test_a_soak_goes_to_its_end(capsys):
    file = programs.BUILD / "soak-partial.json"
    file.unlink(missing_ok=True)
    result = soak.main(["--requests", "200", "--streams", "20", "--rest", "0"])
    told = json.loads(file.read_text())
    assert [(point["requests"], point["streams"]) for point in told["points"]] == [(200, 0), (200, 0), (200, 20)]
    assert told["invalid"] == [] and told["sources"] == programs.digest()
    assert all(point["pss_mib"] > point["own_mib"] > 1 and point["descriptors"] > 3 for point in told["points"])
    assert result == (0 if told["value"] <= 5 else 1)
    assert f"has grown by {told['value']:.1f} % (must <= 5, aim <= 1)" in capsys.readouterr().out


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
