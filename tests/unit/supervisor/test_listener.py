import os
import socket

import pytest

from blazar.errors import AlreadyRunning, BindConflict
from blazar.paths import Paths
from blazar.supervisor.listener import listen, take_lock, url_of


def test_lock_holds_once_and_names_its_holder(tmp_path):
    paths = Paths(tmp_path).ensure()
    lock = take_lock(paths)
    assert not os.get_inheritable(lock)
    with pytest.raises(AlreadyRunning) as caught:
        take_lock(paths)
    assert f"pid {os.getpid()}" in caught.value.message
    os.close(lock)
    paths.daemon_lock.write_text("999999999 a longer line than the next one\n")
    os.close(take_lock(paths))
    assert paths.daemon_lock.read_text() == f"{os.getpid()}\n"


def test_conflict_names_the_holder():
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        with pytest.raises(BindConflict) as caught:
            listen("127.0.0.1", port, "abc")
    assert caught.value.exit_code == 3
    assert f"pid {os.getpid()} (" in caught.value.message


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid"])
def test_useless_host_is_a_conflict_in_words(host):
    with pytest.raises(BindConflict) as caught:
        listen(host, 0, "abc")
    assert host in caught.value.message


@pytest.mark.parametrize("host, url", [("127.0.0.1", "http://127.0.0.1:"), ("0.0.0.0", "http://127.0.0.1:"),
                                       ("localhost", "http://")])
def test_url_is_one_a_client_can_use(host, url):
    with listen(host, 0, "abc") as listener:
        assert url_of(listener) == f"{url_of(listener).rpartition(':')[0]}:{listener.getsockname()[1]}"
        assert url_of(listener).startswith(url)
