"""`decode_rate`, with an engine that writes what the test says."""

import sys

import pytest

from blazar.engines.install.speed import Fault, decode_rate
from blazar.engines.program import Program

ENGINE = """
import socketserver, sys, time
from http.server import BaseHTTPRequestHandler

class Handler(BaseHTTPRequestHandler):
    def address_string(self):
        return ""

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        for event in EVENTS:
            time.sleep(0.002)
            self.wfile.write(b"data: " + event.encode() + b"\\n\\n")

socketserver.ThreadingUnixStreamServer(sys.argv[sys.argv.index("--host") + 1], Handler).serve_forever()
"""

TOKENS = [f'{{"content": "x", "tokens_predicted": {number}, "stop": false}}' for number in range(1, 11)]
LAST = '{"content": "", "tokens_predicted": 10, "stop": true}'
ERROR = '{"error": {"code": 500, "message": "does not match"}}'


@pytest.fixture
def rate(tmp_path):
    """The speed of an engine that answers with these events; each takes 2 ms."""
    def measured(*events):
        script = ENGINE.replace("in EVENTS", f"in {list(events)!r}")
        engine = tmp_path / "engine.py"
        engine.write_text(script)
        return decode_rate(Program("llamacpp", (sys.executable, str(engine)), "b1"), tmp_path / "none.gguf", {})

    return measured


def test_the_tokens_of_the_last_event_count(rate):
    assert 100 < rate(*TOKENS, LAST) < 500
    assert rate(TOKENS[0], LAST.replace("10", "100")) > 5000


def test_an_error_at_the_end_is_no_token_and_no_fault(rate):
    assert 100 < rate(*TOKENS, ERROR) < 500


@pytest.mark.parametrize(("events", "words"), [
    ([ERROR], r'it answered \{"code": 500, "message": "does not match"\}'), ([], "it wrote nothing where 8 tokens"),
    (["{no"], "it wrote what is no JSON")])
def test_an_engine_that_writes_nothing(rate, events, words):
    with pytest.raises(Fault, match=words):
        rate(*events)


def test_a_temporary_folder_with_too_long_a_path_is_named(tmp_path, monkeypatch):
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with pytest.raises(Fault, match="too long for a socket; set TMPDIR"):
        decode_rate(Program("llamacpp", ("/bin/true",), "test"), tmp_path / "m.gguf", {})
