import gevent
import pytest
from gevent.event import Event

from blazar.errors import ResponseCancelled
from blazar.proxy.writing import Writing
from tests.support.wire import dialects


def exchange():
    return dialects()["responses"].parse("create", b'{"model":"M","input":"hi"}', {}, "r1")


def test_only_its_owner_cancels_a_response_and_waits_for_its_end():
    writing, one, order = Writing(), exchange(), []
    with writing.of("ann", "resp_1", one):
        assert writing.cancel("bob", "resp_1", 0) is False and one.ended_by is None
        woken = Event()
        one.interrupt = woken.set
        waits = gevent.spawn(lambda: (writing.cancel("ann", "resp_1", 30), order.append("cancelled")))
        assert woken.wait(30) and isinstance(one.ended_by, ResponseCancelled)
        order.append("ended")
    waits.join(30)
    assert order == ["ended", "cancelled"]
    assert writing.cancel("ann", "resp_1", 0) is False


def test_one_that_fails_is_no_longer_written():
    writing = Writing()
    with pytest.raises(OSError), writing.of("ann", "resp_1", exchange()):
        raise OSError
    assert writing.cancel("ann", "resp_1", 0) is False
