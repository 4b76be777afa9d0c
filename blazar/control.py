"""The control socket: what supervisor, gateway and CLI say to each other, and one end of such a connection.

Each message is one line of JSON: `kind`, then its fields; `id` when an answer is wanted. An answer carries
`reply_to` and either its fields or an `error`. MESSAGES lists every kind. The socket lies in `run/` (0700), so
whoever can open it already owns the data dir.
"""

import contextlib
import itertools
import json
import os
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from blazar.errors import BlazarError, LinkClosed, SupervisorGone, revive

MAX_LINE = 32 << 20
"""Bytes of the longest message; a longer one ends the connection."""

SEND_LIMIT = 1
"""Seconds that a peer may leave its end unread before the connection is given up: a stopped gateway worker must not
stop the supervisor with it."""

MESSAGES = {
    # kind: (who sends it, fields, fields of the answer or None for a note)
    "hello": ("gateway, cli", "role pid leases", "config snapshot version usage: {day, tokens: API key "
              "-> count, minutes: API key -> [[step requests tokens]]}; certificate: as below, for a gateway with TLS"),
    "snapshot": ("supervisor", "snapshot", None),
    "ensure_ready": ("gateway, cli", "model; ctx: tokens that it shall read at least (0 = as it comes); shown: whether "
                     "it is to see or to hear", "endpoint"),
    "drain": ("supervisor", "child_id", ""),
    "usage": ("supervisor", "", "children: child_id -> {in_flight last_used}"),
    "report": ("gateway", "children: child_id -> {in_flight last_used}; usage: [{key day model requests "
               "prompt_tokens completion_tokens steps: [[step requests tokens]]}], what came on top since the last "
               "report", None),
    "spent": ("supervisor", "usage: what another worker has just reported", None),
    "keep_alive": ("gateway", "model seconds (null = the default, negative = for ever, 0 = after this one)", None),
    "evict": ("gateway, cli", "model", "evicted: whether it was loaded"),
    "examine": ("gateway", "child_id; stalled: whether an answer that had begun brings nothing more", "wedged: whether "
                "the child does nothing for anybody, or is gone"),
    "put_down": ("gateway", "child_id: of a child to be ended at once", None),
    "remove": ("gateway, cli", "model", ""),
    "describe": ("gateway, cli", "model", "model: the row, and the facts of its file"),
    "create": ("gateway", "name from files adapters preset license", "model warnings"),
    "copy": ("gateway", "source name alias: whether it shares the source's engine", "model"),
    "blob": ("gateway", "digest, token: of the file in incoming/ to be taken, or null", "here: whether it is here"),
    "keep": ("gateway", "table: completion or response; verb; owner; then put: object (its id) model metadata input "
             "body (JSON texts), find: object, page: after limit newest_first model pairs, annotate: object metadata, "
             "forget: object",
             "put: nothing; find: row; page: rows more; annotate, forget: there"),
    "message_batch": ("gateway", "verb; owner object (the batch's id); then put: requests [[custom_id, JSON text]], "
                      "page: after before limit, results: after (a position), next: resting (owners), answer: batch "
                      "position outcome body",
                      "put, find, cancel, forget, next: row; page, results: rows more; answer: kept"),
    "files": ("gateway", "verb; owner; then check: size, put: object name size lifetime (seconds or null; its file is "
              "written), find, forget: object, page: after limit newest_first purpose",
              "check, forget: nothing; put, find: row; page: rows more"),
    "batches": ("gateway", "verb; then put: owner object file body, find, cancel: owner object, page: owner after "
                "limit, next: resting (owners), move: object expected state changes, answer: object rows of [line "
                "failed text], finish: object owner state output errors (ids for its files)",
                "put, find, cancel, next: row; page: rows more; move: there; answer, finish: nothing"),
    "requests": ("gateway, cli, supervisor", "key: the name of the API key whose they are, null = all; finished: how "
                 "many that have ended; cancel: the id of those to be cancelled, or null",
                 "requests finished cancelled"),
    "metrics": ("gateway, supervisor", "to the supervisor: engines: whether what engines tell is to be there",
                "by the supervisor: text: the page; by a gateway worker: pid families: what it counts"),
    "counted": ("gateway", "pid families: what a worker has counted that ends now", None),
    "event": ("gateway, supervisor", "by the supervisor: event; by a gateway worker: event: its kind, fields", None),
    "events": ("gateway", "last: the id of the last event that was seen, or since: a time as events have it",
               "events missed: whether some before them are gone"),
    "changed": ("cli", "what: store", ""),
    "job": ("gateway, cli", "verb: pull; reference; job: a number of the asker's own", "model: its summary, at last"),
    "progress": ("supervisor", "job; then says: a sentence, or begins: a file sha256 size, or stage done total", None),
    "cancel": ("gateway, cli", "job", None),
    "keys": ("cli", "", "file: the settings file of this daemon, names: of the API keys that it says"),
    "status": ("cli", "", "pid url settings children gateway"),
    "beat": ("gateway", "", None),
    "stopping": ("supervisor", "grace: seconds until streams are ended", None),
    "relieve": ("supervisor", "grace: as above; another gateway has taken over, and it is to take no more connections",
                ""),
    "certificate": ("supervisor", "certificate: {chain secret}, the PEM texts for new connections", None),
    "reload": ("gateway, cli", "", "changed children gateway certificate restart failed warnings; see "
               "supervisor/report.py"),
}

KEPT_DAYS = 30
"""Days for which answers are kept whose clients asked for that (`keep`)."""

Message = dict[str, Any]


class Link:
    """One end of a control connection, with a reader thread (a greenlet where threading is patched).

    `on_message(link, message)` is called on the reader thread for everything that is not an answer: it must not
    block, and may call `answer` or `refuse` later from any thread. `on_close(link)` is called once.
    """

    def __init__(self, sock: socket.socket, on_message: Callable[["Link", Message], None],
                 on_close: Callable[["Link"], None] = lambda link: None, name: str = "control") -> None:
        self.name = name
        self.role = ""
        self.peer_pid = 0
        self.closed = False
        self._sock = sock
        self._on_message = on_message
        self._on_close = on_close
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Callable[[Message | None], None]] = {}
        self._lock = threading.Lock()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_LIMIT, 0))
        self._thread = threading.Thread(target=self._read, name=name, daemon=True)

    def start(self) -> "Link":
        self._thread.start()
        return self

    def note(self, kind: str, **fields: Any) -> None:
        """Send a message that wants no answer. A closed connection swallows it: the reader tells the owner."""
        with contextlib.suppress(OSError):
            self._send({"kind": kind, **fields})

    def ask(self, kind: str, timeout: float | None = None, taken: Callable[[Message], None] | None = None,
            **fields: Any) -> Message:
        """Send a message and wait up to `timeout` seconds for its answer.

        `taken` gets the answer on the reader thread, before anything that follows it is read. Raises the error that
        the other side answered with, or LinkClosed.
        """
        waiter = _Waiter(taken)
        self.ask_later(kind, waiter.put, **fields)
        if not waiter.event.wait(timeout):
            raise SupervisorGone(what=f"`{kind}`")
        return unwrap(waiter.message, kind)

    def ask_later(self, kind: str, on_answer: Callable[[Message | None], None], **fields: Any) -> None:
        """As `ask`, but `on_answer` gets the raw answer on the reader thread; None when the link closed."""
        number = next(self._numbers)
        with self._lock:
            if self.closed:
                on_answer(None)
                return
            self._waiting[number] = on_answer
        try:
            self._send({"kind": kind, "id": number, **fields})
        except OSError:
            if self._waiting.pop(number, None) is not None:
                on_answer(None)

    def answer(self, message: Message, **fields: Any) -> None:
        if "id" in message:
            with contextlib.suppress(OSError):
                self._send({"reply_to": message["id"], **fields})

    def refuse(self, message: Message, error: BlazarError) -> None:
        self.answer(message, error=error.to_dict())

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def _send(self, message: Message) -> None:
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            try:
                self._sock.sendall(line)
            except OSError:
                self.close()  # half a line may be out, so nothing can follow it
                raise

    def _read(self) -> None:
        buffer = bytearray()
        try:
            while (data := self._sock.recv(65536)) and len(buffer) <= MAX_LINE:
                buffer += data
                if b"\n" in data:
                    *lines, rest = bytes(buffer).split(b"\n")
                    buffer = bytearray(rest)
                    for line in lines:
                        self._take(json.loads(line))
        except (OSError, ValueError, RecursionError):
            pass  # the peer is gone, or is no peer of ours: either way this connection is over
        self._end()

    def _take(self, message: Message) -> None:
        if not isinstance(message, dict) or not (
                isinstance(message.get("reply_to"), int) or isinstance(message.get("kind"), str)):
            raise ValueError(f"{self.name}: not a control message")
        if "reply_to" in message:
            waiter = self._waiting.pop(message["reply_to"], None)
            if waiter is not None:
                waiter(message)
        else:
            self._on_message(self, message)

    def _end(self) -> None:
        with self._lock:
            self.closed = True
            waiting, self._waiting = self._waiting, {}
        self._sock.close()
        for waiter in waiting.values():
            waiter(None)
        self._on_close(self)


class _Waiter:
    def __init__(self, taken: Callable[[Message], None] | None) -> None:
        self._taken = taken
        self.event = threading.Event()
        self.message: Message | None = None

    def put(self, message: Message | None) -> None:
        self.message = message
        if self._taken is not None and message is not None and "error" not in message:
            self._taken(message)
        self.event.set()


def unwrap(message: Message | None, kind: str) -> Message:
    """The fields of the raw answer of `ask_later`; raises the error that it holds, or LinkClosed for none."""
    if message is None:
        raise LinkClosed(what=f"`{kind}`")
    if "error" in message:
        raise revive(message["error"])
    return {name: value for name, value in message.items() if name != "reply_to"}


def connect(path: Path, on_message: Callable[[Link, Message], None] = lambda link, message: None,
            on_close: Callable[[Link], None] = lambda link: None, timeout: float = 5.0) -> Link:
    """Open the control socket at `path` and start reading. Raises SupervisorGone when nobody listens there."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(timeout)
    try:
        with short_socket_path(path) as address:
            sock.connect(address)
    except OSError as error:
        sock.close()
        raise SupervisorGone(what="this") from error
    sock.settimeout(None)
    return Link(sock, on_message, on_close).start()


@contextlib.contextmanager
def short_socket_path(path: Path):
    """A name for `path` that fits into sun_path (108 bytes) however deep the data dir lies."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
