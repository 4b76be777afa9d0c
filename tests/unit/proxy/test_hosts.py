"""The names of an unkeyed server on loopback."""

import pytest

from blazar.config.config import Config
from blazar.errors import HostRefused
from blazar.proxy.hosts import HostCheck


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.0.0.5"])
def test_active_on_loopback(host):
    check = HostCheck(Config.from_dict({"host": host})).check
    for authority in (f"[{host}]:1" if ":" in host else f"{host}:1", "localhost:11435", "[::1]", "127.0.0.1", ""):
        check(authority)
    for authority in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "10.0.0.1"):
        with pytest.raises(HostRefused, match="set \\[\\[keys\\]\\]"):
            check(authority)


@pytest.mark.parametrize("settings", [{"host": "0.0.0.0"}, {"host": "192.168.1.2"}, {"host": "box.lan"},
                                      {"keys": [{"key": "x"}]}])
def test_inactive_elsewhere_and_with_keys(settings):
    HostCheck(Config.from_dict(settings)).check("evil.example")
