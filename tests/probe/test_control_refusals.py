"""Messages on the control socket that make no sense are answered, each with a refusal, and harm nobody else."""

import pytest

from blazar.control import connect
from blazar.errors import BlazarError
from tests.support.daemon import Daemon

BAD = [
    ("dance", {}), ("job", {"job": 1, "verb": "dance", "reference": "x"}), ("job", {"job": "x", "verb": "pull"}),
    ("job", {"job": [], "verb": "pull"}), ("job", {}), ("cancel", {"job": {}}), ("create", {}), ("copy", {"source": 1}),
    ("blob", {"digest": 5, "token": None}), ("blob", {"digest": "../x", "token": "../y"}), ("remove", {"model": []}),
    ("create", {"name": 5, "from": None, "files": [], "adapters": {}, "preset": None, "license": ""}),
    ("keep_alive", {"model": "x", "seconds": "soon"}), ("describe", {"model": "x" * 100_000}),
    ("hello", {"role": "gateway", "pid": "x"}),
]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    with Daemon(tmp_path_factory.mktemp("control")) as daemon:
        yield daemon.start()


@pytest.mark.parametrize(("kind", "fields"), BAD)
def test_a_message_without_sense_is_refused_at_once(daemon, kind, fields):
    link = connect(daemon.paths.control_socket)
    try:
        with pytest.raises(BlazarError) as told:
            link.ask(kind, 5, **fields)
        assert "did not answer" not in told.value.message and not link.closed
        assert link.ask("status", 5)["pid"] == daemon.process.pid
    finally:
        link.close()
