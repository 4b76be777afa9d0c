"""Children that are started anew with a larger context, with the stub engine."""

import pytest

from blazar.store.store import Store
from blazar.supervisor.contexts import Contexts
from blazar.supervisor.states import State
from tests.support.stub_model import play
from tests.unit.supervisor.test_tuner import Bench


class ContextBench(Bench):
    def __init__(self, folder, **settings):
        super().__init__(folder, **{"default_ctx": 1024, **settings})
        self.contexts = Contexts(self.fleet, self.tuner._tuned)

    def play(self, **scenario):
        play(self.paths, Store(self.paths).get(self.model).digest, **scenario)

    def begin(self, wanted):
        """Ask for the model; what comes of it will be in the list."""
        got = []
        self.contexts.ensure_ready(self.model, wanted, lambda endpoint, error: got.append((endpoint, error)))
        return got

    def ask(self, wanted):
        """The endpoint of a request that wants so much; whoever has to leave is let go."""
        got = self.begin(wanted)
        self.turn_until(lambda: got or self.drains)
        if self.drains:
            self.far.answer(self.drains.pop())
        self.turn_until(lambda: got)
        assert len(got) == 1 and got[0][1] is None, got
        return got[0][0]


@pytest.fixture
def bench(tmp_path):
    made = ContextBench(tmp_path)
    yield made
    made.close()


def ctx_flag(bench):
    return int(bench.argv[bench.argv.index("--ctx-size") + 1])


def test_a_larger_context_starts_the_child_anew_and_a_smaller_one_does_not(bench, caplog):
    caplog.set_level("INFO")
    first = bench.ask(0)
    assert (first.ctx, bench.ask(512).child_id, bench.ask(1024).child_id) == (1024, first.child_id, first.child_id)
    larger = bench.ask(1500)
    assert larger.ctx == ctx_flag(bench) == 1500 and larger.child_id != first.child_id
    assert "a request's num_ctx of 1500 is more than its context of 1024 tokens" in caplog.text
    assert bench.ask(0).child_id == bench.ask(1200).child_id == larger.child_id
    assert bench.ask(1800).ctx == 1800


def test_what_is_loaded_for_the_request_has_it_at_once_and_forgets_it_when_unloaded(bench):
    assert bench.ask(1500).ctx == 1500 and bench.child.generation == 1
    gone = []
    bench.fleet.evict(bench.model, gone.append)
    bench.turn_until(lambda: bench.drains)
    bench.far.answer(bench.drains.pop())
    bench.turn_until(lambda: gone)
    assert bench.ask(0).ctx == 1024


def test_a_smaller_one_than_configured_is_not_loaded_either(bench):
    assert bench.ask(100).ctx == 1024


def test_what_cannot_be_had_is_said_and_not_tried_again(bench, caplog):
    bench.play(ctx=1024)  # the engine keeps to that, whatever it is told
    bench.ask(0)
    kept = bench.ask(1500)
    assert kept.ctx == 1024 and bench.child.generation == 2
    assert "a context of 1500 tokens cannot be had here; it stays at 1024" in caplog.text
    assert bench.ask(1500).child_id == bench.ask(1700).child_id == kept.child_id


def test_a_child_that_fails_with_it_comes_back_without(bench, caplog):
    bench.ask(0)
    got = bench.begin(1500)
    bench.play(crash_at_load=1)
    bench.turn_until(lambda: bench.drains)
    bench.far.answer(bench.drains.pop())
    bench.turn_until(lambda: "cannot be loaded with a context of 1500" in caplog.text)
    bench.play()
    bench.turn_until(lambda: got)
    assert got[0][1] is None and got[0][0].ctx == 1024 and bench.child.state is State.READY
    assert bench.ask(1500).child_id == got[0][0].child_id


def test_two_who_want_different_ones(bench):
    bench.ask(0)
    one, other = bench.begin(1500), bench.begin(1800)
    while not (one and other):
        bench.turn_until(lambda: bench.drains or (one and other))
        if bench.drains:
            bench.far.answer(bench.drains.pop())
    assert one[0][0].ctx >= 1500 and other[0][0].ctx == 1800
