from blazar.supervisor.answers import gathered


def part(ages, times, cancelled=0):
    return {"requests": [{"age_secs": age} for age in ages], "finished": [{"time": time} for time in times],
            "cancelled": cancelled}


def test_what_two_gateways_tell_of_their_requests_is_one_list():
    assert gathered([part([5, 1], ["2026-01-03", "2026-01-01"], 1), part([3], ["2026-01-02"], 2)], 2) == {
        "requests": [{"age_secs": 5}, {"age_secs": 3}, {"age_secs": 1}],
        "finished": [{"time": "2026-01-03"}, {"time": "2026-01-02"}], "cancelled": 3}
    assert gathered([], 5) == {"requests": [], "finished": [], "cancelled": 0}
