"""Children that are changed while the daemon runs: a real fleet with the stub engine, on a clock of the test's."""

from pathlib import Path

import pytest

from blazar.hardware.census import read_census
from blazar.supervisor import processes
from blazar.supervisor.states import State
from tests.support.fleet_bench import Bench
from tests.support.stub_model import play

pytestmark = pytest.mark.slow
SMALL = Path(__file__).parents[2] / "data" / "census" / "container-4gib.json"


@pytest.fixture
def bench(tmp_path):
    made = []

    def make(**settings):
        made.append(Bench(tmp_path, **settings))
        made[0].load()
        return made[0]

    yield make
    made[0].close()


def test_a_slot_more_after_a_minute_and_no_stream_is_cut(bench):
    bench = bench(default_ctx=512)
    bench.child.keep_for(1234.0)
    pid = bench.child.pid
    bench.seconds(61, in_flight=2)
    bench.turn_until(lambda: bench.drains)
    assert (bench.child.state, bench.child.pid) == (State.DRAINING, pid) and processes.is_alive(pid)
    child = bench.reshaped()
    assert child.endpoint.slots == 2 and child.keep_alive == child.endpoint.keep_alive == 1234.0
    assert bench.argv[bench.argv.index("--ctx-size") + 1] == "1024" and not processes.is_alive(pid)
    lines = {line.what: line for line in child.prepared.launch.plan.lines}
    assert (lines["adapted"].value, lines["adapted"].setting) == ("slots = 2", "adaptive_slots")
    bench.seconds(61, in_flight=2)
    assert bench.drains == [] and child.state is State.READY


def test_it_stays_so_when_the_model_is_loaded_again(bench):
    bench = bench(default_ctx=512)
    bench.seconds(61, in_flight=2)
    gone = []
    bench.reshaped()
    bench.fleet.evict(bench.model, gone.append)
    bench.turn_until(lambda: bench.drains)
    bench.far.answer(bench.drains.pop())
    bench.turn_until(lambda: gone)
    assert bench.load().endpoint.slots == 2


@pytest.mark.parametrize("settings", [
    {"slots": 1}, {"deterministic": True}, {"model_overrides": {"solo": {"slots": 1}}}])
def test_slots_that_somebody_chose_stay(bench, settings):
    bench = bench(default_ctx=512, **settings)
    bench.seconds(130, in_flight=5)
    assert bench.drains == [] and bench.child.endpoint.slots == 1


def test_a_router_is_left_alone(bench):
    bench = bench(default_ctx=512, router=True, spec_auto_manage=True, ubatch_auto=True)
    assert bench.child.endpoints()[bench.model].slots == 1
    bench.seconds(700, in_flight=5)
    assert bench.drains == [] and bench.child.id == "router#1" and bench.tuner.governors() == {}
    kept = bench.tuner._places["router"]
    assert not kept.busy and kept.refused == set(), "nothing was even tried"


def test_speculation_is_parked_and_restored(bench):
    bench = bench(default_ctx=512, spec_auto_manage=True, adaptive_slots=False)
    assert bench.argv[bench.argv.index("--spec-type") + 1] == "ngram-mod" and "--metrics" in bench.argv
    assert bench.tuner.governors() == {bench.model: {"spec": "active"}}
    bench.seconds(61, in_flight=3)
    bench.seconds(61, in_flight=3)
    bench.reshaped()
    assert "--spec-type" not in bench.argv and bench.tuner.governors() == {bench.model: {"spec": "parked"}}
    kept = bench.tuner._places[bench.model]
    for count in range(1, 10):
        bench.seconds(61, in_flight=0)
        bench.turn_until(lambda count=count: kept.spec.quiet == count)
    bench.seconds(61, in_flight=0)
    bench.reshaped()
    assert "--spec-type" in bench.argv and bench.tuner.governors() == {bench.model: {"spec": "active"}}


@pytest.mark.parametrize("settings", [
    {"model_overrides": {"solo": {"spec": "ngram"}}},
    {"model_overrides": {"solo": {"extra_args": ["--spec-type", "ngram-mod"]}}}])
def test_speculation_that_somebody_chose_stays(bench, settings):
    bench = bench(default_ctx=512, adaptive_slots=False, **{"spec_auto_manage": True, **settings})
    before = bench.argv
    bench.seconds(200, in_flight=3)
    bench.settle()
    assert bench.argv == before


def test_micro_batches_grow_and_shrink(bench):
    bench = bench(default_ctx=512, ubatch_auto=True, adaptive_slots=False)
    for tokens in ("1024", "2048"):
        bench.seconds(122, in_flight=3)
        bench.reshaped()
        assert bench.argv[bench.argv.index("--ubatch-size") + 1] == tokens
        assert bench.tuner.governors() == {bench.model: {"ubatch": tokens}}
    bench.seconds(200, in_flight=3)
    bench.settle()
    bench.seconds(660, in_flight=0)
    bench.reshaped()
    assert bench.argv[bench.argv.index("--ubatch-size") + 1] == "1024"


def test_a_change_with_which_it_does_not_load_is_taken_back(bench):
    bench = bench(default_ctx=512)
    bench.seconds(61, in_flight=2)
    play(bench.paths, bench.child.prepared.launch.facts["digest"], crash_at_load=3)
    bench.turn_until(lambda: bench.drains)
    bench.far.answer(bench.drains.pop())
    kept = bench.tuner._places[bench.model]
    bench.turn_until(lambda: not kept.busy)
    play(bench.paths, bench.child.prepared.launch.facts["digest"])
    assert bench.child.state is State.ABSENT
    bench.clock.leapt += 60.0
    assert bench.load().endpoint.slots == 1
    bench.seconds(130, in_flight=2)
    assert bench.drains == []


@pytest.mark.parametrize("settings", [{"ubatch_size": 256}, {"batch_size": 512}])
def test_micro_batches_that_somebody_chose_stay(bench, settings):
    bench = bench(default_ctx=512, ubatch_auto=True, adaptive_slots=False, **settings)
    bench.seconds(200, in_flight=3)
    bench.settle()


def in_gib(solo, other):
    """Settings with which the two models want so many GiB, the one for each slot, on a machine of 4 GiB."""
    sizes = {"solo": {"ctx": solo * 1024}, "other": {"ctx": other * 1024, "slots": 1}}
    return {"look": lambda: read_census(SMALL), "max_loaded": 0, "cache_type": "f16", "model_overrides": sizes}


@pytest.mark.parametrize("other", [0, 2])
def test_a_slot_more_makes_no_other_model_go(bench, other):
    bench = bench(**in_gib(1, other or 1))
    if other:
        bench.load(bench.other)
    bench.seconds(61, in_flight=2)
    if other:
        bench.settle()
        assert len(bench.fleet.ready()) == 2 and bench.child.endpoint.slots == 1
    else:
        assert bench.reshaped().endpoint.slots == 2


def test_no_slot_is_added_that_the_machine_has_no_room_for(bench):
    bench = bench(**in_gib(2, 1))
    for _ in range(2):
        bench.seconds(61, in_flight=2)
        bench.settle()
    assert bench.child.endpoint.slots == 1


def test_a_child_that_starts_anew_takes_no_room_that_others_took_meanwhile(bench):
    bench = bench(default_ctx=512)
    bench.seconds(61, in_flight=2)
    bench.turn_until(lambda: bench.drains)
    got = []
    bench.fleet.ensure_ready(bench.other, lambda endpoint, error: got.append(error))
    bench.far.answer(bench.drains.pop())
    kept = bench.tuner._places[bench.model]
    bench.turn_until(lambda: got and not kept.busy)
    assert got == [None] and [child.model for child in bench.fleet.ready()] == [bench.other]
    assert bench.child.state is State.ABSENT


def test_a_change_that_was_taken_back_is_not_told(bench):
    bench = bench(default_ctx=512, ubatch_auto=True, adaptive_slots=False)
    bench.seconds(122, in_flight=3)
    play(bench.paths, bench.child.prepared.launch.facts["digest"], crash_at_load=3)
    bench.turn_until(lambda: bench.drains)
    bench.far.answer(bench.drains.pop())
    kept = bench.tuner._places[bench.model]
    bench.turn_until(lambda: not kept.busy)
    play(bench.paths, bench.child.prepared.launch.facts["digest"])
    bench.clock.leapt += 60.0
    bench.load()
    assert "--ubatch-size" not in bench.argv
    assert bench.tuner.governors() == {bench.model: {"ubatch": "default"}}


def test_a_context_that_was_asked_for_meanwhile_stays(bench):
    bench = bench(default_ctx=512)
    bench.begin()
    bench.tuned[bench.model] = {"default_ctx": 1024}
    child = bench.reshaped()
    assert child.endpoint.slots == 2 and bench.argv[bench.argv.index("--ctx-size") + 1] == "2048"


def test_a_child_that_is_leaving_is_not_changed(bench):
    bench = bench(default_ctx=512)
    bench.begin()
    gone = []
    bench.fleet.evict(bench.model, gone.append)
    kept = bench.tuner._places[bench.model]
    bench.turn_until(lambda: bench.drains and not kept.busy)
    bench.far.answer(bench.drains.pop())
    bench.turn_until(lambda: gone)
    assert bench.tuned == {} and bench.load().endpoint.slots == 1
