#!/usr/bin/env python3
"""A stand-in for the gateway: a master and one worker, with the launcher's arguments and the control protocol.

The worker says hello, beats, answers `usage` and `drain`, and serves a tiny HTTP on the inherited listener:

  GET /ok               200
  GET /load/MODEL       ensure_ready, then the endpoint as JSON; an error has its status and its dict
  GET /lease/MODEL      ensure_ready and take a lease     GET /return/MODEL   give it back
  GET /evict/MODEL      evict                             GET /keep/MODEL/S   send keep_alive
  GET /mute             stop the heartbeat                GET /snapshot       the last snapshot
  GET /stream           one line each 0.1 s, until `stopping` ends it
"""

import argparse
import json
import os
import signal
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from blazar.control import Link, connect
from blazar.errors import BlazarError


class Worker:
    def __init__(self, control: Path) -> None:
        self.snapshot: dict = {}
        self.uses: dict[str, dict] = {}
        self.drains: dict[str, list] = {}
        self.lock = threading.Lock()
        self.mute = False
        self.grace: float | None = None
        self.link = connect(control, self.hear, lambda link: os._exit(0))
        answer = self.link.ask("hello", 10, role="gateway", pid=os.getpid(), leases={})
        self.snapshot = self.snapshot or answer["snapshot"]
        threading.Thread(target=self.beat, daemon=True).start()

    def beat(self) -> None:
        while True:
            if not self.mute:
                self.link.note("beat")
            time.sleep(0.5)

    def hear(self, link: Link, message: dict) -> None:
        kind = message["kind"]
        if kind == "snapshot":
            self.snapshot = message["snapshot"]
        elif kind == "usage":
            link.answer(message, children=self.uses)
        elif kind == "stopping":
            self.grace = message["grace"]
        elif kind == "drain":
            with self.lock:
                self.drains.setdefault(message["child_id"], []).append(message)
            self.settle(message["child_id"])

    def use(self, child_id: str, step: int) -> None:
        with self.lock:
            use = self.uses.setdefault(child_id, {"in_flight": 0, "last_used": 0.0})
            use["in_flight"] += step
            use["last_used"] = time.monotonic()
        self.settle(child_id)

    def settle(self, child_id: str) -> None:
        with self.lock:
            waiting = [] if self.uses.get(child_id, {}).get("in_flight") else self.drains.pop(child_id, [])
        for message in waiting:
            self.link.answer(message)

    def endpoint(self, model: str) -> dict:
        return self.link.ask("ensure_ready", 60, model=model)["endpoint"]


class Handler(BaseHTTPRequestHandler):
    worker: Worker

    def do_GET(self) -> None:
        worker = self.worker
        verb, *rest = self.path.strip("/").split("/")
        try:
            if verb == "stream":
                self.stream()
            elif verb == "load":
                self.answer(worker.endpoint(rest[0]))
            elif verb == "lease":
                endpoint = worker.endpoint(rest[0])
                worker.use(endpoint["child_id"], 1)
                self.answer(endpoint)
            elif verb == "return":
                for child_id, use in list(worker.uses.items()):
                    if child_id.startswith(rest[0] + "#") and use["in_flight"]:
                        worker.use(child_id, -1)
                self.answer({})
            elif verb == "evict":
                self.answer(worker.link.ask("evict", 60, model=rest[0]))
            elif verb == "keep":
                worker.link.note("keep_alive", model=rest[0], seconds=float(rest[1]))
                self.answer({})
            elif verb == "mute":
                worker.mute = True
                self.answer({})
            else:
                self.answer(worker.snapshot if verb == "snapshot" else {"pid": os.getpid()})
        except BlazarError as error:
            self.answer(error.to_dict(), error.status)

    def stream(self) -> None:
        self.send_response(200)
        self.end_headers()
        ends = None
        while ends is None or time.monotonic() < ends:
            if self.worker.grace is not None and ends is None:
                ends = time.monotonic() + self.worker.grace
            self.wfile.write(b"x\n")
            time.sleep(0.1)
        self.wfile.write(b"the server stops\n")

    def answer(self, value: object, status: int = 200) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


def work(fd: int, control: Path) -> None:
    Handler.worker = Worker(control)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=False)
    server.socket = socket.socket(fileno=os.dup(fd))
    server.daemon_threads = False
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    server.serve_forever(poll_interval=0.05)
    server.socket.close()
    os.close(fd)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--control", type=Path, required=True)
    parser.add_argument("--grace", type=float, required=True)
    options = parser.parse_args()
    while True:
        pid = os.fork()
        if not pid:
            work(options.fd, options.control)
            sys.exit(0)
        asked = False

        def pass_on(number: int, frame: object, pid: int = pid) -> None:
            nonlocal asked
            asked = True
            os.kill(pid, signal.SIGKILL if number == signal.SIGINT else number)

        signal.signal(signal.SIGTERM, pass_on)
        signal.signal(signal.SIGINT, pass_on)
        os.waitpid(pid, 0)
        if asked:
            sys.exit(0)
        time.sleep(0.1)


if __name__ == "__main__":
    main()
