"""A real fleet with the stub engine, tuner and all, on a loop that a test turns and a clock of its own."""

import os
import socket
import time

from blazar.config.config import Config
from blazar.config.effective import effective
from blazar.config.registry import SETTINGS
from blazar.control import Link
from blazar.engines.llamacpp import LlamaCpp
from blazar.hardware.census import census
from blazar.models.base import close_database
from blazar.paths import Paths
from blazar.store.store import Store
from blazar.supervisor import processes
from blazar.supervisor.contexts import Contexts
from blazar.supervisor.daemon import router_of
from blazar.supervisor.fleet import Fleet
from blazar.supervisor.loader import Loader
from blazar.supervisor.loop import Loop
from blazar.supervisor.means import Means
from blazar.supervisor.pool import Pool
from blazar.supervisor.sight import Sight
from blazar.supervisor.states import State
from blazar.supervisor.tuner import Tuner
from blazar.supervisor.workers import Workers
from tests.support.daemon import STUB_ENGINE
from tests.support.routers import STUB_ROUTER
from tests.support.stub_model import HEAVY, install_stub

PATIENCE = 20.0
"""Seconds of the real clock for one change."""


class Clock:
    """Goes on by itself, and by leaps."""

    leapt = 0.0

    def __call__(self):
        return time.monotonic() + self.leapt


class Bench:
    """`solo` is loaded by most tests, and `other` stands beside it; both want a MiB for each token of context."""

    def __init__(self, folder, look=census, max_loaded=1, **settings):
        config = Config.from_dict({"idle_timeout_secs": 0, **settings})
        self.clock = Clock()
        self.loop = Loop(self.clock)
        self.paths = Paths(folder / "data").ensure()
        self.model = install_stub(self.paths, "solo:q4_0", folder, shape=HEAVY)
        self.other = install_stub(self.paths, "other:q4_0", folder, shape=HEAVY)
        store, pool, tuned, shown = Store(self.paths), Pool(self.loop), {}, set()
        self.tuned = tuned
        self.workers = Workers(self.loop)
        loader = Loader(store, self.paths, [LlamaCpp(SETTINGS.values())],
                        lambda model, own: effective(config, model, own),
                        str(STUB_ROUTER if config.router else STUB_ENGINE), None, True, tuned=tuned,
                        router=router_of(config, self.paths), shown=shown)
        means = Means(self.loop, pool, self.paths, loader.weigh, look, lambda: self.loop.post(self.fleet.schedule),
                      lambda digests: None)
        self.fleet = Fleet(means, self.workers, max_loaded=max_loaded, keep_alive=-1.0, router=config.router,
                           shown=shown)
        self.tuner = Tuner(self.loop, pool, self.workers, self.fleet, config, loader.loses_nothing, tuned)
        self.sight = Sight(self.loop, pool, self.fleet, Contexts(self.fleet, tuned), loader.weigh, census, shown)
        self.drains = []
        ours, theirs = socket.socketpair()
        self.far = Link(theirs, self.hear).start()
        self.near = Link(ours, lambda link, message: None).start()
        self.workers.join(self.near, os.getpid(), ())

    def hear(self, link, message):
        if message["kind"] == "usage":
            link.answer(message, children={})
        elif message["kind"] == "drain":
            self.drains.append(message)

    def turn_until(self, probe):
        ends = time.monotonic() + PATIENCE
        while not (found := probe()):
            assert time.monotonic() < ends, "it did not happen"
            self.loop.turn(0.02)
        return found

    def load(self, model=None):
        got = []
        self.fleet.ensure_ready(model or self.model, lambda endpoint, error: got.append((endpoint, error)))
        self.turn_until(lambda: got)
        assert got[0][1] is None
        return self.child

    @property
    def child(self):
        return next(iter(self.fleet._children.values()))

    @property
    def argv(self):
        return self.child.prepared.command.argv

    def seconds(self, count, in_flight):
        """So many looks, one a second, while so many requests are under way."""
        for _ in range(count):
            if self.child.state is not State.READY:
                return
            self.workers.report(self.near, {self.child.id: {"in_flight": in_flight, "last_used": self.clock()}})
            self.tuner.look(self.child)
            self.clock.leapt += 1.0
            while not self.loop._calls.empty():
                self.loop.turn(0.0)

    def begin(self):
        """Let requests wait until a change is begun, and nothing be known of it yet."""
        self.seconds(1, in_flight=2)
        while not self.tuner._places[self.model].busy:
            self.workers.report(self.near, {self.child.id: {"in_flight": 2, "last_used": self.clock()}})
            self.clock.leapt += 1.0
            self.tuner.look(self.child)

    def reshaped(self):
        """Let what was begun come to its end; the child that serves then."""
        before = self.child.id
        self.turn_until(lambda: self.drains)
        self.far.answer(self.drains.pop())
        self.turn_until(lambda: self.child.id != before and self.child.state is State.READY)
        return self.child

    def settle(self):
        """Let the threads end that were begun; nothing is drained by them."""
        kept = self.tuner._places[self.model]
        self.turn_until(lambda: not kept.busy)
        assert self.drains == [] and self.child.state is State.READY

    def close(self):
        self.fleet.kill()
        processes.end(processes.marked(self.paths.data_dir_id))
        self.far.close()
        close_database()
