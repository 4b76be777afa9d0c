"""The gateway that is to take over at a reload: one that does not come up, TLS that begins, too many that still leave,
and who listens to events meanwhile."""

import http.client
import json
import ssl
import sys
import urllib.request
from contextlib import closing

import pytest

from blazar.supervisor import processes
from blazar.supervisor.gateway import LAUNCHER, MOST_LEAVING
from tests.support.certificates import certificate
from tests.support.reloading import PIECE, ReloadedDaemon, Stream
from tests.support.routers import STUB_ROUTER
from tests.support.waiting import until

WHOLE = (PIECE % ("one", "null") + PIECE % ("two", '"stop"') + "data: [DONE]\n\n").encode()
UNLESS = """import os, sys
if os.path.exists(sys.argv[1]):
    sys.exit("the gateway is ill")
os.execv(sys.argv[2], sys.argv[2:])
"""
"""A program that becomes the launcher, unless a file is there."""


@pytest.fixture
def daemon(tmp_path):
    with ReloadedDaemon(tmp_path) as daemon:
        daemon.slow = daemon.install_slow("slow")
        yield daemon


@pytest.fixture
def pair(tmp_path):
    return certificate(tmp_path)


def with_tls(pair, text=""):
    return f'tls_cert = "{pair.cert}"\ntls_key = "{pair.key}"\n{text}'


def listen(daemon, query=""):
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60)
    connection.request("GET", "/api/events" + query)
    return connection.getresponse()


def lines_until(stream, words):
    """What a stream of events brings, up to the first line with `words`, or its end."""
    lines = []
    while line := stream.readline():
        lines.append(line)
        if words and words in line:
            break
    return lines


def test_a_successor_that_does_not_come_up_leaves_the_old_one_in_place(daemon, tmp_path, pair):
    ill = tmp_path / "ill"
    daemon.launcher = (sys.executable, "-c", UNLESS, str(ill), *LAUNCHER)
    daemon.start()
    workers, plain = daemon.workers(), daemon.url
    stream = Stream(daemon, daemon.slow)
    assert stream.begun.wait(60)
    ill.touch()
    for text in ("max_queued = 7\n", with_tls(pair, "max_queued = 7\nmax_loaded_models = 2\n")):
        daemon.write(text)
        told = daemon.reload()
        assert told["gateway"] == told["certificate"] == "kept" and "max_queued" in told["changed"]
        assert "goes on with its settings from before" in told["failed"][0] and "is ill" in told["failed"][0]
        assert daemon.workers() == workers and daemon.status()["url"] == plain
        assert daemon.get("/api/version")[0] == 200
    assert processes.is_alive(workers[0])
    ill.unlink()
    told = daemon.reload()
    assert told["gateway"] == "replaced" and told["certificate"] == "new" and told["failed"] == []
    assert {"max_queued", "tls_cert"} <= set(told["changed"])
    assert daemon.status()["url"] == plain.replace("http:", "https:")
    ill.touch()
    daemon.write("max_queued = 7\n")
    told = daemon.reload()
    assert told["failed"] and told["gateway"] == "kept"
    assert daemon.status()["url"].startswith("https:"), "without TLS nobody would be served now"
    daemon.gate.touch()
    assert stream.whole() == WHOLE


def test_tls_begins_under_a_plain_stream(daemon, pair):
    daemon.start()
    stream = Stream(daemon, daemon.slow)
    assert stream.begun.wait(60)
    daemon.write(with_tls(pair))
    told = daemon.reload()
    assert told["changed"] == ["tls_cert", "tls_key"] and told["failed"] == []
    assert (told["gateway"], told["certificate"]) == ("replaced", "new")
    daemon.url = daemon.status()["url"]
    assert daemon.url.startswith("https://")
    with urllib.request.urlopen(daemon.url + "/api/version", timeout=60,
                                context=ssl.create_default_context(cafile=pair.cert)) as answer:
        assert json.load(answer)["version"]
    daemon.gate.touch()
    assert stream.whole() == WHOLE


@pytest.mark.slow
def test_no_more_gateways_leave_at_a_time_than_the_limit(tmp_path):
    with ReloadedDaemon(tmp_path, slots=MOST_LEAVING + 2) as daemon:
        slow = daemon.install_slow("slow")
        daemon.start()
        streams = []
        for number in range(MOST_LEAVING + 1):
            daemon.write(f"max_queued = {100 + number}\n")
            told = daemon.reload()
            assert told["gateway"] == "replaced", (number, told)
            streams.append(Stream(daemon, slow))
            assert streams[-1].begun.wait(60)
        workers = until(lambda: len(found := daemon.workers()) == MOST_LEAVING + 1 and found, 60)
        daemon.write("max_queued = 9\n")
        told = daemon.reload()
        assert told["gateway"] == "kept" and f"{MOST_LEAVING} gateways that were replaced" in told["failed"][0]
        assert daemon.workers() == workers and daemon.get("/api/version")[0] == 200
        daemon.gate.touch()
        assert [stream.whole() for stream in streams] == [WHOLE] * len(streams)
        told = until(lambda: (told := daemon.reload())["gateway"] == "replaced" and told, 60)
        assert told["changed"] == ["max_queued"] and told["failed"] == []


def test_events_of_two_workers_and_what_is_missed_in_between(daemon):
    """The stream of the worker that leaves ends properly; who comes back gets the rest from the other, also of what
    the first one goes on to tell."""
    daemon.start()
    stream = Stream(daemon, daemon.slow)
    assert stream.begun.wait(60)
    with closing(listen(daemon, "?since=600")) as events:
        first = lines_until(events, b'"model_ready"')
        last = next(line[4:].strip().decode() for line in reversed(first) if line.startswith(b"id: "))
        daemon.write("max_queued = 7\n")
        assert daemon.reload()["gateway"] == "replaced" and len(daemon.workers()) == 2
        rest = lines_until(events, b"")
        assert rest[-1] == b"\n", "whole events, and a proper end"
    with closing(listen(daemon, f"?last_event_id={last}")) as events:
        told = [line[6:] for line in lines_until(events, b'"config_reloaded"') if line.startswith(b"data: ")]
        kinds = [json.loads(event)["event"] for event in told]
        assert kinds == ["gateway_started", "config_reloaded"], "nothing twice, and no gap"
        daemon.gate.touch()
        assert stream.whole() == WHOLE
        assert lines_until(events, b'"gateway_ended"')[-1].startswith(b"data: ")


def test_the_router_is_started_anew_after_its_streams(tmp_path):
    with ReloadedDaemon(tmp_path, router=True, engine_path=str(STUB_ROUTER)) as daemon:
        slow, other = daemon.install_slow("slow"), daemon.install("other")
        daemon.start()
        stream = Stream(daemon, slow)
        assert stream.begun.wait(60)
        pids, workers = daemon.pids(), daemon.workers()
        daemon.write(f'[model_overrides."{other}"]\nctx = 777\n')
        told = daemon.reload()
        assert told["children"] == ["router"] and told["gateway"] == "kept" and told["failed"] == []
        assert daemon.state("router") == "draining" and processes.is_alive(pids["router"])
        daemon.gate.touch()
        assert stream.whole() == WHOLE
        fresh = until(lambda: daemon.pids() if daemon.pids().keys() == pids.keys() else None, 60)
        assert fresh["router"] != pids["router"] and daemon.workers() == workers
        assert "ctx-size = 777" in (daemon.paths.run / "router.ini").read_text()
        assert Stream(daemon, slow).whole() == WHOLE
        daemon.write(f'router = false\n[model_overrides."{other}"]\nctx = 777\n')
        assert daemon.reload()["restart"] == []  # the daemon was told router beside the file
