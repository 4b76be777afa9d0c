"""A certificate that is renewed on disk under streams, and a pair that cannot be used."""

import shutil
import socket
import ssl

import pytest

from tests.support.certificates import certificate
from tests.support.reloading import PIECE, ReloadedDaemon, Stream
from tests.support.waiting import until

WHOLE = (PIECE % ("one", "null") + PIECE % ("two", '"stop"') + "data: [DONE]\n\n").encode()


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    return [certificate(tmp_path_factory.mktemp(f"pair{number}")) for number in range(2)]


def put(pair, folder):
    for source, name in ((pair.cert, "server.crt"), (pair.key, "server.key")):
        shutil.copy(source, folder / f"{name}.new")
        (folder / f"{name}.new").replace(folder / name)


def shown(daemon):
    """The certificate that a new connection is shown."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with context.wrap_socket(socket.create_connection(("127.0.0.1", daemon.port), 30)) as sock:
        return ssl.DER_cert_to_PEM_cert(sock.getpeercert(True))


def test_new_connections_get_it_and_a_stream_goes_on(tmp_path, pairs):
    old, new = pairs
    put(old, tmp_path)
    trusting = ssl.create_default_context(cafile=old.cert)
    trusting.load_verify_locations(new.cert)
    text = f'tls_cert = "{tmp_path}/server.crt"\ntls_key = "{tmp_path}/server.key"\n'
    with ReloadedDaemon(tmp_path, text) as daemon:
        slow = daemon.install_slow("slow")
        daemon.start()
        assert daemon.url.startswith("https://") and shown(daemon) == old.cert.read_text()
        workers = daemon.workers()
        stream = Stream(daemon, slow, context=trusting)
        assert stream.begun.wait(60)

        (tmp_path / "server.crt").write_bytes(new.cert.read_bytes())  # its key is not there yet
        told = daemon.reload()
        assert told["certificate"] == "refused" and "not the key of tls_cert" in told["failed"][0]
        assert "not the key of tls_cert" in daemon.log()
        (tmp_path / "server.key").write_bytes(new.key.read_bytes()[:80])
        assert daemon.reload()["certificate"] == "refused" and shown(daemon) == old.cert.read_text()

        put(new, tmp_path)
        told = daemon.reload()
        assert (told["certificate"], told["gateway"], told["failed"]) == ("new", "kept", [])
        until(lambda: shown(daemon) == new.cert.read_text(), 30)
        assert daemon.reload()["certificate"] == "kept"

        (tmp_path / "server.key").write_text("no key")  # a worker that starts now is told what was good
        daemon.write(text + "max_queued = 9\n")
        told = daemon.reload()
        assert told["gateway"] == "replaced" and told["certificate"] == "refused"
        until(lambda: daemon.workers() != workers, 60)
        assert {shown(daemon) for _ in range(4)} == {new.cert.read_text()}
        daemon.gate.touch()
        assert stream.whole() == WHOLE

        daemon.write("")
        assert daemon.reload()["gateway"] == "replaced"
        assert daemon.status()["url"].startswith("http://")
        plain = daemon.status()["url"]
        daemon.url = plain
        until(lambda: daemon.get("/api/version")[0] == 200, 60)
