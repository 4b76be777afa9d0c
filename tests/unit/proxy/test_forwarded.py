"""Who asks: the connection's other end, or whom a trusted proxy names."""

import pytest

from blazar.proxy.forwarded import Proxies

PROXIES = Proxies(("127.0.0.1", "10.0.0.0/8", "::1"))


@pytest.mark.parametrize("peer, forwarded, client", [
    ("127.0.0.1:5", "203.0.113.9", "203.0.113.9"),
    ("[::1]:5", " 2001:db8::7 ", "2001:db8::7"),
    ("[::ffff:127.0.0.1]:5", "203.0.113.9", "203.0.113.9"),
    ("127.0.0.1:5", "::ffff:203.0.113.9", "203.0.113.9"),
    ("127.0.0.1:5", "203.0.113.9, 10.1.2.3", "203.0.113.9"),  # two proxies, one after the other
    ("127.0.0.1:5", "10.9.9.9, 10.1.2.3", "10.9.9.9"),  # a client in the network of the proxies
], ids=str)
def test_a_trusted_proxy_is_believed(peer, forwarded, client):
    assert PROXIES.client(peer, forwarded) == client


@pytest.mark.parametrize("peer, forwarded, client", [
    ("203.0.113.9:5", "198.51.100.1", "203.0.113.9:5"),  # no proxy of ours
    ("", "198.51.100.1", ""),  # a Unix socket
    ("a batch", "198.51.100.1", "a batch"),
    ("127.0.0.1:5", "198.51.100.1, 203.0.113.9", "203.0.113.9"),  # what the client wrote stands before the proxy's word
    ("127.0.0.1:5", "127.0.0.1, 203.0.113.9", "203.0.113.9"),
    ("127.0.0.1:5", "198.51.100.1, nonsense", "127.0.0.1:5"),
    ("127.0.0.1:5", "198.51.100.1, nonsense, 10.1.2.3", "10.1.2.3"),
    ("127.0.0.1:5", "", "127.0.0.1:5"),
    ("127.0.0.1:5", "," * 8000, "127.0.0.1:5"),
], ids=lambda value: str(value)[:30])
def test_nobody_else_is(peer, forwarded, client):
    assert PROXIES.client(peer, forwarded) == client


def test_without_proxies_the_field_says_nothing():
    assert Proxies().client("127.0.0.1:5", "203.0.113.9") == "127.0.0.1:5"
