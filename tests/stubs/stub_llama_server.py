#!/usr/bin/env python3
"""A stand-in for llama-server that speaks its protocol and plays faults. Standard library only.

The scenario is read from `<model file>.stub.json` when there is one; all keys are optional:

  load_delay    seconds before the port is bound          warm_delay    seconds of 503 after it is bound
  crash_at_load exit code at once                         stderr        text printed before that, or at the start
  stderr_bytes  so many bytes of noise on stderr          refuse_port_0 exit as an older server would
  crash_with    a flag with which it does so
  ignore_term   SIGTERM does nothing                      term_delay    seconds between SIGTERM and the exit
  term_stderr_bytes  so many bytes of noise after SIGTERM, then the exit
  freeze        SIGSTOP itself once ready                 helper        fork a grandchild that sleeps
  helper_session the grandchild has a session of its own  squat         a port to lose: say it is taken, exit 1
  port_gate     a folder: a given port is bound only once its number, or `all`, is a file there
  lingers       after SIGUSR1 its program is gone, then its sockets, and it ends so many seconds later
  status, headers, body, chunks, pause, crash_mid_stream  the answer of a completion route (below)
  tokens        what each slot holds, so that it can be saved; save_delay: seconds that takes
  die_restoring exit code when a slot is restored
  silent        seconds between a completion request and the head of its answer
  busy          its slots say that they work: "still", or "moving" from one look to the next
  page          its /metrics, which it has not otherwise; page_delay: seconds until it tells that
  ctx, slots    what /props says, unless the flags say it; props_delay: seconds until it says it

`chunks` are the pieces of the answer body, written as they are with `pause` seconds between them; a piece may be
{"pause": s}, {"until": a file that is there} or {"hex": "0d0a"}. Without `chunks` and `body` the answer is a short chat
completion. Each request is appended to `<model file>.requests.jsonl` with method, path, headers and the body in hex;
each start to `<model file>.starts`.
"""

import argparse
import contextlib
import ctypes
import json
import os
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path

HELP = Path(__file__).resolve().parent.parent / "data" / "help" / "llama-server-b11434.txt"


def read_scenario(model: str) -> dict:
    file = Path(model + ".stub.json")
    return json.loads(file.read_text()) if file.exists() else {}


def options() -> argparse.Namespace:
    if "--help" in sys.argv or "-h" in sys.argv:
        print(HELP.read_text(), end="")
        raise SystemExit(0)
    parser = argparse.ArgumentParser("llama-server", add_help=False)
    parser.add_argument("--version", action="version", version="version: stub (build 11434)")
    parser.add_argument("-m", "--model", default="")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("-c", "--ctx-size", type=int, default=4096)
    parser.add_argument("-np", "--parallel", type=int, default=1)
    parser.add_argument("-a", "--alias", default="stub")
    parser.add_argument("--api-key")
    parser.add_argument("--api-key-file")
    parser.add_argument("--slot-save-path")
    found, rest = parser.parse_known_args()
    known = HELP.read_text() if HELP.exists() else ""
    for word in rest:
        if word.startswith("--") and known and word not in known:
            print(f"error: invalid argument: {word}", file=sys.stderr)
            raise SystemExit(1)
    return found


class Stub:
    def __init__(self, asked: argparse.Namespace, play: dict) -> None:
        self.asked = asked
        self.play = play
        self.ready = threading.Event()
        self.looks = 0
        self.log = threading.Lock()
        self.keys = set((asked.api_key or "").split(",")) - {""}
        if asked.api_key_file:
            self.keys |= set(Path(asked.api_key_file).read_text().split())

    def props(self) -> dict:
        slots = self.play.get("slots", self.asked.parallel)
        ctx = self.play.get("ctx", self.asked.ctx_size // max(1, slots))
        return {"total_slots": slots, "default_generation_settings": {"n_ctx": ctx},
                "model_alias": self.asked.alias, "model_path": self.asked.model, "build_info": "stub"}

    def record(self, handler: "Handler", body: bytes) -> None:
        line = json.dumps({"method": handler.command, "path": handler.path, "headers": dict(handler.headers),
                           "body": body.hex(), "pid": os.getpid(), "at": time.monotonic()})
        with self.log, open(self.asked.model + ".requests.jsonl", "a") as file:
            file.write(line + "\n")


KEPT = {"Keep-Alive": "timeout=5, max=100"}
"""What the real one says of each connection."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    stub: Stub

    def do_GET(self) -> None:
        self.answer(b"")

    def do_POST(self) -> None:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            body = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.answer(body)

    def answer(self, body: bytes) -> None:
        stub = self.stub
        stub.record(self, body)
        path = self.path.partition("?")[0]
        if path in ("/health", "/v1/health"):
            self.send(200 if stub.ready.is_set() else 503,
                      {"status": "ok"} if stub.ready.is_set() else error(503, "Loading model", "unavailable_error"))
        elif stub.keys and self.key() not in stub.keys:
            self.send(401, error(401, "Invalid API Key", "authentication_error"))
        elif path == "/props":
            time.sleep(stub.play.get("props_delay", 0))
            self.send(200, stub.props())
        elif path == "/metrics" and "page" in stub.play:
            time.sleep(stub.play.get("page_delay", 0))
            self.send(200, stub.play["page"])
        elif path == "/slots":
            stub.looks += stub.play.get("busy") == "moving"
            self.send(200, [{"id": number, "is_processing": "busy" in stub.play, "n_decoded": stub.looks,
                             "n_prompt_tokens": stub.play.get("tokens", 0)}
                            for number in range(stub.props()["total_slots"])])
        elif path.startswith("/slots/") and "tokens" in stub.play:
            self.keep(json.loads(body)["filename"], self.path.rpartition("=")[2])
        elif path in ("/v1/models", "/models"):
            self.send(200, {"object": "list", "data": [{"id": stub.asked.alias, "object": "model"}]})
        elif self.command == "POST":
            self.complete(body)
        else:
            self.send(404, error(404, "File Not Found", "not_found_error"))

    def key(self) -> str:
        return self.headers.get("x-api-key") or self.headers.get("Authorization", "").removeprefix("Bearer ")

    def keep(self, name: str, action: str) -> None:
        play, file = self.stub.play, Path(self.stub.asked.slot_save_path) / name
        if action == "restore":
            if "die_restoring" in play:
                os._exit(play["die_restoring"])
            self.send(200, {"n_restored": len(file.read_bytes())})
        else:
            file.write_bytes(b"t" * play["tokens"])
            time.sleep(play.get("save_delay", 0))
            self.send(200, {"n_saved": play["tokens"]})

    def complete(self, body: bytes) -> None:
        play = self.stub.play
        asked = json.loads(body or b"{}")
        time.sleep(play.get("silent", 0))
        chunks = play.get("chunks")
        if chunks is None and "body" in play:
            chunks = [play["body"]]
        if chunks is None:
            chunks = default_chunks(asked)
        kind = "text/event-stream" if asked.get("stream") else "application/json; charset=utf-8"
        self.send_response(play.get("status", 200))
        headers = play.get("headers", {**KEPT, "Content-Type": kind, "Transfer-Encoding": "chunked"})
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.write_chunks(chunks, "chunked" in headers.get("Transfer-Encoding", ""))
        if asked.get("stream") or "chunked" not in headers.get("Transfer-Encoding", ""):
            self.close_connection = True

    def write_chunks(self, chunks: list, framed: bool) -> None:
        for number, chunk in enumerate(chunks):
            if isinstance(chunk, dict) and "pause" in chunk:
                time.sleep(chunk["pause"])
                continue
            if isinstance(chunk, dict) and "until" in chunk:
                while not os.path.exists(chunk["until"]):
                    time.sleep(0.01)
                continue
            if number:
                time.sleep(self.stub.play.get("pause", 0))
            data = bytes.fromhex(chunk["hex"]) if isinstance(chunk, dict) else chunk.encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data) if framed else data)
            self.wfile.flush()
            if self.stub.play.get("crash_mid_stream") == number:
                os.kill(os.getpid(), signal.SIGKILL)
        if framed:
            self.wfile.write(b"0\r\n\r\n")
            self.wfile.flush()

    def send(self, status: int, body: object) -> None:
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**KEPT, "Content-Type": "application/json; charset=utf-8",
                            "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


def error(code: int, message: str, kind: str) -> dict:
    return {"error": {"code": code, "message": message, "type": kind}}


def default_chunks(asked: dict) -> list[str]:
    """The answer `Hello there.`, streamed or whole, with the counts llama-server gives."""
    counts = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
    timings = {"prompt_n": 5, "prompt_ms": 10.0, "predicted_n": 3, "predicted_ms": 30.0}
    common = {"id": "chatcmpl-stub", "created": 1700000000, "model": asked.get("model", "stub")}
    if not asked.get("stream"):
        choice = {"index": 0, "message": {"role": "assistant", "content": "Hello there."}, "finish_reason": "stop"}
        return [json.dumps({**common, "object": "chat.completion", "choices": [choice], "usage": counts,
                            "timings": timings})]
    pieces = [{"role": "assistant", "content": None}, *({"content": text} for text in ("Hello", " there", "."))]
    events = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in pieces]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "timings": timings})
    if (asked.get("stream_options") or {}).get("include_usage"):
        events.append({"choices": [], "usage": counts, "timings": timings})
    lines = [json.dumps({**common, "object": "chat.completion.chunk", **event}) for event in events]
    return [f"data: {line}\n\n" for line in [*lines, "[DONE]"]]


class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    request_queue_size = 512
    allow_reuse_address = True


class UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 512


def bind(asked: argparse.Namespace) -> socketserver.BaseServer:
    try:
        if asked.host.endswith(".sock"):
            return UnixServer(asked.host, Handler)
        return Server((asked.host, asked.port), Handler)
    except OSError as problem:
        print(f"couldn't bind HTTP server socket, hostname: {asked.host}, port: {asked.port}: {problem}",
              file=sys.stderr, flush=True)
        raise SystemExit(1)


def linger(seconds: float) -> None:
    """End as the kernel ends a process, but slowly."""
    threading.Thread(target=lose_sockets, args=(seconds,)).start()
    ctypes.CDLL(None).pthread_exit(None)  # once the first thread has ended, /proc shows no program


def lose_sockets(seconds: float) -> None:
    with contextlib.suppress(OSError):
        while os.readlink("/proc/self/exe"):
            time.sleep(0.001)
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            socket.socket(fileno=int(name)).shutdown(socket.SHUT_RDWR)
    time.sleep(seconds)
    os._exit(9)


def make_noise(count: int) -> None:
    os.set_blocking(2, True)
    for _ in range(count // 1000):
        sys.stderr.write("n" * 999 + "\n")
    sys.stderr.flush()


def play_start(asked: argparse.Namespace, play: dict) -> None:
    """Everything a scenario does before the port is bound."""
    if asked.model:
        with open(asked.model + ".starts", "a") as file:
            file.write(f"{os.getpid()} {asked.port}\n")
    if "stderr" in play:
        print(play["stderr"], file=sys.stderr, flush=True)
    if play.get("stderr_bytes"):
        make_noise(play["stderr_bytes"])
    if play.get("ignore_term"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    elif play.get("term_delay"):
        signal.signal(signal.SIGTERM, lambda *_: threading.Timer(play["term_delay"], os._exit, [0]).start())
    elif play.get("term_stderr_bytes"):
        signal.signal(signal.SIGTERM, lambda *_: (make_noise(play["term_stderr_bytes"]), os._exit(0)))
    else:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    if play.get("helper"):
        subprocess.Popen(["sleep", "300"], start_new_session=bool(play.get("helper_session")))
    if play.get("refuse_port_0") and asked.port == 0:
        print("error: invalid port: 0", file=sys.stderr, flush=True)
        raise SystemExit(1)
    time.sleep(play.get("load_delay", 0))
    if play.get("crash_with") in sys.argv:
        raise SystemExit(3)
    if "crash_at_load" in play:
        raise SystemExit(play["crash_at_load"])


def main() -> None:
    asked = options()
    play = read_scenario(asked.model)
    play_start(asked, play)
    if "lingers" in play:
        signal.signal(signal.SIGUSR1, lambda *_: linger(play["lingers"]))
    if asked.port and "port_gate" in play:
        gate = Path(play["port_gate"])
        while not {str(asked.port), "all"} & set(os.listdir(gate)):
            time.sleep(0.01)
    Handler.stub = Stub(asked, play)
    server = bind(asked)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    time.sleep(play.get("warm_delay", 0))
    Handler.stub.ready.set()
    print("main: server is listening", file=sys.stderr, flush=True)
    if play.get("freeze"):
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGSTOP)
    threading.Event().wait()


if __name__ == "__main__":
    main()
