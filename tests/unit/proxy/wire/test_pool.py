import socket
import sys

import gevent
import pytest

from blazar.proxy.wire.head import KEPT_IDLE
from blazar.proxy.wire.pool import SEGMENT, SMALL, Pool
from tests.support.fake_supervisor import endpoint, eventually
from tests.support.scripted_child import ScriptedChild, hello_world
from tests.support.turning import turning


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def child():
    with ScriptedChild(hello_world) as child:
        yield child


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def pool(clock):
    return Pool(clock)


def keep(pool, place, count=1):
    lent = [pool.take(place) for _ in range(count)]
    for connection in lent:
        pool.give_back(connection, place)
    return lent


def test_last_in_first_out(child, pool):
    place = endpoint("m", child.address)
    _, second = keep(pool, place, 2)
    taken = pool.take(place)
    assert taken is second and taken.reused


def test_no_more_are_kept_than_the_child_has_slots_and_one(child, pool):
    place = endpoint("m", child.address, slots=2)
    keep(pool, place, 5)
    assert pool.idle_count(place.child_id) == 3


def test_one_that_is_closed_goes_at_once(child, pool):
    place = endpoint("m", child.address)
    [idle], lent = keep(pool, place), pool.take(endpoint("n", child.address))
    pool.close(lent)
    pool.sweep(set())
    only_here = sys.getrefcount(object()) + 1
    assert [sys.getrefcount(idle), sys.getrefcount(lent)] == [only_here, only_here]


def test_a_connection_the_child_closed_is_not_lent_again(child, pool):
    place = endpoint("m", child.address)
    keep(pool, place, 2)
    eventually(lambda: child.connections == 2)
    child.drop()
    turning(lambda: pool.idle_count(place.child_id) == 0)
    assert not pool.take(place).reused


def test_a_connection_on_which_the_child_spoke_unasked_is_not_lent_again(pool):
    with ScriptedChild(lambda talk: talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nstray")) as child:
        place = endpoint("m", child.address)
        lent = pool.take(place)
        lent.send(b"GET / HTTP/1.1\r\n\r\n")
        pool.give_back(lent, place)
        turning(lambda: pool.idle_count(place.child_id) == 0)
        assert not pool.take(place).reused


def test_a_child_that_is_late_is_interrupted_under_its_reader(child, pool, clock):
    place = endpoint("m", child.address)
    prompt, late = pool.take(place), pool.take(place)
    late.deadline, prompt.deadline = clock.now + 5, clock.now + 6
    reading = [gevent.spawn(one.receive) for one in (late, prompt)]
    gevent.sleep(0)
    clock.now += 5.5
    pool.sweep({place.child_id})
    assert reading[0].get(timeout=2) == b"" and late.late
    assert not reading[1].ready() and not prompt.late
    prompt.interrupt()
    assert reading[1].get(timeout=2) == b""


def test_more_than_the_kernel_takes_at_once(pool):
    size, got = 30 << 20, []
    with ScriptedChild(lambda talk: got.append(len(talk.request.body))) as child:
        lent = pool.take(endpoint("m", child.address))
        lent.send(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % size + bytes(size))
        turning(lambda: got)
    assert got == [size]


def test_pieces_of_any_size_come_whole_and_an_answer_in_one(child, pool):
    sizes = [1, SMALL - 1, SMALL, SMALL + 1, 3, 60000, 5, 2000, 2000]
    with ScriptedChild(lambda talk: None) as silent:
        place = endpoint("m", silent.address)
        lent = pool.take(place)
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        lent._recv = ours.recv
        for number, size in enumerate(sizes):
            piece = bytes([65 + number]) * size
            theirs.sendall(piece)
            assert lent.read() == piece
        theirs.sendall(b"small")
        assert lent.read() == b"small"
        lent.send(b"GET / HTTP/1.1\r\n\r\n")
        theirs.sendall(bytes(5000))
        assert len(lent.read()) == 5000, "after a request"
        for last in (b"small", bytes(SMALL)):
            theirs.sendall(last)
            assert lent.read() == last
        theirs.close()
        assert lent.read() == b""
        ours.close()
        pool.close(lent)


@pytest.mark.parametrize(("size", "at_once"), [(SEGMENT, 0), (SEGMENT + 1, 1)])
def test_the_last_segment_of_several_does_not_wait(pool, size, at_once):
    with ScriptedChild(lambda talk: None) as child:
        lent = pool.take(endpoint("m", child.address))
        lent.send(bytes(size))
        assert lent._sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == at_once
        pool.close(lent)


def test_idle_ones_are_closed_before_the_child_would(child, pool, clock):
    place = endpoint("m", child.address)
    keep(pool, place)
    clock.now += KEPT_IDLE
    assert pool.take(place).reused
    keep(pool, place)
    clock.now += KEPT_IDLE + 0.01
    assert not pool.take(place).reused


def test_none_is_kept_longer_than_its_child_keeps_it(child, pool, clock):
    place = endpoint("m", child.address)
    pool.give_back(pool.take(place), place, kept=4.0)
    clock.now += 4.0
    pool.sweep({place.child_id})
    again = pool.take(place)
    assert again.reused
    pool.give_back(again, place, kept=4.0)
    clock.now += 4.01
    pool.sweep({place.child_id})
    assert pool.idle_count(place.child_id) == 0


def test_sweep_closes_the_old_and_those_of_gone_children(child, pool, clock):
    here, gone = endpoint("m", child.address), endpoint("n", child.address)
    keep(pool, here)
    keep(pool, gone)
    pool.sweep({here.child_id})
    assert (pool.idle_count(here.child_id), pool.idle_count(gone.child_id)) == (1, 0)
    clock.now += KEPT_IDLE + 1
    pool.sweep({here.child_id})
    assert pool.idle_count(here.child_id) == 0


def test_refused_connection_is_an_os_error(child, pool):
    child.stop()
    with pytest.raises(OSError):
        pool.take(endpoint("m", child.address))


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_UNIX], ids=["tcp", "unix"])
def test_a_child_whose_queue_is_full_is_waited_for_while_others_go_on(pool, tmp_path, family):
    with socket.socket(family) as listener:
        listener.bind(("127.0.0.1", 0) if family == socket.AF_INET else str(tmp_path / "m.sock"))
        listener.listen(0)
        place = endpoint("m", listener.getsockname())
        waiting = [gevent.spawn(pool.take, place) for _ in range(4)]
        gevent.sleep(0.05)
        assert not all(one.ready() for one in waiting)
        listener.setblocking(False)
        accepted = []

        def accept() -> bool:
            try:
                accepted.append(listener.accept()[0])
            except BlockingIOError:
                pass
            return all(one.ready() for one in waiting)

        turning(accept)
        for one in waiting:
            pool.close(one.get())
        for one in accepted:
            one.close()


def test_a_child_that_closes_after_its_streams_has_them_on_new_connections(child, pool, clock):
    place = endpoint("m", child.address)
    pool.give_back(pool.take(place), place, streamed=True)
    stale = pool.take(place)
    assert stale.reused
    pool.found_stale(stale)
    pool.close(stale)
    pool.give_back(pool.take(place), place, streamed=True)
    assert pool.idle_count(place.child_id) == 0
    pool.give_back(pool.take(place), place)
    assert pool.idle_count(place.child_id) == 1
    pool.sweep(set())
    successor = endpoint("m", child.address, 2)
    pool.give_back(pool.take(successor), successor, streamed=True)
    assert pool.idle_count(successor.child_id) == 0, "it is the same program"


def test_one_that_closes_them_later_keeps_them(child, pool, clock):
    place = endpoint("m", child.address)
    pool.give_back(pool.take(place), place, streamed=True)
    clock.now += 1.0
    stale = pool.take(place)
    pool.found_stale(stale)
    pool.close(stale)
    pool.give_back(pool.take(place), place, streamed=True)
    assert pool.idle_count(place.child_id) == 1
