"""What clients are told that a model can do, with its settings."""

import pytest

from blazar.supervisor.abilities import as_configured
from tests.support.raw_gguf import gguf_bytes


def told(settings, *able):
    found = as_configured({"capabilities": list(able), "name": "x"}, settings)
    return found["capabilities"], found.get("blind"), found.get("late_chunking")


@pytest.mark.parametrize(("settings", "able", "expected"), [
    ({}, ("completion", "vision"), (["completion", "vision"], None, None)),
    ({}, ("completion",), (["completion"], None, None)),
    ({"mmproj_policy": "skip"}, ("completion", "vision", "audio"), (["completion"], 'mmproj_policy = "skip"', None)),
    ({"mmproj_policy": "skip"}, ("completion",), (["completion"], None, None)),
    ({"mmproj_policy": "skip", "mmproj": "/x"}, ("completion",), (["completion"], 'mmproj_policy = "skip"', None)),
    ({"mmproj_auto": False}, ("completion", "vision"), (["completion"], "mmproj_auto = false", None)),
    ({"mmproj": "/not/there"}, ("completion",), (["completion", "vision"], None, None)),
    ({"extra_args": ("-mm", "/x"), "mmproj_policy": "skip"}, ("completion",), (["completion", "vision"], None, None)),
    ({"late_chunking": True}, ("embedding",), (["embedding"], None, True)),
    ({"late_chunking": True}, ("completion",), (["completion"], None, None)),
    ({"mmproj_policy": "skip"}, ("embedding",), (["embedding"], None, None))])
def test_capabilities(settings, able, expected):
    assert told(settings, *able) == expected


def test_a_projector_says_what_it_is_for(tmp_path):
    file = tmp_path / "mmproj.gguf"
    file.write_bytes(gguf_bytes({"general.architecture": "clip", "clip.has_audio_encoder": True}))
    assert told({"mmproj": str(file)}, "completion", "vision")[0] == ["completion", "audio"]
