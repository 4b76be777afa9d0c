"""The configuration is read again while clients are served: nothing is cut, refused or restarted that need not be."""

import os
import signal
import threading
import time
import urllib.request

import pytest

from blazar.cli.client import Client
from blazar.errors import BlazarError
from blazar.supervisor import processes
from tests.support.exposition import read, value
from tests.support.reloading import PIECE, ReloadedDaemon, Stream
from tests.support.waiting import until

CHAT = {"messages": [{"role": "user", "content": "hi"}], "stream": False}
WHOLE = (PIECE % ("one", "null") + PIECE % ("two", '"stop"') + "data: [DONE]\n\n").encode()


def in_use(daemon):
    """Descriptors and threads of the supervisor, and the processes of the data dir."""
    own = f"/proc/{daemon.process.pid}"
    return len(os.listdir(f"{own}/fd")) + len(os.listdir(f"{own}/task")) + len(daemon.tree())


@pytest.fixture
def daemon(tmp_path):
    with ReloadedDaemon(tmp_path) as daemon:
        yield daemon


def load(daemon, *models):
    for model in models:
        assert daemon.post("/api/generate", {"model": model}, 60)[0] == 200


def test_a_child_is_replaced_after_its_stream_and_the_others_stay(daemon):
    slow, other = daemon.install_slow("slow"), daemon.install("other")
    daemon.start()
    load(daemon, slow, other)
    before, workers = daemon.pids(), daemon.workers()
    stream = Stream(daemon, slow)
    assert stream.begun.wait(60)
    daemon.write(f'[model_overrides."{slow}"]\nctx = 777\n')
    told = daemon.reload()
    assert told["changed"] == ["model_overrides"] and told["children"] == [slow] and told["gateway"] == "kept"
    assert told["failed"] == told["restart"] == [] and daemon.state(slow) == "draining"
    after = []
    asking = threading.Thread(target=lambda: after.append(daemon.post("/api/chat", {"model": slow, **CHAT}, 120)))
    asking.start()
    assert daemon.state(slow) == "draining" and processes.is_alive(before[slow])
    daemon.gate.touch()
    assert stream.whole() == WHOLE
    asking.join(120)
    assert after[0][0] == 200
    pids = until(lambda: daemon.pids() if slow in daemon.pids() else None, 60)
    assert pids[slow] != before[slow] and pids[other] == before[other] and daemon.workers() == workers
    assert len(daemon.starts(other)) == 1
    assert daemon.reload() == {"changed": [], "children": [], "gateway": "kept", "certificate": "kept", "restart": [],
                               "failed": [], "warnings": []}


def test_the_gateway_is_replaced_under_a_stream(daemon):
    slow = daemon.install_slow("slow")
    daemon.start()
    load(daemon, slow)
    pids, (worker,) = daemon.pids(), daemon.workers()
    stream = Stream(daemon, slow)
    assert stream.begun.wait(60)
    daemon.write('cors_origins = ["https://app.example.com"]\nport = 9\n[[alias]]\nname = "nick"\nmodel = "slow"\n')
    status, told = daemon.post("/api/reload", {}, 120)
    assert "reply_to" not in told
    assert status == 200 and told["changed"] == ["alias", "cors_origins"] and told["gateway"] == "replaced"
    assert told["children"] == [] and told["restart"] == []  # the flag --port stands over the file
    assert processes.is_alive(worker) and len(daemon.workers()) == 2
    daemon.gate.touch()
    assert stream.whole() == WHOLE
    assert Stream(daemon, "nick").whole() == WHOLE
    until(lambda: not processes.is_alive(worker), 60)
    assert len(daemon.workers()) == 1 and daemon.pids() == pids
    found = read(Client(daemon.url).text("/metrics"))
    assert value(found, "blazar_generations_total") == 3, "what the former one has counted stays"


def test_what_is_refused_changes_nothing(daemon):
    model = daemon.install("m")
    daemon.start()
    load(daemon, model)
    pids, workers = daemon.pids(), daemon.workers()
    daemon.gate.touch()
    for text, words in (("default_ctx = [", "not valid TOML"), ("default_ctx = -5", "default_ctx"),
                        (None, "config.toml"),
                        ('[[alias]]\nname = "m"\nmodel = "x"', "it would hide"),
                        (f'tls_cert = "{daemon.gate}"\ntls_key = "{daemon.gate}"', "it holds no certificate")):
        daemon.write(text) if text is not None else daemon.config_file.unlink()
        with pytest.raises(BlazarError, match=words):
            daemon.reload()
        status, answer = daemon.post("/api/reload", {})
        assert status == 400 and words in answer["error"] and isinstance(answer["error"], str)
    daemon.process.send_signal(signal.SIGHUP)
    until(lambda: daemon.log().count("the configuration is refused, and the one from before stays") == 11)
    assert daemon.pids() == pids and daemon.workers() == workers
    daemon.write("max_loaded_models = 1\n")
    assert daemon.reload()["changed"] == ["max_loaded_models"] and daemon.workers() == workers


ANN, BOB = '[[keys]]\nname = "ann"\nkey = "sk-ann"\n', '[[keys]]\nname = "bob"\nkey = "sk-bob"\n'


def test_whoever_listens_with_an_api_key_that_is_taken_back_hears_no_more(daemon):
    daemon.write(ANN + BOB)
    daemon.start()
    streams = []
    for key in ("sk-ann", "sk-bob"):
        asked = urllib.request.Request(daemon.url + "/api/events", headers={"x-api-key": key})
        streams.append(urllib.request.urlopen(asked, timeout=60))
        assert streams[-1].readline() == b"retry: 2000\n"
    daemon.write(ANN)
    assert daemon.reload()["changed"] == ["keys"]
    told = [streams[0].readline() for _ in range(3)]
    assert b"event: config_reloaded\n" in told and b"bob" not in b"".join(told)
    assert streams[1].read() == b"\n"
    streams[0].close()


def test_what_is_safe_only_on_another_host_is_refused_until_that_is_listened_on(tmp_path):
    with ReloadedDaemon(tmp_path, f'host = "0.0.0.0"\nagent = true\n{ANN}') as daemon:
        daemon.start()
        daemon.url = f"http://127.0.0.1:{daemon.port}"
        daemon.write('host = "127.0.0.1"\nagent = true\n')
        with pytest.raises(BlazarError, match=r"with host 0\.0\.0\.0, which stays until a restart, key `agent`"):
            daemon.reload()
        assert daemon.get("/api/tags")[0] == 401
        daemon.key = "sk-ann"
        assert daemon.get("/api/tags")[0] == 200


def test_a_load_under_way_is_served_and_then_replaced(daemon):
    model = daemon.install("m", load_delay=1.5)
    daemon.start()
    got = []
    asking = threading.Thread(target=lambda: got.append(daemon.post("/api/chat", {"model": model, **CHAT}, 120)))
    asking.start()
    until(lambda: daemon.state(model) == "starting", 60)
    daemon.write("default_ctx = 999\n")
    daemon.reload()
    asking.join(120)
    assert got[0][0] == 200
    until(lambda: len(daemon.starts(model)) == 2 and daemon.state(model) == "ready", 60)
    assert "--ctx-size 999" in daemon.log()


def test_what_the_supervisor_alone_uses_holds_at_once(daemon):
    one, two = daemon.install("one"), daemon.install("two")
    daemon.start()
    load(daemon, one, two)
    assert daemon.post("/api/generate", {"model": one, "keep_alive": 1000})[0] == 200
    workers = daemon.workers()
    daemon.write("idle_timeout_secs = 1\n")
    told = daemon.reload()
    assert told["children"] == [] and told["gateway"] == "kept"
    until(lambda: two not in daemon.pids(), 60)
    assert one in daemon.pids() and daemon.workers() == workers, "a client asked for that one to be kept"
    third = daemon.install("third")
    daemon.write(f'preload = ["{third}"]\n')
    link = daemon.control()
    link.ask("changed", 60, what="store")
    link.close()
    daemon.reload()
    until(lambda: third in daemon.pids(), 60)


def test_many_signals_under_load_lose_nothing(daemon):
    model = daemon.install("m")
    daemon.start()
    load(daemon, model)
    pids, at_rest = daemon.pids(), in_use(daemon)
    statuses, ends = [], threading.Event()

    def keep_asking():
        while not ends.is_set():
            try:
                statuses.append(daemon.post("/v1/chat/completions", {"model": model, **CHAT}, 60)[0])
            except OSError as error:
                statuses.append(error)
    threads = [threading.Thread(target=keep_asking) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(6):
        daemon.write(f"max_queued = {100 + number}\n")
        for _ in range(5):
            daemon.process.send_signal(signal.SIGHUP)
        daemon.reload()
    ends.set()
    for thread in threads:
        thread.join(60)
    assert set(statuses) == {200} and len(statuses) > 20
    assert daemon.pids() == pids
    until(lambda: len(daemon.workers()) == 1, 60)
    until(lambda: in_use(daemon) <= at_rest, 60, f"no more than {at_rest}")


def test_a_stop_during_a_reload(daemon):
    slow = daemon.install_slow("slow")
    daemon.start()
    load(daemon, slow)
    stream = Stream(daemon, slow)
    assert stream.begun.wait(60)
    daemon.write("max_queued = 7\n")
    daemon.process.send_signal(signal.SIGHUP)
    began = time.monotonic()
    assert daemon.stop(limit=60) == 0
    assert time.monotonic() - began < 30 and daemon.tree() == []
    stream._thread.join(30)
    assert b"stopping" in stream.text
