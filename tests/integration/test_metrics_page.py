"""/metrics as one page of gateway, supervisor and engines, whatever these do; /api/events as a stream that goes on."""

import http.client
import json
import os
import signal
import socket
import threading
import time
import urllib.error
import urllib.request
from contextlib import closing

import pytest

from blazar.proxy.listeners import MOST
from blazar.proxy.resources.events import HEARTBEAT
from blazar.supervisor.gateway import LAUNCHER
from tests.support.daemon import Daemon
from tests.support.exposition import read, value
from tests.support.waiting import until

ENGINE = ("# HELP llamacpp:n_decode_total Calls.\n# TYPE llamacpp:n_decode_total counter\n"
          'llamacpp:n_decode_total 3\n# TYPE x gauge\nx{of="a\\"b"} 1\n')
SECRET = "sk-operator"


@pytest.fixture
def daemon(tmp_path):
    with Daemon(tmp_path, launcher=LAUNCHER) as daemon:
        yield daemon


def ask(daemon, model):
    body = json.dumps({"model": model, "stream": True, "messages": [{"role": "user", "content": "hi"}]}).encode()
    request = urllib.request.Request(daemon.url + "/v1/chat/completions", body)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read()


def page(daemon, query=""):
    with urllib.request.urlopen(f"{daemon.url}/metrics{query}", timeout=30) as answer:
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        return read(answer.read().decode())


def listen(daemon, query="", **headers):
    """A listener, as a file of lines."""
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60)
    connection.request("GET", f"/api/events{query}", headers=headers)
    answer = connection.getresponse()
    assert answer.status == 200 and answer.headers["content-type"].startswith("text/event-stream")
    return answer


def next_event(stream):
    """The next event: its fields as the stream has them."""
    fields = {}
    while True:
        line = stream.readline().decode().rstrip("\n")
        if "data" in fields and not line:
            told = json.loads(fields["data"])
            assert told["event"] == fields["event"] and told.get("id") == fields.get("id")
            return told
        name, mark, text = line.partition(": ")
        if mark and name:
            fields[name] = text


def until_event(stream, kind):
    while (event := next_event(stream))["event"] != kind:
        pass
    return event


def kept(daemon, query="?follow=false&since=3600", **headers):
    text = listen(daemon, query, **headers).read().decode()
    return [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: ")]


def test_one_page_of_all_who_tell_and_engines_that_misbehave_are_left_out(daemon):
    pages = {"good": {"page": ENGINE}, "slow": {"page": ENGINE, "page_delay": 30}, "garbage": {"page": "<html>"},
             "same": {"page": ENGINE.replace("Calls.", "Other words.").replace(" 3\n", " 4\n")}, "silent": {},
             "huge": {"page": "a 1\n" * (1 << 19)},
             "other": {"page": "# TYPE x counter\nx 1\n# TYPE blazar_up gauge\nblazar_up 1\n"}}
    names = {name: daemon.install(name, **scenario) for name, scenario in pages.items()}
    daemon.settings["max_loaded_models"] = len(pages)
    daemon.start()
    for name in names.values():
        ask(daemon, name)
    began = time.monotonic()
    found = page(daemon)
    assert time.monotonic() - began < 15, "a slow engine costs its time, once"
    assert found["llamacpp:n_decode_total", (("model", names["good"]), ("replica", "1"))] == 3
    assert found["llamacpp:n_decode_total", (("model", names["same"]), ("replica", "1"))] == 4
    assert found["x", (("model", names["good"]), ("replica", "1"), ("of", 'a"b'))] == 1
    assert {dict(labels)["model"] for name, labels in found if name == "x"} == {names["good"], names["same"]}
    assert not any(name == "blazar_up" for name, _ in found)
    assert value(found, "blazar_models_loaded") == value(found, "blazar_models_installed") == len(pages)
    assert value(found, "blazar_generations_total", status="2xx") == value(found, "blazar_gateway_workers") * len(pages)
    assert value(found, "blazar_model_loads_total", outcome="ready") == len(pages)
    assert value(found, "blazar_child_state", model=names["slow"], state="ready") == 1
    assert value(found, "blazar_child_memory_resident_bytes", model=names["good"]) > 1 << 20
    assert 0 < value(found, "blazar_memory_free_bytes") < value(found, "blazar_memory_bytes")
    time.sleep(0.6)  # for so long a page is good
    again = page(daemon)
    left_out = {(dict(labels)["model"], dict(labels)["reason"]) for name, labels in again
                if name == "blazar_engine_pages_left_out_total"}
    assert left_out == {(names["slow"], "time"), (names["garbage"], "garbage"), (names["huge"], "size"),
                        (names["other"], "clash")}
    assert not any(name.startswith("llamacpp:") for name, _ in page(daemon, "?engines=false"))


def test_looking_loads_nothing_and_keeps_nothing_loaded(daemon):
    model, other = daemon.install("m", page=ENGINE), daemon.install("n", page=ENGINE)
    daemon.settings["idle_timeout_secs"] = 2
    daemon.start()
    ask(daemon, model)
    found = page(daemon)
    assert value(found, "llamacpp:n_decode_total", model=model) == 3
    until(lambda: value(page(daemon), "blazar_models_loaded") == 0, 30)
    assert value(page(daemon), "blazar_model_evictions_total", reason="idle") == 1
    assert daemon.starts(other) == []


def test_an_engine_that_would_sleep_is_left_alone(daemon):
    model = daemon.install("m", page=ENGINE)
    daemon.settings["idle_sleep_secs"] = 60
    daemon.start()
    ask(daemon, model)

    def asked():
        return sum(request["path"] == "/metrics" for request in daemon.requests(model))
    until(lambda: value(page(daemon), "llamacpp:n_decode_total") == 3 and asked() >= 1)

    def made_without_asking():
        before, made = asked(), value(page(daemon), "blazar_start_time_seconds")
        time.sleep(0.6)  # for so long a page is good
        return made and value(page(daemon), "llamacpp:n_decode_total") == 3 and asked() == before
    until(made_without_asking, 30)
    assert made_without_asking()
    before = asked()
    ask(daemon, model)
    until(lambda: page(daemon) and asked() > before)


def test_counts_outlive_a_gateway_worker(daemon):
    model = daemon.install("m")
    daemon.start()
    ask(daemon, model)
    assert value(page(daemon), "blazar_generations_total") == 1
    [worker] = daemon.status()["gateway"]["workers"]
    os.kill(worker, signal.SIGKILL)
    until(lambda: daemon.status()["gateway"]["workers"] not in ([], [worker]), 30)
    ask(daemon, model)
    until(lambda: value(page(daemon), "blazar_generations_total") == 2)  # a page is good for half a second
    found = page(daemon)
    assert value(found, "blazar_generations_total") == 2 and value(found, "blazar_load_seconds_count") >= 1
    assert value(found, "blazar_gateway_starts_total") == 2


def test_events_as_they_come_and_again_from_the_last_one_seen(daemon):
    model = daemon.install("m")
    daemon.settings["idle_timeout_secs"] = 1
    daemon.start()
    with closing(listen(daemon)) as stream:
        ask(daemon, model)
        loading, ready = until_event(stream, "model_loading"), until_event(stream, "model_ready")
        assert (loading["model"], loading["replica"], ready["child_id"]) == (model, "1", f"{model}#1")
        assert 0 < ready["load_secs"] < 30 and ready["slots"] >= 1
        evicted = until_event(stream, "model_evicted")
        assert evicted["reason"] == "idle" and until_event(stream, "model_unloaded")["child_id"] == f"{model}#1"
    ask(daemon, model)
    pid = next(child["pid"] for child in daemon.status()["children"])
    os.kill(pid, signal.SIGKILL)
    until(lambda: any(event["event"] == "child_died" for event in kept(daemon)), 30)
    after = kept(daemon, f"?follow=false&last_event_id={ready['id']}")
    assert [event["event"] for event in after][:4] == [
        "model_evicted", "model_unloaded", "model_loading", "model_ready"]
    assert kept(daemon, "?follow=false", **{"Last-Event-ID": ready["id"]})[:4] == after[:4]
    assert [event["event"] for event in kept(daemon)][:2] == ["gateway_started", "daemon_started"]
    numbers = [int(event["id"].rpartition("-")[2]) for event in kept(daemon)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_after_a_restart_of_the_daemon_there_is_a_gap(daemon):
    daemon.install("m")
    daemon.start()
    last = kept(daemon)[-1]["id"]
    assert kept(daemon, f"?follow=false&last_event_id={last}") == []
    daemon.stop()
    daemon.start()
    told = kept(daemon, f"?follow=false&last_event_id={last}")
    assert [event["event"] for event in told] == ["gap", "gateway_started", "daemon_started"] and "id" not in told[0]


def test_pulls_that_fail_and_wrong_queries(daemon):
    daemon.start()
    body = json.dumps({"model": "http://127.0.0.1:9/m.gguf", "stream": False}).encode()
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(urllib.request.Request(daemon.url + "/api/pull", body), timeout=60)
    told = [event for event in kept(daemon) if event["event"].startswith("pull_")]
    assert [event["event"] for event in told] == ["pull_started", "pull_failed"] and told[1]["error"]
    for path in ("/api/events?since=soon", "/api/events?follow=maybe", "/metrics?engines=2"):
        with pytest.raises(urllib.error.HTTPError) as raised:
            urllib.request.urlopen(daemon.url + path, timeout=30)
        assert raised.value.code == 400


def test_api_keys_are_asked_for_and_limits_are_told_to_their_own_key(daemon):
    model = daemon.install("m")
    daemon.settings["keys"] = [{"name": "ann", "key": "sk-ann", "rpm": 1}, {"name": "bob", "key": "sk-bob"}]
    daemon.start()
    for path in ("/metrics", "/api/events?follow=false"):
        with pytest.raises(urllib.error.HTTPError) as raised:
            urllib.request.urlopen(daemon.url + path, timeout=30)
        assert raised.value.code == 401
    for _ in range(3):
        request = urllib.request.Request(daemon.url + "/api/chat", json.dumps({
            "model": model, "messages": [{"role": "user", "content": "hi"}]}).encode(), {"x-api-key": "sk-ann"})
        try:
            urllib.request.urlopen(request, timeout=60).read()
        except urllib.error.HTTPError as error:
            assert error.code == 429
    own = until(lambda: [event for event in kept(daemon, **{"x-api-key": "sk-ann"}) if event["event"] == "key_limited"])
    assert own[0]["key"] == "ann" and own[0]["limit"] == "rpm" and sum(event["count"] for event in own) == 2
    assert not [event for event in kept(daemon, **{"x-api-key": "sk-bob"}) if event["event"] == "key_limited"]


def test_no_more_listeners_than_the_limit_and_they_end_with_the_daemon(daemon):
    daemon.start()
    streams = [listen(daemon) for _ in range(MOST)]
    with pytest.raises(urllib.error.HTTPError) as raised:
        urllib.request.urlopen(daemon.url + "/api/events", timeout=30)
    assert raised.value.code == 429 and b"64 clients" in raised.value.read()
    assert value(page(daemon), "blazar_event_listeners") == MOST
    streams.pop().close()
    until(lambda: value(page(daemon), "blazar_event_listeners") == MOST - 1, 30)
    head = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=30)
    head.request("HEAD", "/api/events")
    assert head.getresponse().status == 200
    head.close()
    began = time.monotonic()
    assert daemon.stop() == 0 and time.monotonic() - began < 10
    assert all(stream.read().endswith(b"\n\n") for stream in streams), "whole events, and a proper end"


def test_who_does_not_read_is_cut_off_and_others_hear_everything(daemon):
    """Keys that are read again make an event each, as long as their names are many."""
    daemon.settings["keys"] = [{"name": f"key-{number}-{'x' * 40}", "key": f"sk-{number}"} for number in range(9)]
    daemon.start()
    slow = socket.create_connection(("127.0.0.1", daemon.port))
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.sendall(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\nx-api-key: sk-0\r\n\r\n")
    headers = {"x-api-key": "sk-1"}
    quick, heard = listen(daemon, **headers), []
    reader = threading.Thread(target=lambda: heard.extend(iter(lambda: next_event(quick)["event"], "daemon_stopping")))
    reader.start()

    def listeners():
        request = urllib.request.Request(daemon.url + "/metrics?engines=false", headers=headers)
        return value(read(urllib.request.urlopen(request, timeout=30).read().decode()), "blazar_event_listeners")
    until(lambda: listeners() == 2)
    link = daemon.control()
    for _ in range(100):
        for _ in range(100):
            link.note("event", event="config_reloaded", fields={"changed": ["x" * 900]})
        if listeners() == 1:
            break
    else:
        raise AssertionError("the slow one still listens")
    link.close()
    slow.close()
    assert daemon.stop() == 0
    reader.join(30)
    assert heard.count("config_reloaded") % 100 == 0 and heard.count("config_reloaded") >= 100


@pytest.mark.slow
def test_silence_is_broken_by_remarks_also_while_hidden_things_happen(daemon):
    model, over = daemon.install("m"), threading.Event()
    daemon.settings["keys"] = [{"name": "ann", "key": "sk-ann", "models": ["other"]}, {"name": "bob", "key": "sk-bob"}]
    daemon.key = "sk-bob"
    daemon.start()

    def load_and_unload():
        while not over.wait(1):
            daemon.post("/api/generate", {"model": model}, 60)
            daemon.post("/api/generate", {"model": model, "keep_alive": 0}, 60)
    thread = threading.Thread(target=load_and_unload)
    with closing(listen(daemon, **{"x-api-key": "sk-ann"})) as stream:
        assert stream.readline() == b"retry: 2000\n" and stream.readline() == b"\n"
        thread.start()
        try:
            began = time.monotonic()
            assert stream.readline() == b": nothing new\n"
            assert HEARTBEAT - 1 < time.monotonic() - began < HEARTBEAT + 15
        finally:
            over.set()
            thread.join(60)
    assert any(event["event"] == "model_unloaded" for event in kept(daemon, **{"x-api-key": "sk-bob"}))
