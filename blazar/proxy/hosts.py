"""`HostCheck`: no web page reaches an unkeyed server on loopback under a name of its own (DNS rebinding).

A page whose name was re-pointed at 127.0.0.1 is of the same origin for its browser, so CORS does not help; but the
name stands in the Host field.
"""

from copy import copy

from blazar.config.config import Config
from blazar.config.exposure_rules import is_loopback
from blazar.errors import HostRefused

EVERY_ADDRESS = ("0.0.0.0", "[::]")
"""Addresses, not names, with which some clients mean this machine."""


class HostCheck:
    """Active while the server listens on loopback only and has no API keys."""

    def __init__(self, config: Config) -> None:
        self._loopback = is_loopback(config.host)
        self.keyed = bool(config.keys)
        """Whether there are API keys, without which no page gets an answer."""
        self._own = config.host.lower()

    def once(self, keyed: bool) -> "HostCheck":
        """The check to be made once there are API keys, or none any more. It is another one, so what it has not let in
        itself is looked at again."""
        other = copy(self)
        other.keyed = keyed
        return other

    def check(self, authority: str) -> None:
        """Raises HostRefused unless `authority`, a host with or without port, means this machine.

        Without a host, as in HTTP/1.0, nobody was led here by a name.
        """
        if self.keyed or not self._loopback or not authority:
            return
        host = authority.rpartition(":")[0] if not authority.endswith("]") and ":" in authority else authority
        host = host.lower()
        if not (is_loopback(host) or host.rstrip(".").endswith(".localhost") or host in (self._own, *EVERY_ADDRESS)):
            raise HostRefused(host=authority)
