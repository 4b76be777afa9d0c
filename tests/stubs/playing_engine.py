#!/usr/bin/env python3
"""A quick stand-in for llama-server: what a prompt says after `PLAY:` is sent as it is, else a short answer.

`PLAY:` is followed by base64 of a JSON list: the pieces to send, in base64 each, and last `keep` or `close`. A body
that is not JSON is answered as llama-server does. Nothing is recorded, so it can run for hours. Standard library only.
"""

import argparse
import base64
import json
import re
import socket
import sys
import threading
from pathlib import Path

HELP = Path(__file__).resolve().parent.parent / "data" / "help" / "llama-server-b11434.txt"
PLAY = re.compile(rb"PLAY:([A-Za-z0-9+/=]+)")
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.I)
SLOTS = 8
EVENTS = [{"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": None}]},
          {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 1,
                                                                                      "completion_tokens": 1}}]
STREAM = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in EVENTS) + b"data: [DONE]\n\n"
KEPT = b"Keep-Alive: timeout=5, max=100\r\n"
STREAMED = (b"HTTP/1.1 200 OK\r\n" + KEPT + b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"%x\r\n%b\r\n0\r\n\r\n" % (len(STREAM), STREAM))


def whole(status: bytes, value: object) -> bytes:
    body = json.dumps(value).encode()
    return b"HTTP/1.1 %b\r\n%bContent-Type: application/json; charset=utf-8\r\nContent-Length: %d\r\n\r\n%b" % (
        status, KEPT, len(body), body)


ANSWERED = whole(b"200 OK", {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}}]})
REFUSED = whole(b"400 Bad Request", {"error": {"code": 400, "message": "cannot parse it", "type": "invalid_request"}})
FIXED = {b"/apply-template": whole(b"200 OK", {"prompt": "x"}), b"/tokenize": whole(b"200 OK", {"tokens": [1, 2]})}
PROPS = whole(b"200 OK", {"total_slots": SLOTS, "default_generation_settings": {"n_ctx": 4096}})


def embedded(asked: dict) -> bytes:
    """A vector for each input, as llama-server reads inputs: one text, one list of tokens, or a list of either."""
    given = asked.get("input")
    count = len(given) if isinstance(given, list) and given and not isinstance(given[0], int) else 1
    return whole(b"200 OK", {"data": [{"index": index, "embedding": [0.5, 0.25, 1.0]} for index in range(count)],
                             "usage": {"prompt_tokens": count, "total_tokens": count}})


def converse(sock: socket.socket) -> None:
    buffer = b""
    try:
        while True:
            while b"\r\n\r\n" not in buffer:
                data = sock.recv(65536)
                if not data:
                    return
                buffer += data
            head, _, buffer = buffer.partition(b"\r\n\r\n")
            found = LENGTH.search(head)
            length = int(found[1]) if found else 0
            while len(buffer) < length:
                buffer += sock.recv(1 << 20)
            body, buffer = buffer[:length], buffer[length:]
            if not answer(sock, head, body):
                return
    except OSError:
        pass
    finally:
        sock.close()


def answer(sock: socket.socket, head: bytes, body: bytes) -> bool:
    """Whether the connection is kept."""
    if head.startswith(b"GET /health"):
        sock.sendall(whole(b"200 OK", {"status": "ok"}))
    elif head.startswith(b"GET /props"):
        sock.sendall(PROPS)
    elif play := PLAY.search(body):
        *pieces, then = json.loads(base64.b64decode(play[1]))
        for piece in pieces:
            sock.sendall(base64.b64decode(piece))
        return then == "keep"
    else:
        sock.sendall(plain(head.split(b" ", 2)[1], body))
    return True


def plain(path: bytes, body: bytes) -> bytes:
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError):
        return REFUSED
    if path == b"/v1/embeddings":
        return embedded(asked)
    return FIXED.get(path) or (STREAMED if asked.get("stream") else ANSWERED)


def main() -> None:
    if "--help" in sys.argv:
        print(HELP.read_text(), end="")
        return
    parser = argparse.ArgumentParser("llama-server", add_help=False)
    parser.add_argument("--version", action="version", version="version: playing (build 11434)")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    asked, _ = parser.parse_known_args()
    server = socket.create_server((asked.host, asked.port), backlog=256)
    print("main: server is listening", file=sys.stderr, flush=True)
    while True:
        sock, _ = server.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=converse, args=(sock,), daemon=True).start()


if __name__ == "__main__":
    main()
