from blazar.cli.watching.source import sentence
from blazar.cli.watching.view import Row, lines, look, table
from blazar.telemetry.exposition import read

PAGE = """\
# TYPE blazar_child_state gauge
blazar_child_state{model="m:q4_0",replica="1",state="starting"} 1
blazar_child_state{model="m:q4_0",replica="2",state="ready"} 1
# TYPE blazar_child_slots gauge
blazar_child_slots{model="m:q4_0",replica="2"} 4
# TYPE blazar_child_requests gauge
blazar_child_requests{model="m:q4_0",replica="1"} 0
blazar_child_requests{model="m:q4_0",replica="2"} 3
# TYPE blazar_requests_parked gauge
blazar_requests_parked{model="m:q4_0"} 2
blazar_requests_parked{model="gone:q4_0"} 0
blazar_requests_parked{model="next:q4_0"} 1
# TYPE blazar_child_memory_planned_bytes gauge
blazar_child_memory_planned_bytes{model="m:q4_0",replica="1",memory="main memory"} 1073741824
blazar_child_memory_planned_bytes{model="m:q4_0",replica="2",memory="0000:01:00.0"} 1073741824
# TYPE blazar_memory_bytes gauge
blazar_memory_bytes 8589934592
# TYPE blazar_memory_free_bytes gauge
blazar_memory_free_bytes 4294967296
# TYPE blazar_gpu_memory_bytes gauge
blazar_gpu_memory_bytes{gpu="0000:01:00.0",name="Card"} 8589934592
# TYPE blazar_gpu_memory_free_bytes gauge
blazar_gpu_memory_free_bytes{gpu="0000:01:00.0",name="Card"} 2147483648
# TYPE blazar_model_loads_total counter
blazar_model_loads_total{model="m:q4_0",outcome="ready"} 2
blazar_model_loads_total{model="m:q4_0",outcome="failed"} 1
# TYPE blazar_inter_token_seconds histogram
blazar_inter_token_seconds_count{model="m:q4_0"} PIECES
"""


def seen(at, pieces, before=None):
    return look(at, {family.name: family for family in read(PAGE.replace("PIECES", str(pieces)))}, before)


def test_two_looks_make_a_speed():
    first = seen(10.0, 100)
    assert first.rows["m:q4_0"].rate is None
    second = seen(12.0, 150, first)
    row = second.rows["m:q4_0"]
    assert row == Row("m:q4_0", 2, "ready", 4, 3, 2, 2 << 30, 150.0, 25.0)
    assert seen(14.0, 10, second).rows["m:q4_0"].rate == 0.0, "the gateway has begun anew"
    assert second.loads == 3 and set(second.rows) == {"m:q4_0", "next:q4_0"} and second.rows["next:q4_0"].waiting == 1


def test_the_screen():
    told = lines(seen(12.0, 150, seen(10.0, 100)), [{"event": "x", "time": "2026-01-01T00:00:00.000Z"}] * 99, 100, 14)
    assert told[0].startswith("memory 4.0 GiB of 8.0 GiB   requests 0   loads 3")
    assert told[1] == "gpu Card 0000:01:00.0: 6.0 GiB of 8.0 GiB"
    assert told[3].split() == ["MODEL", "STATE", "SLOTS", "QUEUE", "TOK/S", "MEMORY"]
    assert told[4].split() == ["m:q4_0", "ready", "x2", "3/4", "2", "25.0", "2.0", "GiB"]
    assert len(told) <= 14 and told[-1] == "2026-01-01T00:00:00Z  x"


def test_any_terminal_is_wide_enough():
    now = seen(12.0, 150, seen(10.0, 100))
    for width in (1, 10, 40, 300):
        for height in (1, 2, 5, 50):
            told = lines(now, [{"event": "x" * 500, "time": "2026-01-01T00:00:00.000Z"}], width, height)
            assert 1 <= len(told) <= height and max(map(len, told)) <= width
    assert lines(look(1.0, {}), [], 80, 24)[-1] == "no model is loaded"


def test_names_are_cut_and_figures_stay():
    cut = table([Row("a-very-long-name-of-a-model:q4_k_m", slots=2, rate=7.0)], 50)
    assert max(map(len, cut)) <= 50 and "…" in cut[1] and cut[1].split()[-4:] == ["0", "7.0", "0", "B"]


def test_an_event_is_a_line():
    event = {"id": "x-1", "event": "model_failed", "time": "2026-01-01T02:03:04.567Z", "model": "m:q4_0",
             "message": 'not "here"\nat all', "slots": 2, "keys": ["a"], "empty": ""}
    assert sentence(event) == ('2026-01-01T02:03:04Z  model_failed  model=m:q4_0 message="not \\"here\\"\\nat all" '
                               'slots=2 keys=["a"] empty=""')
    assert "gone" in sentence({"event": "gap", "time": "2026-01-01T02:03:04.567Z"})


def test_what_is_shown_is_told_as_json_too():
    told = seen(12.0, 150, seen(10.0, 100)).plain()
    assert told["models"][0] == {"model": "m:q4_0", "state": "ready", "replicas": 2, "slots": 4, "busy": 3,
                                 "waiting": 2, "memory": 2 << 30, "tokens_per_second": 25.0}
    assert told["gpus"] == {"Card 0000:01:00.0": {"memory": 8 << 30, "free": 2 << 30}}
