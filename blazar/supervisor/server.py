"""The control socket's server: accepts links and posts their messages to the run loop."""

import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

from blazar.control import Link, Message, short_socket_path
from blazar.supervisor.loop import Loop

log = logging.getLogger(__name__)

PAUSE = 1.0
"""Seconds until the next attempt to accept after one that failed."""


class ControlServer:
    def __init__(self, path: Path, loop: Loop, on_message: Callable[[Link, Message], None],
                 on_close: Callable[[Link], None]) -> None:
        self._path = path
        self._closing = False
        self._loop = loop
        self._on_message = on_message
        self._on_close = on_close
        path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with short_socket_path(path) as address:
            self._socket.bind(address)
        os.chmod(path, 0o600)
        self._socket.listen(64)
        threading.Thread(target=self._accept, name="control server", daemon=True).start()

    def close(self) -> None:
        self._closing = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._path.unlink(missing_ok=True)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._socket.accept()
                Link(sock, lambda link, message: self._loop.post(self._on_message, link, message),
                     lambda link: self._loop.post(self._on_close, link)).start()
            except (OSError, RuntimeError) as error:  # no descriptor or no thread to be had, which passes
                if self._closing:
                    return
                log.error("control socket: %s", error)
                time.sleep(PAUSE)
