"""A projector that comes with the first request which shows something: a real fleet with the stub engine."""

import pytest

from blazar.errors import FitRefused, LaunchFileMissing, LoadFailed, ShuttingDown
from blazar.supervisor.sight import AGAIN
from blazar.supervisor.states import State
from tests.support.fleet_bench import Bench
from tests.support.stub_model import play


@pytest.fixture
def bench(tmp_path):
    made = []

    def make(mmproj=None, **settings):
        file = tmp_path / "mmproj.gguf"
        file.write_bytes(bytes(7 << 20))
        one = {"mmproj": str(file), **(mmproj or {})}
        made.append(Bench(tmp_path, default_ctx=512, model_overrides={"solo": one}, **settings))
        return made[0]

    yield make
    made[0].close()


class Asked:
    """What a request to the bench's model has come to: `got` has the endpoint, or the error."""

    def __init__(self, bench, shown, ctx=0):
        self.got = []
        bench.sight.ensure_ready(bench.model, ctx, lambda *told: self.got.append(told), is_shown=shown)

    def done(self, bench):
        bench.turn_until(lambda: self.got)
        assert len(self.got) == 1
        return self.got[0]


def loaded(bench, shown=False):
    endpoint, error = Asked(bench, shown).done(bench)
    assert error is None and endpoint.projector == ("--mmproj" in bench.argv)
    return endpoint


def beside(bench):
    return bench.child.prepared.launch.plan.parts[0].beside


def test_text_first_then_one_respawn_with_the_projector(bench):
    bench = bench()
    text = loaded(bench)
    assert not text.projector and beside(bench) == 0
    asked = [Asked(bench, shown=True), Asked(bench, shown=True)]
    bench.turn_until(lambda: bench.drains)
    reader = Asked(bench, shown=False)
    assert bench.child.state is State.DRAINING and bench.child.id == text.child_id, "what runs ends first"
    bench.reshaped()
    seen = [one.done(bench)[0] for one in (*asked, reader)]
    assert {one.child_id for one in seen} == {f"{bench.model}#2"} and all(one.projector for one in seen)
    assert beside(bench) == 7 << 20, "its bytes count"
    assert loaded(bench, shown=True).child_id == loaded(bench).child_id == seen[0].child_id, "they find it there"
    assert bench.drains == []


def test_a_larger_context_and_a_projector_in_one_request(bench):
    bench = bench()
    loaded(bench)
    asked = Asked(bench, shown=True, ctx=2048)
    while not asked.got:
        bench.turn_until(lambda: bench.drains or asked.got)
        if bench.drains:
            bench.far.answer(bench.drains.pop())
    endpoint, error = asked.done(bench)
    assert error is None and endpoint.projector and endpoint.ctx == 2048


def test_the_first_request_may_show_something(bench):
    bench = bench()
    assert loaded(bench, shown=True).projector and bench.child.generation == 1


def test_an_evicted_child_begins_without(bench):
    bench = bench()
    loaded(bench, shown=True)
    gone = []
    bench.fleet.evict(bench.model, gone.append)
    bench.turn_until(lambda: bench.drains)
    bench.far.answer(bench.drains.pop())
    bench.turn_until(lambda: gone)
    assert not loaded(bench).projector


@pytest.mark.parametrize(("settings", "has"), [({"mmproj_policy": "attach"}, True), ({"mmproj_policy": True}, True),
                                               ({"mmproj_policy": "skip"}, False), ({"mmproj_policy": False}, False)])
def test_the_other_policies(bench, settings, has):
    bench = bench(**settings)
    assert loaded(bench).projector is has


def test_a_flag_of_ones_own_wins(bench):
    bench = bench({"extra_args": ["-mm", "/own.gguf"]}, mmproj_policy="skip")
    endpoint, _ = Asked(bench, shown=False).done(bench)
    assert endpoint.projector and bench.argv[-2:] == ("-mm", "/own.gguf") and "--mmproj" not in bench.argv


def test_a_projector_that_does_not_fit_costs_nobody_anything(bench, tmp_path):
    bench = bench()
    text = loaded(bench)
    with open(tmp_path / "mmproj.gguf", "ab") as file:
        file.truncate(1 << 42)
    _, error = Asked(bench, shown=True).done(bench)
    assert isinstance(error, FitRefused) and bench.drains == []
    assert loaded(bench).child_id == text.child_id
    (tmp_path / "mmproj.gguf").unlink()
    assert Asked(bench, shown=True).done(bench)[1] is error, "it is not tried at once again"
    bench.clock.leapt += AGAIN + 1
    assert isinstance(Asked(bench, shown=True).done(bench)[1], LaunchFileMissing)
    bench.sight.forgive()
    (tmp_path / "mmproj.gguf").write_bytes(b"x")
    asked = Asked(bench, shown=True)
    bench.reshaped()
    assert asked.done(bench)[0].projector


def test_a_projector_that_the_engine_cannot_load(bench):
    """Requests of text that came meanwhile are answered, by a child without it."""
    bench = bench()
    loaded(bench)
    digest = bench.child.prepared.launch.facts["digest"]
    play(bench.paths, digest, crash_with="--mmproj")
    asked = Asked(bench, shown=True)
    bench.turn_until(lambda: bench.drains)
    readers = [Asked(bench, shown=False), Asked(bench, shown=False)]
    bench.far.answer(bench.drains.pop())
    assert isinstance(asked.done(bench)[1], LoadFailed)
    for reader in readers:
        endpoint, error = reader.done(bench)
        assert error is None and not endpoint.projector and endpoint.child_id == f"{bench.model}#3"
    assert isinstance(Asked(bench, shown=True).done(bench)[1], LoadFailed) and bench.child.state is State.READY


def test_one_that_waits_for_its_load_is_loaded_once(bench):
    bench = bench()
    reader, asked = Asked(bench, shown=False), Asked(bench, shown=True)
    assert reader.done(bench)[0].projector and asked.done(bench)[0].child_id == f"{bench.model}#1"


def test_nothing_is_begun_while_it_stops(bench):
    bench = bench()
    loaded(bench)
    bench.fleet.refuse_loads()
    assert isinstance(Asked(bench, shown=True).done(bench)[1], ShuttingDown)
