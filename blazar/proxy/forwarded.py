"""`Proxies`: who asks, when a proxy such as nginx stands between.

A proxy appends the address that it sees to X-Forwarded-For, after whatever its client wrote there. So the field is read
from its end, and only as far as each of those who wrote it is trusted: what a client makes up itself is never reached.
"""

import ipaddress
from collections.abc import Sequence


class Proxies:
    """Those of `trusted_proxies`: addresses and networks. Unix sockets are nobody's address, and not trusted."""

    def __init__(self, trusted: Sequence[str] = ()) -> None:
        self._networks = [ipaddress.ip_network(text) for text in trusted]

    def client(self, peer: str, forwarded: str) -> str:
        """The client of a connection from `peer` (`address:port`): `peer` itself, or, where that is trusted, the last
        address in `forwarded` that is no trusted proxy. Of several proxies and no client, the outermost."""
        if not self._networks or not self._trusts(_address(peer.rpartition(":")[0])):
            return peer
        found = peer
        for text in reversed(forwarded.split(",")):
            address = _address(text)
            if address is None:
                break
            found = str(address)
            if not self._trusts(address):
                break
        return found

    def _trusts(self, address: "ipaddress.IPv4Address | ipaddress.IPv6Address | None") -> bool:
        return address is not None and any(address in network for network in self._networks)


def _address(text: str) -> "ipaddress.IPv4Address | ipaddress.IPv6Address | None":
    """The address in `text`; one of IPv4 that is written as IPv6 is IPv4's. None where there is none."""
    try:
        address = ipaddress.ip_address(text.strip().strip("[]").partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
