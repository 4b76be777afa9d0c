import threading

from blazar.errors import ModelNotFound
from blazar.supervisor.loop import Loop
from blazar.supervisor.pool import Pool


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_posted_calls_run_in_order_on_the_loops_thread():
    loop, seen = Loop(), []
    threads = [threading.Thread(target=loop.post, args=(lambda n=n: seen.append((n, threading.get_ident())),))
               for n in range(3)]
    for thread in threads:
        thread.start()
        thread.join()
    loop.post(loop.end)
    loop.run()
    assert seen == [(n, threading.get_ident()) for n in range(3)]


def test_timers_run_when_due_and_not_before():
    clock = Clock()
    loop, seen = Loop(clock), []
    loop.later(2, seen.append, "two")
    loop.later(1, seen.append, "one")
    loop.later(1, seen.append, "one again")
    loop.later(1.5, seen.append, "never").cancel()
    loop.turn(0)
    assert seen == []
    clock.now += 1
    loop.turn(0)
    assert seen == ["one", "one again"]
    clock.now += 1
    loop.turn(0)
    assert seen == ["one", "one again", "two"]


def test_a_timer_set_by_a_timer_waits_for_its_own_time():
    clock = Clock()
    loop, seen = Loop(clock), []
    loop.later(1, loop.later, 1, seen.append, "second")
    clock.now += 1
    loop.turn(0)
    assert seen == []
    clock.now += 1
    loop.turn(0)
    assert seen == ["second"]


def test_a_faulty_call_is_logged_and_the_next_one_runs(caplog):
    loop, seen = Loop(), []
    loop.post(int, "x")
    loop.post(seen.append, 1)
    loop.turn()
    loop.turn()
    assert seen == [1]
    assert "invalid literal" in caplog.text


def answer(work, *args):
    loop, seen = Loop(), []
    Pool(loop).submit(lambda result, error: seen.append((result, error)), work, *args)
    loop.turn(5)
    return seen[0]


def test_pool_brings_back_results_and_errors():
    def missing():
        raise ModelNotFound(name="m", near="")

    assert answer(divmod, 7, 2) == ((3, 1), None)
    result, error = answer(missing)
    assert result is None and error.slug == "model-not-found"
    result, error = answer(int, "x")
    assert result is None and "invalid literal" in error.message and error.status == 500
