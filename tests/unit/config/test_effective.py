"""Settings of one model."""

import pytest

from blazar.config.effective import effective
from blazar.config.registry import SETTINGS
from tests.support.config_files import load_text

TEXT = """
default_ctx = 8192
slots = 2
rpc_servers = "a:1"
tensor_split = "1,1"
cache_type = "q8_0"
[sglang]
tp_size = 2
dp_size = 3
[model_overrides.Qwen]
ctx = 100
slots = 0
cache_type = ""
rpc_servers = ""
tensor_split = "3,1"
pin = true
sglang = { tp_size = 4 }
[model_overrides."qwen:Q8_0"]
ctx = 200
"""


@pytest.fixture
def config(tmp_path):
    return load_text(TEXT, tmp_path)


def test_without_an_override(config):
    settings = effective(config, "other:q4_0")
    assert all(settings[name] == config[name] for name in SETTINGS)
    assert settings["pin"] is None and settings["replicas"] is None and settings["exclusive"] is False


@pytest.mark.parametrize("name", ["qwen", "QWEN:q4_0", " qwen:latest "])
def test_a_name_covers_its_variants(config, name):
    settings = effective(config, name)
    assert (settings["default_ctx"], settings["slots"], settings["cache_type"]) == (100, 0, "")
    assert (settings["rpc_servers"], settings["tensor_split"], settings["pin"]) == ("a:1", "3,1", True)
    assert (settings["sglang"]["tp_size"], settings["sglang"]["dp_size"]) == (4, 3)
    assert settings["sglang"]["cache_report"] is True
    assert "ctx" not in settings


def test_the_full_name_wins(config):
    settings = effective(config, "Qwen:q8_0")
    assert (settings["default_ctx"], settings["slots"], settings["pin"]) == (200, 2, None)


def test_the_general_settings_are_not_touched(config):
    effective(config, "qwen")
    assert config.sglang["tp_size"] == 2
    with pytest.raises(TypeError):
        effective(config, "qwen")["slots"] = 1


def test_what_was_given_with_a_model_stands_between_the_two(config):
    own = {"default_ctx": 512}
    assert effective(config, "other:q4_0", own)["default_ctx"] == 512
    assert effective(config, "qwen:q4_0", own)["default_ctx"] == 100
    assert effective(config, "other:q4_0", own)["slots"] == 2
