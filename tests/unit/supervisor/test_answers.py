from blazar.supervisor.answers import gathered
from blazar.telemetry.redact import scrubber


def part(ages, times, cancelled=0):
    return {"requests": [{"age_secs": age, "id": "a@b.example", "client": "10.0.0.9"} for age in ages],
            "finished": [{"time": time, "id": "1", "asked": "m"} for time in times], "cancelled": cancelled}


def test_what_two_gateways_tell_of_their_requests_is_one_list():
    told = gathered([part([5, 1], ["2026-01-03", "2026-01-01"], 1), part([3], ["2026-01-02"], 2)], 2, scrubber(False))
    assert [row["age_secs"] for row in told["requests"]] == [5, 3, 1]
    assert [row["time"] for row in told["finished"]] == ["2026-01-03", "2026-01-02"] and told["cancelled"] == 3
    assert told["requests"][0]["client"] == "10.0.0.9"
    assert gathered([], 5, str) == {"requests": [], "finished": [], "cancelled": 0}


def test_what_clients_chose_is_scrubbed():
    told = gathered([part([5], ["2026-01-03"])], 2, scrubber(True))
    assert told["requests"] == [{"age_secs": 5, "id": "[email]", "client": "[ip]"}]
