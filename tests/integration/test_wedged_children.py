"""Children that accept requests and then do nothing, seen by clients of each dialect: through the real daemon."""

import http.client
import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from blazar.supervisor.gateway import LAUNCHER
from tests.support import exposition
from tests.support.daemon import DAEMONS
from tests.support.gateway_under_test import ASK, Answer, is_error_of
from tests.support.waiting import until

CASES = [(dialect, stream) for dialect in ASK for stream in (False, True)]
SECONDS = 60
"""For which the stub does nothing: longer than any test waits."""
BEGUN = {
    # what the stub has sent when it stops, for a client that wants a stream and for the plainest other
    True: ['data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"Half"},"finish_reason":null}]}\n\n'],
    False: ['{"choices":'],
}
IN_STREAM = {"openai": b'data: {"error":{"message":', "ollama": b'{"error":"', "anthropic": b"event: error\n",
             "responses": b"response.failed"}
WHOLE = {"openai": b"[DONE]", "ollama": b'"done":true', "anthropic": b"message_stop",
         "responses": b"response.completed"}
TEXT = {False: b"Hello there.", True: b"there"}


class Bench:
    """A daemon with one model for each dialect, streamed and not."""

    def __init__(self, folder, transport, **settings):
        self.daemon = DAEMONS[transport](folder, launcher=LAUNCHER, max_loaded_models=20, singleflight=False,
                                         child_header_timeout_secs=1, **settings)

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        self.daemon.__exit__(*problem)

    def play(self, scenario):
        """Install the models, each with what `scenario` says for a client that wants a stream, or none."""
        self.models = {(dialect, stream): self.daemon.install(f"{dialect}-{stream}".lower(),
                                                              **scenario(stream or dialect != "openai"))
                       for dialect, stream in CASES}
        self.daemon.start()
        return self

    def ask(self, case):
        dialect, stream = case
        path, body = ASK[dialect]
        connection = http.client.HTTPConnection("127.0.0.1", self.daemon.port, timeout=40)
        connection.request("POST", path, json.dumps({**body, "model": self.models[case], "stream": stream}))
        response = connection.getresponse()
        try:
            whole = response.read()
        except http.client.IncompleteRead as broken:
            whole = broken.partial + b"<broken off>"
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, headers, whole)

    def asked(self, case):
        """Whether the child has its request."""
        return any(request["method"] == "POST" for request in self.daemon.requests(self.models[case]))

    def ask_all(self, meanwhile=lambda case: None):
        """The answers by case; `meanwhile` is called for each once its child has the request."""
        with ThreadPoolExecutor(len(CASES)) as threads:
            answers = {case: threads.submit(self.ask, case) for case in CASES}
            for case in CASES:
                until(lambda case=case: self.asked(case), 30, f"request of {case}")
                meanwhile(case)
            return {case: answer.result() for case, answer in answers.items()}

    def mend(self, case):
        """From its next start on, the stub of this model is a good one."""
        self.daemon.play(self.models[case])

    def starts(self, case):
        return len(self.daemon.starts(self.models[case]))

    def metrics(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.daemon.port, timeout=40)
        connection.request("GET", "/metrics")
        return exposition.read(connection.getresponse().read().decode())

    def audit(self):
        return [json.loads(line) for line in self.daemon.paths.audit_log.read_text().splitlines()]

    def check_nothing_is_held(self):
        until(lambda: exposition.value(self.metrics(), "blazar_requests_in_flight") == 0, 10, "end of all requests")
        assert len(self.audit()) == len(CASES)
        assert "Traceback" not in self.daemon.log()


@pytest.mark.parametrize("transport", DAEMONS)
def test_a_child_that_says_nothing_and_has_nothing_to_do_is_replaced(tmp_path, transport):
    """Its client has the answer of its successor."""
    with Bench(tmp_path, transport).play(lambda _: {"silent": SECONDS}) as bench:
        answers = bench.ask_all(bench.mend)
        for (dialect, stream), answer in answers.items():
            assert answer.status == 200 and TEXT[stream] in answer.body, (dialect, stream, answer)
            assert bench.starts((dialect, stream)) == 2
        bench.check_nothing_is_held()
        assert {line["error"] for line in bench.audit()} == {None}
        told = bench.metrics()
        assert sum(exposition.value(told, "blazar_wedged_children_total", model=model)
                   for model in bench.models.values()) == len(CASES)


def test_a_child_that_works_stays_and_its_client_is_told(tmp_path):
    with Bench(tmp_path, "tcp").play(lambda _: {"silent": SECONDS, "busy": "moving"}) as bench:
        for (dialect, stream), answer in bench.ask_all().items():
            assert answer.status == 504, (dialect, stream, answer)
            message = is_error_of(dialect, answer)
            assert "stream the request" in message and "child_header_timeout_secs" in message
            assert bench.starts((dialect, stream)) == 1
        bench.check_nothing_is_held()
        assert {line["error"] for line in bench.audit()} == {"child-silent"}


def test_a_successor_that_is_no_better(tmp_path):
    """One retry, and not for ever."""
    with Bench(tmp_path, "tcp") as bench:
        bench.models = {("ollama", False): bench.daemon.install("bad", silent=SECONDS)}
        bench.daemon.start()
        answer = bench.ask(("ollama", False))
        assert answer.status == 502 and "standstill" in is_error_of("ollama", answer)
        assert bench.starts(("ollama", False)) == 2


@pytest.mark.parametrize(("transport", "how"), [("tcp", "idle"), ("tcp", "still"), ("unix", "frozen")])
def test_a_child_that_stops_in_the_middle_is_ended(tmp_path, transport, how):
    """Who has the beginning is told inside the stream; who was told nothing yet has the successor's answer."""
    def scenario(streams):
        busy = {"busy": "still"} if how == "still" else {}
        return {"chunks": [*BEGUN[streams], {"pause": SECONDS}], **busy}

    def stop(case):
        bench.mend(case)
        if how == "frozen":
            [[pid, _]] = bench.daemon.starts(bench.models[case])
            os.kill(int(pid), signal.SIGSTOP)

    with Bench(tmp_path, transport, sentinel_stall_secs=1).play(scenario) as bench:
        for (dialect, stream), answer in bench.ask_all(stop).items():
            case = (dialect, stream, answer)
            assert answer.status == 200, case
            if stream:
                assert b"Half" in answer.body and IN_STREAM[dialect] in answer.body, case
                assert b"standstill" in answer.body and WHOLE[dialect] not in answer.body, case
            elif dialect == "openai":
                assert answer.body == b'{"choices":<broken off>', case
            else:
                assert b"Hello there." in answer.body, case
        bench.check_nothing_is_held()
        assert sorted(str(line["error"]) for line in bench.audit()) == ["None"] * 3 + ["child-wedged"] * 5
        told = bench.metrics()
        assert all(exposition.value(told, "blazar_stalled_answers_total", model=model, outcome="ended") == 1
                   for model in bench.models.values())
        assert "brought nothing for 1 s" in bench.daemon.log()


def test_a_stream_that_pauses_while_its_child_works_goes_on(tmp_path):
    ends = 'data: {"choices":[{"index":0,"delta":{"content":" done"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'

    def scenario(streams):
        return {"chunks": [*BEGUN[True], {"pause": 5}, ends], "busy": "moving"} if streams else {}

    with Bench(tmp_path, "tcp", sentinel_stall_secs=1).play(scenario) as bench:
        for (dialect, stream), answer in bench.ask_all().items():
            assert answer.status == 200 and bench.starts((dialect, stream)) == 1
            if stream:
                assert b"done" in answer.body and WHOLE[dialect] in answer.body, (dialect, answer)
        told = bench.metrics()
        assert exposition.value(told, "blazar_stalled_answers_total", model="openai-true:f32", outcome="kept") >= 2
