import threading

from blazar.errors import NameRefused
from blazar.supervisor.loop import Loop
from blazar.supervisor.pool import Pool


def turn_until(loop, probe):
    for _ in range(1000):
        if probe():
            return
        loop.turn(0.1)
    raise AssertionError("not within 1000 turns")


def test_results_and_errors_come_back_on_the_loop():
    loop, told = Loop(), []
    pool = Pool(loop)

    def refuse():
        raise NameRefused(name="x", reason="no")

    pool.submit(lambda *told_now: told.append((threading.current_thread(), *told_now)), lambda: 7)
    turn_until(loop, lambda: told)
    assert told == [(threading.main_thread(), 7, None)]
    pool.submit(lambda result, error: told.append((result, error.slug)), refuse)
    pool.submit(lambda result, error: told.append((result, error.message)), lambda: 1 / 0)
    turn_until(loop, lambda: len(told) == 3)
    assert sorted(told[1:]) == sorted([(None, "name-refused"),
                                       (None, "internal error: division by zero; see the daemon log")],
                                      key=lambda pair: pair[1])


def test_no_more_threads_than_allowed_and_everyone_gets_a_turn():
    loop, told, lock = Loop(), [], threading.Lock()
    pool = Pool(loop, 3)
    running, most = 0, 0

    def work(number):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        threading.Event().wait(0.002)
        with lock:
            running -= 1
        return number

    for number in range(50):
        pool.submit(lambda result, error: told.append(result), work, number)
    turn_until(loop, lambda: len(told) == 50)
    assert sorted(told) == list(range(50))
    assert most == 3
