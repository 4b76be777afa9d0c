"""Every rule refuses its refused example and accepts its accepted one."""

import json
import re
from pathlib import Path

import pytest

from blazar.config.engine_rules import LLAMA_PLANNED, LLAMA_RESERVED, LLAMA_VARIABLES
from blazar.config.exposure_rules import TOOL_FLAGS, TOOL_VARIABLES, tools_offered
from blazar.config.rules import RULES
from blazar.errors import ConfigRefused
from tests.support.config_files import load_text


def test_names_are_unique():
    assert len({rule.name for rule in RULES}) == len(RULES) == 52


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_examples(rule, tmp_path):
    accepted = load_text(rule.accepted, tmp_path)
    assert not list(rule.check({name: accepted[name] for name in accepted.as_dict()}))
    if rule.warns:
        assert load_text(rule.refused, tmp_path).warnings
    else:
        with pytest.raises(ConfigRefused) as caught:
            load_text(rule.refused, tmp_path)
        assert f"{tmp_path}/config.toml line " in str(caught.value)
        assert "; " in str(caught.value)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_each_rule_is_needed_for_its_example(rule, tmp_path):
    """The refused example is caught by this very rule, and not by another one that happens to stand before it."""
    refused = None
    try:
        refused = load_text(rule.refused, tmp_path)
    except ConfigRefused as error:
        message = str(error)
        assert len(message.splitlines()) == 1, message
    assert (refused is not None) == rule.warns


REMOTE = '[[remotes]]\nname = "box"\nurl = "{}"\n'


@pytest.mark.parametrize("url", ["https://example.com", "https://203.0.113.7", "http://127.0.0.1:8000", "http://127.9.9.9",
                                 "http://localhost:1", "http://[::1]:8000", "http://LOCALHOST", "HTTPS://x"])
def test_ladder_accepts(url, tmp_path):
    if url.startswith("HTTPS"):
        with pytest.raises(ConfigRefused):
            load_text(REMOTE.format(url), tmp_path)
    else:
        assert load_text(REMOTE.format(url), tmp_path).warnings == ()


@pytest.mark.parametrize("url", ["http://10.1.2.3", "http://192.168.1.1:80/v1", "http://172.16.0.1", "http://172.31.255.1",
                                 "http://169.254.1.1", "http://[fd00::1]:8000", "http://[fe80::1]",
                                 "http://[::ffff:10.0.0.1]"])
def test_ladder_warns(url, tmp_path):
    [warning] = load_text(REMOTE.format(url), tmp_path).warnings
    assert "line 3" in warning and "remote box crosses the local network unencrypted" in warning


@pytest.mark.parametrize("url", ["http://203.0.113.7", "http://example.com", "http://172.32.0.1", "http://172.15.0.1",
                                 "http://11.0.0.1", "http://0.0.0.0", "http://localhost.example.com", "http://127.1",
                                 "http://10.0.0.1.nip.io", "http://[2001:db8::1]", "http://[fc00::1]"])
def test_ladder_refuses_and_the_owner_may_insist(url, tmp_path):
    with pytest.raises(ConfigRefused, match="would send the key in the clear"):
        load_text(REMOTE.format(url), tmp_path)
    [warning] = load_text(REMOTE.format(url) + "allow_insecure_http = true", tmp_path).warnings
    assert "crosses the open network unencrypted" in warning


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "box.lan"])
@pytest.mark.parametrize("tool", ["agent = true", "server_tools = true", 'server_tools = "all"',
                                  'mcp_servers_config = "/etc/mcp.json"', 'mcp_servers_json = "{}"',
                                  '[model_overrides.m]\nextra_args = ["--tools", "all"]',
                                  '[model_overrides.m]\nextra_args = ["--top-k", "7", "-ag"]'])
def test_engine_tools_are_not_exposed(host, tool, tmp_path):
    with pytest.raises(ConfigRefused, match="lets anyone who reaches"):
        load_text(f'host = "{host}"\n{tool}', tmp_path)
    load_text(f'host = "{host}"\n{tool}', tmp_path, {"BLAZAR_KEYS": "me:secret"})
    load_text(f'host = "127.0.0.1"\n{tool}', tmp_path)


def test_tools_that_are_off_need_no_keys(tmp_path):
    load_text('host = "0.0.0.0"\nserver_tools = false', tmp_path)


def test_pools_of_remotes_are_allowed(tmp_path):
    config = load_text(REMOTE.format("https://a") + REMOTE.format("https://b"), tmp_path)
    assert [remote["url"] for remote in config.remotes] == ["https://a", "https://b"]


@pytest.mark.parametrize("flag", ["--host", "--port", "--port=80", "--port 80", "--model", "-m", "--vad",
                                  "--vad-model"])
def test_reserved_whisper_flags(flag, tmp_path):
    with pytest.raises(ConfigRefused, match="is set by Blazar itself"):
        load_text("", tmp_path, {"BLAZAR_WHISPER_EXTRA_ARGS": f"--dtw,tiny,{flag}"})


def test_a_rule_names_the_variable_that_broke_it(tmp_path):
    with pytest.raises(ConfigRefused, match="environment variable BLAZAR_WHISPER_EXTRA_ARGS"):
        load_text("whisper_beam_size = 5", tmp_path, {"BLAZAR_WHISPER_EXTRA_ARGS": "--beam-size,3"})


def test_sglang_of_an_override_is_seen_over_the_general_one(tmp_path):
    text = '[sglang]\nenable_priority_scheduling = true\n[model_overrides.m.sglang]\nretraction_policy = "priority"\n'
    load_text(text, tmp_path)
    with pytest.raises(ConfigRefused, match="line 4, key `retraction_policy`"):
        load_text(text.replace("true", "false"), tmp_path)


HELP = [(Path(__file__).parents[2] / f"data/help/llama-server-{build}.txt").read_text()
        for build in ("b10434", "b11434")]
"""What llama-server says of its flags."""


def flags_that(words: str) -> list[str]:
    """The flags of llama-server of which the help says `words`, in each of their spellings."""
    found = [line for text in HELP for line in text.splitlines() if re.match("-", line) and re.search(words, line)]
    assert found, words
    return sorted({flag for line in found for flag in re.findall(r"(?<![\w-])--?[a-z][\w.-]*", line)})


def override(*words: str) -> str:
    return f"[model_overrides.m]\nextra_args = {json.dumps(words)}"


@pytest.mark.parametrize("flag", [*flags_that("and exit|completion script|list of models in cache"), "--list_devices"])
def test_a_flag_with_which_the_engine_ends_is_refused(flag, tmp_path):
    with pytest.raises(ConfigRefused, match="prints something and ends"):
        load_text(override(flag), tmp_path)


@pytest.mark.parametrize("flag", flags_that("can download weights"))
def test_a_flag_that_takes_another_model_is_refused(flag, tmp_path):
    with pytest.raises(ConfigRefused, match="another model"):
        load_text(override(flag), tmp_path)


@pytest.mark.parametrize("flag", sorted({*LLAMA_RESERVED, *LLAMA_PLANNED}))
def test_what_blazar_sets_is_refused_however_it_is_written(flag, tmp_path):
    spellings = [override(flag, "1"), override(f"{flag}=1"), override("--threads", "4", flag)]
    spellings += [override("--" + flag[2:].replace("-", "_"))] if flag.startswith("--") else []
    for text in spellings:
        with pytest.raises(ConfigRefused, match="is set by Blazar itself"):
            load_text(text, tmp_path)


def test_variables_of_reserved_flags_are_those_that_the_engine_reads(tmp_path):
    known = {name for text in HELP for name in re.findall(r"env: (LLAMA_[A-Z_]+)", text)}
    assert TOOL_VARIABLES & known >= {"LLAMA_ARG_TOOLS", "LLAMA_ARG_AGENT", "LLAMA_ARG_MCP_SERVERS_CONFIG",
                                      "LLAMA_ARG_MCP_SERVERS_JSON", "LLAMA_ARG_UI_MCP_PROXY"}
    reserved = LLAMA_VARIABLES & known
    assert reserved >= {"LLAMA_API_KEY", "LLAMA_ARG_HOST", "LLAMA_ARG_PORT", "LLAMA_ARG_MODEL", "LLAMA_ARG_CTX_SIZE",
                        "LLAMA_ARG_N_PARALLEL", "LLAMA_ARG_HF_REPO", "LLAMA_ARG_MODELS_DIR", "LLAMA_ARG_SSL_KEY_FILE"}
    for name in reserved:
        with pytest.raises(ConfigRefused, match=f"key `{name}`.*is set by Blazar itself"):
            load_text(f'[engine_env]\n{name} = "x"', tmp_path)


OFFERS = sorted([*(override(flag, "x") for flag in TOOL_FLAGS),
                 *(override(flag.replace("-", "_").replace("__", "--", 1), "x") for flag in TOOL_FLAGS
                   if flag.startswith("--")),
                 *(f'[engine_env]\n{name} = "all"' for name in TOOL_VARIABLES)])


@pytest.mark.parametrize("text", OFFERS)
def test_tools_are_kept_from_a_network_without_keys_however_they_are_asked_for(text, tmp_path):
    with pytest.raises(ConfigRefused, match="run programs on this machine"):
        load_text(f'host = "0.0.0.0"\n{text}', tmp_path)
    load_text(f'host = "0.0.0.0"\nkeys = [{{key = "s"}}]\n{text}', tmp_path)
    assert list(tools_offered(load_text(text, tmp_path).as_dict()))


@pytest.mark.parametrize("path", ["", "/a,b", "/a:b", '/a"b'])
def test_adapters_have_paths_that_an_engine_can_be_given(path, tmp_path):
    with pytest.raises(ConfigRefused, match="key `path`"):
        load_text(f"[[model_overrides.m.loras]]\npath = {json.dumps(path)}", tmp_path)


@pytest.mark.parametrize("endpoint", ["x:0", "x:65536", "x:99999", "x:", ":1", "x:1,", "x:-1", "--rpc"])
def test_workers_have_ports_that_exist(endpoint, tmp_path):
    with pytest.raises(ConfigRefused, match="host:port"):
        load_text(f'rpc_servers = "{endpoint}"', tmp_path)
    load_text('rpc_servers = "a:1,b.c:50052,10.0.0.1:65535"', tmp_path)
