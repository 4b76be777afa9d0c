"""Can the daemon listen where it should?"""

import errno
import socket

from blazar.doctor.check import Finding, Surroundings
from blazar.errors import ConfigRefused

_REMEDY = "stop what holds it (`ss -ltnp` names it), or set another port with `blazar config set port ...` or `--port`"


def check_port(surroundings: Surroundings) -> Finding:
    if surroundings.daemon is not None:
        return Finding("port", "ok", f"the daemon of this data dir listens at {surroundings.daemon['url']}")
    try:
        host, port = surroundings.config.host, surroundings.config.port
    except ConfigRefused:
        return Finding("port", "warn", "not known while the configuration is refused", "`blazar config check`")
    try:
        _try_binding(host, port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return Finding("port", "fail", f"{host}:{port} is taken by another program", _REMEDY)
        return Finding("port", "fail", f"cannot listen on {host}:{port}: {error.strerror or error}",
                       "`blazar config set host` to an address of this machine (`ip address`), or `blazar config set "
                       "port` above 1023")
    return Finding("port", "ok", f"{host}:{port} is free" if port else f"any free port of {host}")


def _try_binding(host: str, port: int) -> None:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)
