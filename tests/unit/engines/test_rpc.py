import json
import socket
import struct
import subprocess

import pytest

from blazar.cli.main import main
from blazar.engines import rpc
from blazar.errors import RpcWorkersGone
from blazar.hardware.census import Census
from blazar.hardware.cpu import Cpu
from blazar.hardware.memory import Memory
from tests.servers.rpc_worker import answering, server
from tests.support.built_engines import built
from tests.support.waiting import until


@pytest.mark.parametrize("hello_size", [24, 0])
def test_a_worker_tells_version_and_memory(hello_size):
    with server(answering(hello_size, (5, 10), (7, 20))) as address:
        assert rpc.ask(address) == rpc.Worker(address, "ready", "7.0.2", ((5, 10), (7, 20)))


@pytest.mark.parametrize("play", [
    lambda sock: sock.close(), lambda sock: sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    lambda sock: sock.sendall(struct.pack("<Q", 1 << 40)),
    lambda sock: sock.sendall(struct.pack("<Q", 3) + b"abc" * 9)])
def test_what_is_no_worker_is_told_from_one(play):
    def then_close(sock):
        play(sock)
        sock.close()
    with server(then_close) as address:
        worker = rpc.ask(address, 0.5)
        assert (worker.state, worker.devices) == ("gone", ())
        assert worker.problem == "what listens there is no RPC worker"


def test_a_worker_that_serves_another_client_is_busy():
    with server(lambda sock: None) as address:
        assert rpc.ask(address, 0.2).state == "busy"
        assert rpc.refuse_gone("m", [address])[0].state == "busy"


def test_many_devices_are_cut():
    with server(answering(24, *[(1, 2)] * 70)) as address:
        assert len(rpc.ask(address).devices) == rpc.MOST_DEVICES


def test_who_is_gone_is_named():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    with pytest.raises(RpcWorkersGone) as caught:
        rpc.refuse_gone("m", [address, "127.0.0.1:99999", "no.such.host.invalid:1"])
    assert f"workers that do not answer: {address} (Connection refused), 127.0.0.1:99999 (" in caught.value.message
    assert "no.such.host.invalid:1 (" in caught.value.message and "blazar rpc worker" in caught.value.message
    assert rpc.refuse_gone("m", []) == []


def test_addresses_of_a_setting():
    assert rpc.split_addresses("a:1, b:2,a:1,") == ["a:1", "b:2"]


def test_a_machine_with_workers_tells_each_by_what_it_answered():
    census = Census(Cpu("x86_64"), Memory(total=8 << 30))
    found = rpc.machine_with(census, [
        rpc.Worker("a:1", "ready", "7.0.0", ((60 << 30, 80 << 30),)), rpc.Worker("b:1", "busy", problem="x"),
        rpc.Worker("c:1", "ready", "7.0.0", ((1 << 30, 8 << 30), (6 << 30, 8 << 30))),
        rpc.Worker("d:1", "gone", problem="No route to host")], now=True)
    assert [(card.name, card.memory >> 30, card.budget >> 30) for card in found.workers] == [
        ("a:1", 80, 60), ("c:1 device 0", 8, 1), ("c:1 device 1", 8, 6)]
    assert (found.silent, found.gone) == (("b:1",), (("d:1", "No route to host"),))
    assert all(card.index is None for card in found.workers)


@pytest.fixture
def worker():
    """A real worker on a port of its own."""
    program = built("ggml-rpc-server")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    process = subprocess.Popen([program, "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"127.0.0.1:{port}"
    until(lambda: rpc.ask(address).state == "ready")
    yield process, address
    process.kill()
    process.wait()


@pytest.mark.built
def test_a_real_worker(worker, tmp_path, monkeypatch, capsys):
    process, address = worker
    found = rpc.ask(address)
    assert found.version == "7.0.0"
    [(free, total)] = found.devices
    assert 0 < free <= total
    (tmp_path / "config.toml").write_text(f'[model_overrides.m]\nrpc_servers = "{address}"\n')
    words = ["--config", str(tmp_path / "config.toml"), "--data-dir", str(tmp_path), "rpc", "status"]
    assert main(words) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:4] == [address, "ready", "7.0.0", "0"]
    process.kill()
    process.wait()
    assert main([*words, "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == [{"address": address, "state": "gone", "version": None, "devices": [],
                                                   "problem": "Connection refused"}]
