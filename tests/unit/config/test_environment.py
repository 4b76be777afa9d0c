"""Every variable is set, wrong values name it, and what is no setting is carried beside them."""

import pytest

from blazar.config.environment import VARIABLES
from blazar.config.registry import SETTINGS
from blazar.errors import ConfigRefused
from tests.support.config_files import load_text

GIVEN = {
    "BLAZAR_DEFAULT_CTX": ("default_ctx", "4096", 4096),
    "BLAZAR_CHILD_TRANSPORT": ("child_transport", "unix", "unix"),
    "BLAZAR_SPEC_AUTO_NGRAM": ("spec_auto_ngram", "0", False),
    "BLAZAR_SPEC_AUTO_MANAGE": ("spec_auto_manage", "1", True),
    "BLAZAR_UBATCH_AUTO": ("ubatch_auto", "true", True),
    "BLAZAR_DOWNLOAD_SPEED_LIMIT_MB": ("download_speed_limit_mb", "20", 20),
    "BLAZAR_WHISPER_STREAM_CHUNK_MS": ("whisper_stream_chunk_ms", "5000", 5000),
    "BLAZAR_WHISPER_EXTRA_ARGS": ("whisper_extra_args", "--dtw,tiny x,-ml,1", ("--dtw", "tiny x", "-ml", "1")),
    "BLAZAR_SDCPP_EXTRA_ARGS": ("sdcpp_extra_args", "--lora-model-dir,/a b", ("--lora-model-dir", "/a b")),
    "BLAZAR_CAPABILITY_REGISTRY": ("capability_registry_url", "", ""), "BLAZAR_PRELOAD": ("preload", "a,b", ("a", "b")),
    "BLAZAR_KEYS": ("keys", "me:secret", None), "BLAZAR_LOG": ("log_level", "DEBUG", "debug"),
    "RUST_LOG": ("log_level", "warn,blazar=trace", "trace"),
}
WRONG = {"BLAZAR_DEFAULT_CTX": "abc", "BLAZAR_CHILD_TRANSPORT": "udp", "BLAZAR_SPEC_AUTO_NGRAM": "maybe",
         "BLAZAR_SPEC_AUTO_MANAGE": "2", "BLAZAR_UBATCH_AUTO": "x", "BLAZAR_DOWNLOAD_SPEED_LIMIT_MB": "-1",
         "BLAZAR_WHISPER_STREAM_CHUNK_MS": "999", "BLAZAR_WHISPER_EXTRA_ARGS": "--port,80",
         "BLAZAR_SDCPP_EXTRA_ARGS": "--vae,x", "BLAZAR_CAPABILITY_REGISTRY": "ftp://x", "BLAZAR_PRELOAD": "a\x01",
         "BLAZAR_KEYS": "nameonly", "BLAZAR_LOG": "loud"}


def test_no_variable_is_forgotten():
    names = {name for setting in SETTINGS.values() for name in setting.variables}
    assert names == set(GIVEN)
    product = {"BLAZAR_KEYS", "BLAZAR_REGISTRY_BASE", "BLAZAR_REGISTRY_TOKEN", "BLAZAR_GH_BASE", "BLAZAR_REPO",
               "BLAZAR_INSTALL_BASE_URL", "BLAZAR_ENGINE_PATH", "BLAZAR_SYSTEMCTL", "BLAZAR_CAPABILITY_REGISTRY",
               "BLAZAR_ENGINE_GATE", "BLAZAR_HOST", "BLAZAR_DEFAULT_CTX", "BLAZAR_CHILD_TRANSPORT", "RUST_LOG"}
    assert product <= names | set(VARIABLES)


@pytest.mark.parametrize("variable", GIVEN)
def test_variable_sets_its_key(variable, tmp_path):
    name, text, value = GIVEN[variable]
    config = load_text("", tmp_path, {variable: text})
    assert config.origin(name) == "env"
    if name == "keys":
        assert (config.keys[0]["name"], config.keys[0]["key"], config.keys[0]["models"]) == ("me", "secret", ())
    else:
        assert config[name] == value != SETTINGS[name].default


@pytest.mark.parametrize("variable", WRONG)
def test_wrong_value_names_the_variable(variable, tmp_path):
    with pytest.raises(ConfigRefused, match=f"environment variable {variable}"):
        load_text("", tmp_path, {variable: WRONG[variable]})


def test_empty_counts_as_unset_except_for_text_and_lists(tmp_path):
    empty = dict.fromkeys(GIVEN, "")
    config = load_text('preload = ["a"]\nkeep_tags = 3\ndefault_ctx = 5', tmp_path, empty)
    assert config.preload == () and config.capability_registry_url == ""
    assert config.default_ctx == 5 and config.child_transport == "tcp" and config.log_level is None


@pytest.mark.parametrize(("env", "level"), [
    ({"RUST_LOG": "error", "BLAZAR_LOG": "debug"}, "error"), ({"BLAZAR_LOG": "warning"}, "warn"),
    ({"RUST_LOG": "hyper=debug", "BLAZAR_LOG": "debug"}, "debug"), ({"RUST_LOG": "off,hyper=debug"}, "off"),
    ({"RUST_LOG": "info,blazar_gateway=trace"}, "info"), ({}, "info"),
])
def test_log_level(env, level, tmp_path):
    config = load_text('log_level = "Info"', tmp_path, env)
    assert config.log_level == level
    assert bool(config.warnings) == (env.get("RUST_LOG") == "hyper=debug")


def test_runtime(tmp_path):
    config = load_text("", tmp_path, {"BLAZAR_ENGINE_PATH": "/x/llama-server", "BLAZAR_ENGINE_GATE": "off",
                                      "BLAZAR_REPO": "", "HOME": "/h"})
    assert config.runtime["BLAZAR_ENGINE_PATH"] == "/x/llama-server" and config.runtime["BLAZAR_ENGINE_GATE"] == 0.0
    assert config.runtime["BLAZAR_REPO"] is None and "HOME" not in config.runtime
    assert load_text("", tmp_path, {"BLAZAR_ENGINE_GATE": "0.5"}).runtime["BLAZAR_ENGINE_GATE"] == 0.5
    assert load_text("", tmp_path).runtime["BLAZAR_ENGINE_GATE"] == 0.9


@pytest.mark.parametrize(("variable", "text"), [("BLAZAR_ENGINE_GATE", "1.5"), ("BLAZAR_ENGINE_GATE", "on"),
                                                ("BLAZAR_REPO", "x"), ("BLAZAR_REGISTRY_BASE", "x"),
                                                ("BLAZAR_GH_BASE", "x"), ("BLAZAR_INSTALL_BASE_URL", "x")])
def test_wrong_runtime_value(variable, text, tmp_path):
    with pytest.raises(ConfigRefused, match=f"environment variable {variable}: "):
        load_text("", tmp_path, {variable: text})


def test_misspelt_variables_are_told(tmp_path):
    config = load_text("", tmp_path, {"BLAZAR_DEFUALT_CTX": "5", "BLAZAR_SUDO": "x", "BLAZAR_STUB_X": "1"})
    assert config.warnings == ("BLAZAR_DEFUALT_CTX is not a variable that Blazar reads; "
                               "did you mean BLAZAR_DEFAULT_CTX?",)


def test_a_setting_that_no_variable_sets_is_told(tmp_path):
    config = load_text("", tmp_path, {"BLAZAR_PORT": "8080"})
    assert config.warnings == ("BLAZAR_PORT is not a variable that Blazar reads; "
                               "write port = ... into the configuration file",)


@pytest.mark.parametrize("token", ["abc def", "a\r\nX: y", "t\u00f6ken", "\u65e5\u672c", "a\0b"])
def test_a_token_that_no_header_can_carry_is_refused_and_not_repeated(token, tmp_path):
    with pytest.raises(ConfigRefused, match="environment variable BLAZAR_REGISTRY_TOKEN: ") as told:
        load_text("", tmp_path, {"BLAZAR_REGISTRY_TOKEN": token})
    assert token not in str(told.value) and "abc" not in str(told.value)


def test_a_token_with_the_end_of_its_line(tmp_path):
    """As it comes out of a file."""
    config = load_text("", tmp_path, {"BLAZAR_REGISTRY_TOKEN": "hf_abc\n"})
    assert config.runtime["BLAZAR_REGISTRY_TOKEN"] == "hf_abc"
