"""A gateway whose only child holds what it is asked, so that whatever comes later waits for a slot."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

from tests.support import exposition
from tests.support.fake_supervisor import endpoint, eventually
from tests.support.gateway_under_test import ASK, MODEL, GatewayUnderTest, post
from tests.support.scripted_child import hello_world


class Held:
    """A child that holds what it is asked until `let` lets one through; `at_once` is the most that it held."""

    def __init__(self, play=hello_world):
        self.held = 0
        self.at_once = 0
        self._lock = threading.Lock()
        self._may = threading.Semaphore(0)
        self._play = play

    def __call__(self, conversation):
        with self._lock:
            self.held += 1
            self.at_once = max(self.at_once, self.held)
        assert self._may.acquire(timeout=60)
        with self._lock:
            self.held -= 1
        self._play(conversation)

    def let(self, count=1):
        self._may.release(count)


class Queued(GatewayUnderTest):
    """One slot; `held` holds whatever comes to it. Requests that are alike are each their own, unless `config` says."""

    def __init__(self, folder, config=None, slots=1, **more):
        super().__init__(folder, {"singleflight": False, **(config or {})}, **more)
        self.slots = slots
        self.offer(self.child)
        self.held = self.child.play = Held()
        self.asking = ThreadPoolExecutor(16)

    def offer(self, child, number=1):
        self.supervisor.loadable[MODEL] = endpoint(MODEL, child.address, number, slots=self.slots)
        if MODEL in self.supervisor.loaded:
            self.supervisor.loaded[MODEL] = self.supervisor.loadable[MODEL]

    def start(self, dialect="openai", **more):
        """Ask on a thread; the answer comes as a future."""
        return self.asking.submit(self.ask, dialect, **more)

    def count(self, name, **labels):
        told = self.request("GET", "/metrics", headers={"X-Api-Key": "sk-light"})
        return exposition.value(exposition.read(told.body.decode()), name, **labels)

    @property
    def parked(self):
        return int(self.count("blazar_requests_parked", model=MODEL))

    def tokens(self, key):
        return self.count("blazar_completion_tokens_total", key=key)

    def fill(self, parked=0):
        """Have the slot held and so many parked; their answers."""
        answers = [self.start()]
        eventually(lambda: self.held.held == self.slots)
        for number in range(parked):
            answers.append(self.start())
            eventually(lambda number=number: self.parked == number + 1)
        return answers

    def __exit__(self, *_):
        self.held.let(1000)
        self.asking.shutdown()
        super().__exit__()


def stream_request(dialect, *lines):
    """A question whose answer is to be streamed, as raw bytes; `lines` are more of its head."""
    path, body = ASK[dialect]
    data = json.dumps({**body, "stream": True}).encode()
    return post(path, data, "Connection: close", *lines)
