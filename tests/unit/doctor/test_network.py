"""The port check against real sockets."""

import socket

from blazar.doctor.check import Surroundings
from blazar.doctor.network import check_port
from blazar.paths import locate


def surroundings(tmp_path, text, daemon=None):
    file = tmp_path / "config.toml"
    file.write_text(text)
    return Surroundings(locate({"HOME": str(tmp_path)}, str(file)), {}, daemon)


def test_a_free_port(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    finding = check_port(surroundings(tmp_path, f"port = {port}\n"))
    assert (finding.state, finding.found) == ("ok", f"127.0.0.1:{port} is free")


def test_any_port(tmp_path):
    finding = check_port(surroundings(tmp_path, "port = 0\n"))
    assert (finding.state, finding.found) == ("ok", "any free port of 127.0.0.1")


def test_a_taken_port_fails_and_says_what_to_do(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        finding = check_port(surroundings(tmp_path, f"port = {port}\n"))
    assert (finding.state, finding.found) == ("fail", f"127.0.0.1:{port} is taken by another program")
    assert "--port" in finding.remedy


def test_an_address_that_is_not_ours(tmp_path):
    finding = check_port(surroundings(tmp_path, 'host = "192.0.2.1"\nport = 1234\n'))
    assert finding.state == "fail" and "192.0.2.1:1234" in finding.found


def test_a_refused_configuration_leaves_the_port_unknown(tmp_path):
    assert check_port(surroundings(tmp_path, "port = \n")).state == "warn"


def test_the_port_of_our_own_daemon_is_fine(tmp_path):
    finding = check_port(surroundings(tmp_path, "port = \n", {"url": "http://127.0.0.1:5", "pid": 1}))
    assert (finding.state, "http://127.0.0.1:5" in finding.found) == ("ok", True)
