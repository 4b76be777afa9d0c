"""`Listening`: gevent's server, of which a lack of descriptors makes one line in the log, not a traceback a second.

Whoever connects meanwhile waits in the backlog of the kernel; gevent itself tries again, once a second at last.
"""

import errno
import logging
from typing import Any

import gevent
from gevent.server import StreamServer

LACK = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

log = logging.getLogger(__name__)


class Lacking(OSError):
    """No connection can be accepted for now."""


class Listening(StreamServer):
    """The arguments are those of StreamServer."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._warned = False
        hub = gevent.get_hub()
        hub.NOT_ERROR = (*hub.NOT_ERROR, Lacking)  # for which the hub prints no traceback

    def do_read(self) -> Any:
        """Accept a connection; from the loop, where nothing may wait, so a greenlet writes the log."""
        try:
            accepted = super().do_read()
        except OSError as error:
            if error.errno not in LACK:
                raise
            if not self._warned:
                self._warned = True
                gevent.spawn(log.warning, "no connection can be accepted: %s; they wait until one can be",
                             error.strerror)
            raise Lacking(*error.args) from None
        self._warned = self._warned and accepted is None
        return accepted
