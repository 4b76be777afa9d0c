import os
import socket
import subprocess
import tempfile
import threading

import pytest

from blazar.transport import Endpoint, connection_to, runs


@pytest.mark.parametrize("unix", [False, True])
def test_one_question_over_either_transport(unix):
    with tempfile.TemporaryDirectory(prefix="bz-") as folder:
        address = f"{folder}/x.sock" if unix else ("127.0.0.1", 0)
        with socket.socket(socket.AF_UNIX if unix else socket.AF_INET) as listener:
            listener.bind(address)
            listener.listen()
            heard = []

            def answer():
                sock, _ = listener.accept()
                heard.append(sock.recv(1000))
                sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
                sock.close()
            thread = threading.Thread(target=answer)
            thread.start()
            connection = connection_to(listener.getsockname(), 5.0)
            connection.request("GET", "/health")
            assert connection.getresponse().read() == b"hi"
            connection.close()
            thread.join()
            assert heard[0].startswith(b"GET /health HTTP/1.1\r\nHost: localhost" if unix else b"GET /health HTTP/1.1")


@pytest.mark.parametrize("address", [("127.0.0.1", 80), "/run/x.sock"])
def test_an_endpoint_survives_json(address):
    endpoint = Endpoint("m#1", "m", address, None, "llamacpp", 1, 2, 3, 4, 5, 6.0, 7.0)
    plain = endpoint.to_dict()
    plain["address"] = list(address) if isinstance(address, tuple) else address
    assert Endpoint.from_dict(plain) == endpoint


def test_a_process_runs_until_it_ends_not_until_somebody_has_waited_for_it():
    assert runs(os.getpid())
    with subprocess.Popen(["sleep", "60"], stdout=subprocess.PIPE) as process:
        assert runs(process.pid)
        process.kill()
        assert process.stdout.read() == b""
        assert not runs(process.pid)
    assert not runs(process.pid)
