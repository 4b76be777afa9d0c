"""A server that talks and never gets to the point: the same piece again and again, to whoever connects."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Babbler:
    base: str
    left: threading.Event
    """Set once a client has hung up."""


@contextlib.contextmanager
def babbling(piece: bytes, pause: float = 0.01) -> Iterator[Babbler]:
    """Every `pause` seconds comes `piece`."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        babbler, ended = Babbler(f"http://127.0.0.1:{listener.getsockname()[1]}", threading.Event()), threading.Event()

        def talk(connection: socket.socket) -> None:
            connection.settimeout(pause)
            with connection:
                try:
                    while not ended.is_set():
                        with contextlib.suppress(TimeoutError):
                            if not connection.recv(65536):
                                break
                        connection.sendall(piece)
                except OSError:
                    pass
                babbler.left.set()

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=talk, args=(listener.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield babbler
        ended.set()
        listener.shutdown(socket.SHUT_RDWR)
