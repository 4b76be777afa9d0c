"""Loads: coalescing, failures and their words, eviction and idling."""

import re
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from blazar.supervisor import processes
from tests.support.daemon import DAEMONS, Daemon
from tests.support.transports import BY_END
from tests.support.waiting import until


@pytest.fixture(params=BY_END)
def daemon(request, tmp_path):
    with DAEMONS[request.param](tmp_path) as daemon:
        yield daemon


def test_twenty_concurrent_requests_make_one_spawn(daemon):
    model = daemon.install("solo", load_delay=0.5)
    daemon.start()
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: daemon.get(f"/load/{model}"), range(20)))
    assert {status for status, _ in answers} == {200}
    assert len({endpoint["pid"] for _, endpoint in answers}) == 1
    assert len(daemon.starts(model)) == 1


def test_failed_load_tells_what_the_engine_said(daemon):
    model = daemon.install("solo", crash_at_load=7, stderr="llama_model_load: error loading model: no such tensor")
    daemon.start()
    status, error = daemon.get(f"/load/{model}")
    assert status == 503
    assert error["slug"] == "load-failed"
    assert "exited with code 7" in error["message"]
    assert "no such tensor" in error["message"]
    assert daemon.state(model) == "absent"


def test_repeated_crashes_are_held_back(daemon):
    model = daemon.install("solo", crash_at_load=7, stderr="bad luck")
    daemon.start()
    for _ in range(4):
        status, error = daemon.get(f"/load/{model}")
        assert (status, error["retry_after"]) == (503, None)
    began = time.monotonic()
    status, error = daemon.get(f"/load/{model}")
    assert time.monotonic() - began < 1
    assert status == 503
    assert 5 < error["retry_after"] <= 8
    assert "bad luck" in error["message"]
    assert len(daemon.starts(model)) == 4
    link = daemon.control()
    link.ask("changed", 10)
    link.close()
    daemon.play(model)
    assert daemon.get(f"/load/{model}")[0] == 200


LEVERS = {
    # what an engine says at last: what its user is told to do
    "ggml_backend_alloc: failed to allocate buffer of 9 GiB": "it wants less memory with a smaller ctx",
    "failed to load lora adapter 'x'": "mend `loras` in its [model_overrides]", "bad luck": "`blazar explain {}` tells",
    "error: invalid argument: --zzz": "mend the setting, or the flag in extra_args, that is named above",
    "chat template parsing error": "mend chat_template"}


def test_a_failed_load_tells_what_was_started_what_it_was_to_take_and_what_may_help(daemon):
    models = {words: daemon.install(f"m{number}", crash_at_load=7, stderr=words) for number, words in enumerate(LEVERS)}
    daemon.start()
    for words, model in models.items():
        message = daemon.get(f"/load/{model}")[1]["message"]
        first, *lines = message.splitlines()
        assert first == f"{model} did not load: the engine exited with code 7; its last lines:" and words in lines
        assert re.search(rf"\nit was started as: .*stub_llama_server.py --model .* --alias {model} .*--ctx-size \d+ ",
                         message)
        assert re.search(r"\nit was to take: [\d.]+ \w+ of [\d.]+ GiB in main memory: .*compute.* "
                         r"\(context \d+, slots 1, cache f16\)\n", message)
        assert f"\nwhat may help: {LEVERS[words].format(model)}" in message
        assert daemon.state(model) == "absent"


def test_much_output_neither_blocks_nor_fills_memory(daemon):
    model = daemon.install("solo", stderr_bytes=50_000_000)
    daemon.start()
    assert daemon.get(f"/load/{model}")[0] == 200
    assert sum(file.stat().st_size for file in daemon.paths.run.glob("solo*.log*")) <= 21 << 20


def test_load_timeout(daemon):
    model = daemon.install("solo", warm_delay=60, stderr="still reading")
    daemon.settings["model_load_timeout_secs"] = 1
    daemon.start()
    status, error = daemon.get(f"/load/{model}")
    assert status == 504
    assert error["slug"] == "load-timeout"
    assert "within 1 s" in error["message"]
    assert "still reading" in error["message"]
    daemon.wait_gone([int(pid) for pid, _ in daemon.starts(model)], 0.5)


def test_wrong_engine_path(daemon, tmp_path):
    model = daemon.install("solo")
    daemon.settings["engine_path"] = str(tmp_path / "nowhere")
    daemon.start()
    status, error = daemon.get(f"/load/{model}")
    assert (status, error["slug"]) == (503, "engine-missing")
    assert "BLAZAR_ENGINE_PATH" in error["message"]


def test_unknown_model(daemon):
    daemon.start()
    assert daemon.get("/load/nothing:q4_0")[1]["slug"] == "model-not-found"


def test_least_recently_used_makes_room(daemon):
    one, two, three = (daemon.install(name) for name in ("one", "two", "three"))
    daemon.settings["max_loaded_models"] = 2
    daemon.start()
    for model in (one, two, one):
        daemon.get(f"/lease/{model}")
        daemon.get(f"/return/{model}")
    assert daemon.get(f"/load/{three}")[0] == 200
    assert (daemon.state(one), daemon.state(two), daemon.state(three)) == ("ready", "absent", "ready")


def test_busy_model_is_not_cut(daemon):
    one, two = daemon.install("one"), daemon.install("two")
    daemon.settings["max_loaded_models"] = 1
    daemon.start()
    _, busy = daemon.get(f"/lease/{one}")
    waiting = threading.Thread(target=lambda: daemon.get(f"/load/{two}"))
    waiting.start()
    until(lambda: daemon.state(one) == "draining")
    time.sleep(0.3)
    assert processes.is_alive(busy["pid"])
    daemon.get(f"/return/{one}")
    waiting.join(10)
    assert (daemon.state(one), daemon.state(two)) == ("absent", "ready")


def test_two_models_in_one_place_both_get_their_turn(daemon):
    models = [daemon.install("one"), daemon.install("two")]
    daemon.settings["max_loaded_models"] = 1
    daemon.start()
    ends = time.monotonic() + 4
    counts = dict.fromkeys(models, 0)

    def storm(model: str) -> None:
        while time.monotonic() < ends:
            assert daemon.get(f"/load/{model}")[0] == 200
            counts[model] += 1

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(storm, models * 2))
    assert min(counts.values()) >= 2, counts


def test_idle_child_goes(daemon):
    model = daemon.install("solo")
    daemon.settings["idle_timeout_secs"] = 2
    daemon.start()
    daemon.get(f"/lease/{model}")
    time.sleep(2.6)
    assert daemon.state(model) == "ready", "busy"
    daemon.get(f"/return/{model}")
    ended = time.monotonic()
    time.sleep(1)
    assert daemon.state(model) == "ready"
    until(lambda: daemon.state(model) == "absent", 5)
    assert 2 <= time.monotonic() - ended < 4


def test_keep_alive(daemon):
    kept = {daemon.install(name): seconds for name, seconds in (("gone", 0), ("forever", -1), ("long", 600))}
    gone, *stay = kept
    daemon.settings["idle_timeout_secs"] = 1
    daemon.start()
    for model, seconds in kept.items():
        daemon.get(f"/lease/{model}")
        daemon.get(f"/return/{model}")
        daemon.get(f"/keep/{model}/{seconds}")
    until(lambda: daemon.state(gone) == "absent", 1)
    time.sleep(2.5)
    assert [daemon.state(model) for model in stay] == ["ready", "ready"]
    children = daemon.get("/snapshot")[1]["children"]
    assert [children[model]["keep_alive"] for model in stay] == [-1, 600]


def test_keep_alive_ends_with_the_child_it_was_said_of(daemon):
    model = daemon.install("solo")
    daemon.start()
    daemon.get(f"/load/{model}")
    daemon.get(f"/lease/{model}")
    daemon.get(f"/return/{model}")
    daemon.get(f"/keep/{model}/0")
    until(lambda: daemon.state(model) == "absent", 2)
    _, endpoint = daemon.get(f"/load/{model}")
    assert endpoint["keep_alive"] == 1800


def test_run_folder_that_cannot_be_written_fails_the_load_and_not_the_daemon(daemon):
    model = daemon.install("solo")
    daemon.start()
    place = daemon.paths.run / ("solo%3Af32.sock" if daemon.unix else "solo%3Af32.apikey")
    place.mkdir()  # where the child's socket, or the file of its secret, must go
    status, error = daemon.get(f"/load/{model}", limit=5)
    assert (status, error["slug"]) == (503, "load-failed")
    place.rmdir()
    assert daemon.get(f"/load/{model}")[0] == 200


def test_stop_while_loading_fails_who_waits(daemon):
    model = daemon.install("slow", load_delay=60)
    daemon.start()
    answers = []
    asking = threading.Thread(target=lambda: answers.append(daemon.get(f"/load/{model}")))
    asking.start()
    until(lambda: daemon.starts(model))
    assert daemon.get(f"/evict/{model}")[1]["evicted"] is True
    asking.join(5)
    assert answers[0][0] == 503
    assert "stopped while it was loading" in answers[0][1]["message"]


def test_child_sees_no_secrets_of_ours(daemon, monkeypatch):
    for name in ("BLAZAR_KEYS", "HF_TOKEN", "NOTIFY_SOCKET", "WATCHDOG_USEC", "LISTEN_FDS"):
        monkeypatch.setenv(name, "secret-value")
    model = daemon.install("solo")
    daemon.settings["engine_env"] = {"LLAMA_EXTRA": "1"}
    daemon.start()
    _, endpoint = daemon.get(f"/load/{model}")
    for pid in (endpoint["pid"], daemon.status()["gateway"]["pid"]):
        with open(f"/proc/{pid}/environ", "rb") as file:
            seen = file.read()
        assert b"secret-value" not in seen
    with open(f"/proc/{endpoint['pid']}/environ", "rb") as file:
        assert b"LLAMA_EXTRA=1" in file.read()
    with open(f"/proc/{endpoint['pid']}/cmdline", "rb") as file:
        assert (endpoint["secret"] or "no secret").encode() not in file.read()


def test_remove_unloads_and_forgets(daemon):
    model = daemon.install("solo")
    daemon.start()
    _, endpoint = daemon.get(f"/load/{model}")
    link = daemon.control()
    assert link.ask("describe", 5, model=model)["model"]["model_info"]["general.name"] == "solo"
    link.ask("remove", 10, model=model)
    assert not processes.is_alive(endpoint["pid"])
    until(lambda: model not in daemon.get("/snapshot")[1]["models"], what="the snapshot without the model")
    link.close()


def test_changed_brings_new_models(daemon):
    daemon.start()
    model = daemon.install("late")
    link = daemon.control()
    link.ask("changed", 5, what="store")
    known = until(lambda: daemon.get("/snapshot")[1]["models"].get(model), what="the gateway knows the model")
    assert known["architecture"] == "llama"
    assert daemon.get(f"/load/{model}")[0] == 200
    link.close()


def test_garbage_on_the_control_socket_harms_nobody(daemon):
    daemon.start()
    link = daemon.control()
    with pytest.raises(Exception, match="unknown"):
        link.ask("dance", 5)
    with pytest.raises(Exception, match="model"):
        link.ask("ensure_ready", 5)
    link._sock.sendall(b"not json\n")
    until(lambda: link.closed)
    assert daemon.get("/ok")[0] == 200


@pytest.mark.parametrize(("transport", "auth", "secret"), [("tcp", None, True), ("tcp", False, False),
                                                           ("unix", None, False), ("unix", True, True)])
def test_who_gets_a_secret(tmp_path, transport, auth, secret):
    with DAEMONS[transport](tmp_path, **({} if auth is None else {"child_auth": auth})) as daemon:
        model = daemon.install("solo")
        daemon.start()
        status, endpoint = daemon.get(f"/load/{model}")
        assert status == 200 and (endpoint["secret"] is not None) == secret
        assert (daemon.paths.run / "solo%3Af32.apikey").exists() == secret
        socket_file = daemon.paths.run / "solo%3Af32.sock"
        assert endpoint["address"] == (str(socket_file) if daemon.unix else ["127.0.0.1", endpoint["address"][1]])
        assert socket_file.exists() == daemon.unix
        assert daemon.get(f"/evict/{model}")[1]["evicted"] is True
        until(lambda: daemon.state(model) == "absent")
        assert not socket_file.exists()


@pytest.mark.parametrize(("folder", "name", "said"), [
    ("d", "m" * 100, "the model's name takes 111"), ("d" * 100, "solo", "the data dir takes ")])
def test_a_path_too_long_for_a_socket_is_told_before_anything_starts(tmp_path, folder, name, said):
    with tempfile.TemporaryDirectory(prefix="bz-") as short:
        place = Path(short) / folder
        place.mkdir()
        with Daemon(place, child_transport="unix") as daemon:
            model = daemon.install(name)
            daemon.start()
            status, error = daemon.get(f"/load/{model}")
            assert (status, error["slug"]) == (503, "socket-path-too-long")
            assert said in error["message"]
            assert daemon.starts(model) == []


def test_a_child_whose_socket_was_removed_is_started_anew(tmp_path):
    with DAEMONS["unix"](tmp_path) as daemon:
        model = daemon.install("solo")
        daemon.start()
        assert daemon.get(f"/load/{model}")[0] == 200
        [socket_file] = daemon.paths.run.glob("solo*.sock")
        socket_file.unlink()
        until(lambda: daemon.state(model) == "absent", 20, "the end of a child that nobody can reach")
        assert daemon.get(f"/load/{model}")[0] == 200
        assert len(daemon.starts(model)) == 2 and "its socket" in daemon.log()
