import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from blazar.errors import AlreadyRunning, BindConflict, BindRefused
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


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid", "a..b", "x" * 64 + ".com", "fe80::1", "%", "."])
def test_useless_host_is_refused_in_words(host):
    with pytest.raises(BindRefused) as caught:
        listen(host, 0, "abc")
    assert caught.value.message.startswith(f"cannot listen on {host}:0: ")
    assert caught.value.message.endswith("choose an address of this machine with `--host` or `host = ...`")
    assert caught.value.exit_code == 2


def test_port_of_root_is_refused_in_words():
    """In a process that has given up root, if it had it."""
    code = ("import os; os.getuid() or os.setuid(65534)\n"
            "from blazar.errors import BlazarError; from blazar.supervisor.listener import listen\n"
            "try: listen('127.0.0.1', 80, 'abc')\n"
            "except BlazarError as error: print(error.slug, error)")
    if int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text()) <= 80:
        pytest.skip("this machine gives port 80 to everybody")
    # imported as root: a throw-away user may not read the interpreter's folder
    code = "import blazar.supervisor.listener, encodings.idna\n" + code
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20)
    assert done.stdout == ("bind-refused cannot listen on 127.0.0.1:80: Permission denied (ports below 1024 are "
                           "root's); choose another one with `--port` or `port = ...`\n"), done.stderr


def test_localhost_is_where_most_clients_look():
    with listen("localhost", 0, "abc") as listener:
        assert listener.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize("host, url", [("127.0.0.1", "http://127.0.0.1:"), ("0.0.0.0", "http://127.0.0.1:"),
                                       ("localhost", "http://")])
def test_url_is_one_a_client_can_use(host, url):
    with listen(host, 0, "abc") as listener:
        assert url_of(listener) == f"{url_of(listener).rpartition(':')[0]}:{listener.getsockname()[1]}"
        assert url_of(listener).startswith(url)
