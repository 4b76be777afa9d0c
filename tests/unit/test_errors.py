"""The tree of errors: slugs are unique, templates have the facts they name, and errors survive the control socket."""

import pytest

from blazar import control, errors
from blazar.engines import embedded
from blazar.supervisor import daemon


def every_class():
    pending, found = [errors.BlazarError], []
    while pending:
        kind = pending.pop()
        found.append(kind)
        pending.extend(kind.__subclasses__())
    return found


def test_each_error_has_a_slug_of_its_own():
    slugs = [kind.slug for kind in every_class()]
    assert sorted(slugs) == sorted(set(slugs))


def test_exit_code_3_means_that_the_address_is_taken_and_nothing_else():
    assert {kind.slug for kind in every_class() if kind.exit_code == 3} == {"bind-conflict", "already-running"}


@pytest.mark.parametrize("kind", every_class(), ids=lambda kind: kind.slug)
def test_an_error_survives_the_control_socket(kind):
    error = kind("what was wrong; what to do", retry_after=2.5)
    again = errors.revive(error.to_dict())
    assert type(again) is kind
    assert (again.message, again.status, again.retry_after) == ("what was wrong; what to do", error.status, 2.5)


def test_an_unknown_slug_keeps_its_status_and_words():
    again = errors.revive({"slug": "from-the-future", "message": "m", "status": 418})
    assert (type(again), again.status, str(again)) == (errors.BlazarError, 418, "m")


def test_a_template_is_filled_with_its_facts():
    error = errors.ModelNotFound(name="solo", near="; did you mean solo:q4_0?")
    assert str(error).startswith("model 'solo' not found, try pulling it first: `blazar pull solo`; ")
    assert "\n" not in str(errors.EngineMissing(model="m", reason="r", output=""))


def test_a_fact_that_is_missing_is_a_programming_mistake():
    with pytest.raises(KeyError):
        errors.ModelNotFound(name="solo")


def test_every_error_of_the_rooms_stands_in_the_tree():
    for room in (control, embedded, daemon):
        assert room.BlazarError is errors.BlazarError
    assert {kind.__module__ for kind in every_class()} == {"blazar.errors"}
