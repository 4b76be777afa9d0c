"""One question, and a chat, against a server that plays the daemon."""

import argparse
import io
import json
import os
import pty
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from blazar.cli.commands.run import Chat
from blazar.cli.context import Context
from blazar.cli.output import Output
from blazar.errors import BlazarError


class Echo(BaseHTTPRequestHandler):
    """Answers a chat with how many messages came and the last of them; `fail` breaks off inside the stream."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append(body)
        last = body["messages"][-1]["content"]
        events = [{"message": {"content": f"{len(body['messages'])} "}}, {"message": {"content": last}}, {"done": True}]
        if last == "fail":
            events[1] = {"error": "the engine fell over"}
        self.send_response(200)
        self.end_headers()
        for event in events:
            self.wfile.write(json.dumps(event).encode() + b"\n")

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as echo:
        echo.bodies = []
        threading.Thread(target=echo.serve_forever, args=(0.01,), daemon=True).start()
        yield echo
        echo.shutdown()


@pytest.fixture
def env(server, tmp_path):
    return {"BLAZAR_HOST": f"127.0.0.1:{server.server_address[1]}", "HOME": str(tmp_path), "PATH": os.environ["PATH"],
            "PYTHONPATH": os.getcwd(), "TERM": "dumb"}


def chat(env, **options):
    given = {"model": "solo", "system": None, "temperature": None, "seed": None, "max_tokens": None, **options}
    out = io.StringIO()
    context = Context(argparse.Namespace(config=None, data_dir=None), env, Output(stream=out))
    return Chat(argparse.Namespace(**given), context), out


def test_an_answer_is_printed_as_it_comes_and_remembered(server, env):
    talk, out = chat(env)
    talk.ask("hello")
    talk.ask("again")
    assert out.getvalue() == "1 hello\n3 again\n"
    assert [message["content"] for message in server.bodies[1]["messages"]] == ["hello", "1 hello", "again"]


def test_only_given_options_are_sent(server, env):
    chat(env)[0].ask("hello")
    chat(env, temperature=0.0, max_tokens=5, system="Be brief.")[0].ask("hello")
    assert server.bodies[0]["options"] == {}
    assert server.bodies[1]["options"] == {"temperature": 0.0, "num_predict": 5}
    assert server.bodies[1]["messages"][0] == {"role": "system", "content": "Be brief."}


def test_a_failed_question_is_taken_back(server, env):
    talk, _ = chat(env)
    with pytest.raises(BlazarError, match="the engine fell over"):
        talk.ask("fail")
    talk.ask("hello")
    assert len(server.bodies[1]["messages"]) == 1


def test_clear_forgets(server, env):
    talk, _ = chat(env)
    talk.ask("hello")
    talk.clear()
    talk.ask("again")
    assert len(server.bodies[1]["messages"]) == 1


def test_the_prompt_may_come_on_stdin(server, env):
    done = subprocess.run([sys.executable, "-m", "blazar.cli.main", "run", "solo"], input="from a pipe\n", env=env,
                          capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1 from a pipe\n", "")


def test_nothing_to_ask_is_bad_usage(env):
    done = subprocess.run([sys.executable, "-m", "blazar.cli.main", "run", "solo"], input="", env=env,
                          capture_output=True, text=True, timeout=30)
    assert done.returncode == 2 and "nothing to ask" in done.stderr


def test_a_chat_on_a_terminal_survives_an_error_and_ends_with_bye(server, env):
    leader, follower = pty.openpty()
    chatting = subprocess.Popen([sys.executable, "-m", "blazar.cli.main", "run", "solo"], env=env,
                                stdin=follower, stdout=follower, stderr=follower, close_fds=True)
    os.close(follower)
    shown = b""

    def type_line(text, until):
        nonlocal shown
        os.write(leader, text + b"\n")
        read_until(until)

    def read_until(text):
        nonlocal shown
        while text not in shown:
            shown += os.read(leader, 4096)
        shown = shown.partition(text)[2]

    try:
        read_until(b">>> ")
        type_line(b"hello", b"1 hello\r\n")
        type_line(b"fail", b"blazar: the engine fell over\r\n")
        type_line(b"again", b"3 again\r\n")
        type_line(b"/clear", b">>> ")
        type_line(b"new", b"1 new\r\n")
        os.write(leader, b"/bye\n")
        assert chatting.wait(timeout=10) == 0
    finally:
        chatting.kill()
        chatting.wait()
        os.close(leader)
