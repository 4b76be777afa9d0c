"""What is put off: called once in a moment, by a greenlet of its own, and again when it is asked for again."""

from blazar.proxy import greens


class Calls:
    def __init__(self):
        self.count, self.made, self.fails = 0, greens.Event(), False

    def __call__(self):
        self.count += 1
        self.made.set()
        if self.fails:
            raise ValueError("it goes wrong")


def test_it_is_made_once_however_often_it_is_asked_for():
    calls = Calls()
    begin = greens.soon(calls, 0.001)
    for count in (1, 2):
        begin()
        begin()
        assert calls.count == count - 1
        assert calls.made.wait(20)
        greens.sleep(0.01)
        assert calls.count == count
        calls.made.clear()


def test_one_that_fails_is_logged_and_the_next_is_made(caplog):
    calls = Calls()
    begin, calls.fails = greens.soon(calls, 0.001), True
    for _ in range(2):
        begin()
        assert calls.made.wait(20)
        calls.made.clear()
    assert caplog.text.count("ValueError: it goes wrong") == calls.count == 2


def test_an_interrupter_reaches_who_is_inside_of_it_and_once():
    raised = []

    def wait():
        try:
            with greens.Interrupter(ValueError) as interrupter:
                interrupters.append(interrupter)
                interrupter()
                interrupter()
                greens.sleep(20)
        except ValueError as error:
            raised.append(error)
        greens.sleep(0.01)  # where a second one would come

    interrupters: list = []
    greens.spawn(wait).get(timeout=10)
    assert len(raised) == 1
    interrupters[0]()
    greens.sleep(0.01)
    assert len(raised) == 1


def test_an_interrupter_spares_who_has_left():
    def wait():
        with greens.Interrupter(ValueError) as interrupter:
            interrupter()
        greens.sleep(0.01)
        return "spared"

    assert greens.spawn(wait).get(timeout=10) == "spared"
