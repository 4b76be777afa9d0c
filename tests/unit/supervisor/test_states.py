from blazar.supervisor.states import ALLOWED, LIVE, State


def test_every_state_is_in_the_table_and_leads_back_to_absent():
    assert set(ALLOWED) == set(State)
    for state in State:
        reached, pending = set(), [state]
        while pending:
            for following in ALLOWED[pending.pop()] - reached:
                reached.add(following)
                pending.append(following)
        assert State.ABSENT in reached


def test_only_a_starting_child_becomes_ready():
    assert [state for state in State if State.READY in ALLOWED[state]] == [State.STARTING]
    assert State.READY not in ALLOWED[State.DRAINING]


def test_live_states_are_those_with_a_process():
    assert set(State) - LIVE == {State.ABSENT, State.QUEUED}
