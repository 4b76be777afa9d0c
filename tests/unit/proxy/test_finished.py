from blazar.proxy.finished import Finished
from blazar.proxy.json import dumps


def line(number, key=None):
    return {"id": f"r{number}", "key": key, "status": 200}


def test_the_newest_come_first_and_the_oldest_go():
    ring = Finished(3)
    for number in range(5):
        ring.add(dumps(line(number)), f"/p{number}")
    assert ring.last(2, None) == [{**line(4), "path": "/p4"}, {**line(3), "path": "/p3"}]
    assert [one["id"] for one in ring.last(9, None)] == ["r4", "r3", "r2"]
    assert ring.last(0, None) == []


def test_a_key_has_its_own():
    ring = Finished()
    for number, key in enumerate(["ann", None, "bob", "ann"]):
        ring.add(dumps(line(number, key)), "")
    assert [one["id"] for one in ring.last(9, "ann")] == ["r3", "r0"]
    assert [one["id"] for one in ring.last(1, "bob")] == ["r2"]
    assert ring.last(9, "") == []
