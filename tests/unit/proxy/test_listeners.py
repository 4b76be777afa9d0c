import pytest

from blazar.errors import ListenersFull
from blazar.proxy.listeners import BEHIND, MOST, Listeners, visible


def event(number):
    return {"id": f"x-{number}", "event": "model_ready", "model": "m"}


def test_each_listener_hears_each_event():
    listeners = Listeners()
    with listeners.join(lambda: None) as one, listeners.join(lambda: None) as other:
        listeners.hear(event(1))
        listeners.hear(event(2))
        assert one.take(9) == other.take(9) == [event(1), event(2)]
        assert one.take(0.01) == [] and len(listeners) == 2
    assert len(listeners) == 0


def test_one_that_does_not_read_is_cut_off_and_costs_nothing_more():
    listeners, ended = Listeners(), []
    with listeners.join(lambda: ended.append(1)) as slow, listeners.join(lambda: ended.append(2)) as quick:
        for number in range(BEHIND + 50):
            listeners.hear(event(number))
            assert len(quick.take(0)) == 1
        assert ended == [1] and len(listeners) == 1 and slow.take(0) == []


def test_no_more_than_the_limit():
    listeners = Listeners()
    joined = [listeners.join(lambda: None) for _ in range(MOST)]
    for one in joined:
        one.__enter__()
    with pytest.raises(ListenersFull, match="64"), listeners.join(lambda: None):
        pass
    joined[0].__exit__(None, None, None)
    with listeners.join(lambda: None) as late:
        assert not late.over


def test_the_end_comes_after_what_was_heard():
    listeners = Listeners()
    with listeners.join(lambda: None) as one:
        listeners.hear(event(1))
        listeners.end()
        assert one.over and one.take(9) == [event(1)]
    with listeners.join(lambda: None) as next:
        assert not next.over
    listeners.end(for_good=True)
    with listeners.join(lambda: None) as late:
        assert late.over


@pytest.mark.parametrize(("key", "told", "sees"), [
    (None, {"key": "ann", "model": "n"}, True), ("ann", {"key": "ann"}, True), ("bob", {"key": "ann"}, False),
    ("bob", {"model": "m"}, True), ("bob", {"model": "n"}, False), ("bob", {}, True),
    ("bob", {"reference": "n"}, False), ("bob", {"reference": "m"}, True),
    ("bob", {"event": "keys_changed", "keys": ["ann", "bob"]}, False), (None, {"event": "keys_changed"}, True),
    ("bob", {"event": "config_refused", "message": "/etc/blazar/config.toml line 3"}, False)])
def test_what_an_api_key_may_hear(key, told, sees):
    assert visible(lambda model: model == "m", key)({"event": "x", **told}) is sees
