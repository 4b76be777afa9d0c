"""Which projector a model is loaded with, by its settings."""

import pytest

from blazar.planner.projector import by_hand, chosen, for_load, has_flag, why_left_out

SKIP, AUTO_OFF = 'mmproj_policy = "skip"', "mmproj_auto = false"


@pytest.mark.parametrize(("settings", "projector", "left_out"), [
    ({}, "/beside", ""), ({"mmproj": "/named"}, "/named", ""),
    ({"mmproj_policy": "skip"}, None, SKIP), ({"mmproj_policy": "skip", "mmproj": "/named"}, None, SKIP),
    ({"mmproj_auto": False}, None, AUTO_OFF), ({"mmproj_auto": False, "mmproj": "/named"}, "/named", ""),
    ({"extra_args": ("--no-mmproj",)}, None, "extra_args"),
    ({"extra_args": ("-mm", "/own"), "mmproj_policy": "skip"}, "/own", ""),
    ({"extra_args": ("-fa", "--mmproj=/own"), "mmproj_auto": False}, "/own", ""),
    ({"extra_args": ("-mm",)}, "", "")])
def test_which_and_why_not(settings, projector, left_out):
    assert chosen(settings, "/beside") == projector and why_left_out(settings) == left_out
    assert chosen({**settings, "extra_args": ()}, None) in (None, settings.get("mmproj"))


def test_lazy_is_skip_until_something_is_shown():
    for policy in (None, "lazy"):
        assert for_load({"mmproj_policy": policy, "x": 1}, shown=False) == {"mmproj_policy": "skip", "x": 1}
        assert for_load({"mmproj_policy": policy}, shown=True)["mmproj_policy"] == policy
    for policy in ("attach", "skip"):
        assert for_load({"mmproj_policy": policy}, shown=False)["mmproj_policy"] == policy


def test_command_lines():
    assert has_flag(["x", "-mmu", "https://x"]) and by_hand(["x", "-mmu", "https://x"]) == "https://x"
    assert not has_flag(["--mmproj-device", "none"]) and by_hand(["--mmproj-offload"]) == ""
