"""Loading: order of the sources, group tables, and each way in which a file can be wrong (FC-31)."""

import json
import os

import pytest

from blazar.config.config import Config
from blazar.config.load import load
from blazar.config.registry import GROUPS, SETTINGS
from blazar.config.render import literal
from blazar.errors import ConfigRefused
from tests.support.config_files import ALL_ACTIVE, load_text


def refusal(text, folder, env=None, **options):
    with pytest.raises(ConfigRefused) as caught:
        load_text(text, folder, env, **options)
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_later_sources_win(tmp_path):
    text, env = "default_ctx = 2048", {"BLAZAR_DEFAULT_CTX": "4096"}
    for config, value, origin in [
        (load_text("", tmp_path), 16384, "default"), (load_text(text, tmp_path), 2048, "file"),
        (load_text(text, tmp_path, env), 4096, "env"),
        (load_text(text, tmp_path, env, flags={"default_ctx": "8192"}), 8192, "flag"),
        (load_text(text, tmp_path, env, flags={"default_ctx": None}), 4096, "env"),
    ]:
        assert (config.default_ctx, config.origin("default_ctx")) == (value, origin)


def test_a_bad_flag_names_the_flag(tmp_path):
    assert "flag --port: 70000 is out of range; write a whole number from 0 to 65535" in refusal(
        "", tmp_path, flags={"port": 70000})


def test_config_is_frozen_and_knows_its_names(tmp_path):
    config = load_text('[[keys]]\nname = "me"\nkey = "s"\nmodels = ["m"]', tmp_path)
    assert config.path == tmp_path / "config.toml"
    assert config.keys[0]["models"] == ("m",) and config.keys[0]["rpm"] is None
    with pytest.raises(AttributeError, match="frozen"):
        config.port = 1
    with pytest.raises(TypeError):
        config.keys[0]["name"] = "you"
    with pytest.raises(AttributeError, match="did you mean default_ctx"):
        config.default_ctxx  # noqa: B018


def test_dict_and_back_over_json(tmp_path):
    config = load_text('port = 0\n[[keys]]\nkey = "s"\n[model_overrides."qwen:q4"]\nctx = 9\n[mistralrs]\nisq = 4',
                       tmp_path)
    plain = json.loads(json.dumps(config.as_dict()))
    assert set(plain) == set(SETTINGS)
    again = Config.from_dict(plain)
    assert again.as_dict() == config.as_dict() and again.mistralrs["isq"] == "4"
    assert (again.origin("port"), again.origin("host")) == ("flag", "default")
    assert Config.from_dict({"port": 5}).keys == () and Config.from_dict({}).runtime["BLAZAR_ENGINE_GATE"] == 0.9
    with pytest.raises(ValueError, match="not settings: prt"):
        Config.from_dict({"prt": 5})


@pytest.mark.parametrize("name", [name for name, setting in SETTINGS.items() if setting.group])
def test_group_spelling(name, tmp_path):
    setting = SETTINGS[name]
    number = {"ctx_extend": 1.5, "whisper_logprob_thold": -0.5}.get(name, 0.5)
    value = {"int": 1024, "float": number, "bool": not setting.default,
             "str[]": ["--x"] if "args" in name else ["https://a:1" if name == "cors_origins" else "a:1"]}.get(
        setting.type.toml_type)
    if value is None:
        words = getattr(setting.type, "words", None)
        value = {"tls_cert": "/proc/self/status", "tls_key": "/proc/self/status", "failover": [],
                 "engine_routing": {"mode": "manual"}}.get(name)
        value = words[-1] if words else value
    if value is None:
        value = next(text for text in ("0-3", "a=1", "http://a", "word") if _accepts(setting, text))
    if name in ("whisper_beam_size", "whisper_best_of", "spec_draft_poll", "spec_draft_poll_batch", "spec_draft_prio",
                "spec_draft_prio_batch", "router_max_models"):
        value = 2
    partners = {"tls_cert": 'tls_key = "/proc/self/status"', "tls_key": 'tls_cert = "/proc/self/status"',
                "sdcpp_ip_adapter": 'sdcpp_clip_vision = "c"', "image_min_tokens": "image_max_tokens = 2048"}
    partner = partners.get(name, 'whisper_vad_model = "v"' if name.startswith("whisper_vad_") and name[12:] != "model"
                           else "")
    flat = load_text(f"{name} = {literal(value)}\n{partner}", tmp_path)
    grouped = load_text(f"[{setting.group}]\n{name} = {literal(value)}\n{partner}", tmp_path)
    assert flat[name] == grouped[name]
    assert grouped.origin(name) == "file" and grouped.as_dict() == flat.as_dict()
    if name not in GROUPS:
        doubled = f"{name} = {literal(value)}\n[{setting.group}]\n{name} = {literal(value)}\n{partner}"
        assert f"`{name}` is written at the top of the file and in [{setting.group}] too" in refusal(doubled, tmp_path)
    wrong = next(group for group in sorted(GROUPS) if group != setting.group and group != name)
    message = refusal(f"[{wrong}]\n{name} = {literal(value)}", tmp_path)
    assert f"line 2, key `{name}`: `{name}` does not belong to [{wrong}]" in message
    assert f"or in [{setting.group}]" in message


def _accepts(setting, text):
    try:
        return setting.type.check(text) == text
    except Exception:
        return False


def test_lists_of_tables_in_their_group(tmp_path):
    config = load_text('[[routing.failover]]\nname = "a"\nalias = "x"\ntargets = [{ model = "m" }]\n'
                       "[routing.engine_routing]\nmode = \"manual\"", tmp_path)
    assert config.failover[0]["targets"][0]["model"] == "m" and config.engine_routing["mode"] == "manual"


def test_reasoning_is_a_key_and_a_group(tmp_path):
    assert load_text('reasoning = "on"', tmp_path).reasoning == "on"
    assert load_text('[reasoning]\nreasoning = "on"\nreasoning_budget = 7', tmp_path).reasoning == "on"


# -- FC-31 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [b"\xef\xbb\xbfport = 7\n", b"port = 7\r\nhost = '127.0.0.1'\r\n", b"",
                                  '[[keys]]\nname = "Jürgen"\nkey = "s"\nmodels = ["模型:q4"]\n'
                                  '[model_overrides."模型:q4"]\nctx = 5\n'.encode()],
                         ids=["bom", "crlf", "empty", "non-ascii"])
def test_accepted_files(text, tmp_path):
    config = load_text(text, tmp_path)
    assert config.port == (7 if b"port" in text else 11435) and config.warnings == ()
    if "模型".encode() in text:
        assert config.keys[0]["models"] == ("模型:q4",) and config.model_overrides["模型:q4"]["ctx"] == 5


@pytest.mark.parametrize(("text", "line", "key", "hint"), [
    ("# x\nmax_loaded_model = 2", 2, "max_loaded_model", "did you mean `max_loaded_models`?"),
    ('[[keys]]\nkey = "a"\n[[keys]]\nkey = "s"\nmodles = ["m"]', 5, "modles", "did you mean `models`?"),
    ('keys = [{ key = "s", modles = ["m"] }]', 1, "modles", "did you mean `models`?"),
    ('[[remotes]]\nname = "a"\nur1 = "https://x"', 3, "ur1", "did you mean `url`?"),
    ('[[mcp]]\nname = "a"\ncommand = ["x"]\nalowed_env = ["A"]', 4, "alowed_env", "did you mean `allowed_env`?"),
    ("[model_overrides.m]\nctxx = 5", 2, "ctxx", "did you mean `ctx`?"),
    ("[gateway]\ndefault_ctx = 5", 2, "default_ctx", "or in [resources]"),
    ("port = 1\n[gateway]\nport = 1", 3, "port", "keep one of the two"),
    ("[gatway]\nport = 1", 1, "gatway", "did you mean [gateway]?"),
    ('port = "11435"', 1, "port", "write 11435 without quotes"),
    ("port = 70000", 1, "port", "write a whole number from 0 to 65535"),
    ("port = true", 1, "port", "the boolean true is not a whole number"),
    ("port = 1\nhost = 'a'\nport = 2", 3, "port", "it is written in line 1 already; keep one of the two"),
    ('[[keys]]\nkey = "a"\n[[keys]]\nkey = "b"\nrpm = 1\nrpm = 2', 6, "rpm", "in line 5 already"),
    ("[gateway]\nport = 1\n[vision]\n[gateway]", 4, "gateway", "in line 1 already"),
    ("[sdcpp]\nsteps = 5", 1, "sdcpp", "there is no [sdcpp] table"),
    ("[gateway]\nhots = 'x'", 2, "hots", "did you mean `host`?"),
    ("gateway = 5", 1, "gateway", "write [gateway] and its keys below it"),
    ("[[gateway]]\nport = 1", 1, "gateway", "write [gateway]"),
    ("[port]\nx = 1", 1, "port", "is not a whole number"),
    ("semantic_cache = true", 1, "semantic_cache", "is not a table"),
    ("[semantic_cache]\nenabled = true\nport = 1", 3, "port", "[semantic_cache] has no field of that name"),
    ('[[failover]]\nname = "a"\nalias = "b"\n[[failover.targets]]\nmodle = "m"', 5, "modle", "did you mean `model`?"),
    ("[warm_peg]\nsdcpp = true", 2, "sdcpp", "[warm_peg] knows default, sglang, mlx, llamacpp"),
    ('[[keys]]\nname = "me"', 1, "keys", "[[keys]] has no `key`"),
])
def test_refused_files(text, line, key, hint, tmp_path):
    message = refusal(text, tmp_path)
    assert f"{tmp_path}/config.toml line {line}, key `{key}`: " in message
    assert hint in message


@pytest.mark.parametrize(("raw", "words"), [
    ("port = 1\n".encode("utf-16"), "UTF-16"), ("port = 1\n".encode("utf-16-le"), "UTF-16"),
    (b"port = 1\n# \xff\n", "line 2: byte 0xff is not UTF-8"), (b"port = 1\nport 2\n", "line 2, column"),
    (b"a = " + b"[" * 5000 + b"]" * 5000, "nested too deeply"),
    (b"[" + b".".join([b"a"] * 5000) + b"]", "nested too deeply"),
    (b"port = 1" + b"0" * 5000, "not valid TOML"), (b"#" * (5 << 20), "over 4 MiB"), (b"port 1", "line 1, column 6"),
])
def test_unreadable_texts(raw, words, tmp_path):
    message = refusal(raw, tmp_path)
    assert words in message and message.startswith(f"{tmp_path}/config.toml")


def test_folder_missing_and_unreadable(tmp_path):
    with pytest.raises(ConfigRefused, match="it is a folder"):
        load(tmp_path, {})
    missing = tmp_path / "missing.toml"
    assert load(missing, {}).port == 11435
    with pytest.raises(ConfigRefused, match="there is no such file"):
        load(missing, {}, must_exist=True)
    with pytest.raises(ConfigRefused, match="there is no such file"):
        load(missing, {"BLAZAR_CONFIG": str(missing)})
    loop = tmp_path / "loop.toml"
    loop.symlink_to(loop)
    with pytest.raises(ConfigRefused, match="it cannot be read"):
        load(loop, {})
    with pytest.raises(ConfigRefused):
        load(missing / "config.toml\0", {})


def test_mode_000(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text("port = 1")
    file.chmod(0)
    user = os.geteuid()
    try:
        if user == 0:
            os.seteuid(65534)
        with pytest.raises(ConfigRefused, match="it cannot be read: Permission denied"):
            load(file, {})
    finally:
        os.seteuid(user)


def test_all_problems_are_told_up_to_ten(tmp_path):
    message = refusal("\n".join(f"nonsense_{number:02d} = 1" for number in range(13)), tmp_path)
    lines = message.splitlines()
    assert len(lines) == 11 and lines[-1] == "and 3 more"
    assert "line 10, key `nonsense_09`" in lines[9]


def test_no_secret_is_repeated(tmp_path):
    for text in ('keys = "s3cret"', 'keys = ["s3cret"]', '[[keys]]\nkey = "s3cret\\n"', '[[keys]]\nkey = ["s3cret"]',
                 '[[remotes]]\nname = "a"\nurl = "https://me:s3cret@x"', 'mcp_servers_json = "s3cret"'):
        assert "s3cret" not in refusal(text, tmp_path)
    assert "s3cret" not in refusal("", tmp_path, {"BLAZAR_KEYS": "s3cret"})


def test_models_autoload_joins_preload(tmp_path):
    config = load_text('preload = ["a", "b"]\nmodels_autoload = ["b", "c"]', tmp_path)
    assert config.preload == ("a", "b", "c")
    config = load_text('models_autoload = ["c"]', tmp_path)
    assert config.preload == ("c",) and config.origin("preload") == "file"


def test_a_variable_of_a_list_replaces_the_file_but_keys_are_added(tmp_path):
    config = load_text('preload = ["a"]\n[[keys]]\nname = "file"\nkey = "f"\nrpm = 5', tmp_path,
                       {"BLAZAR_PRELOAD": "b,c", "BLAZAR_KEYS": "boot:x:y"})
    assert config.preload == ("b", "c")
    assert [(key["name"], key["key"], key["rpm"]) for key in config.keys] == [("file", "f", 5), ("boot", "x:y", None)]
    assert load_text('[[keys]]\nkey = "f"', tmp_path, {"BLAZAR_KEYS": ""}).keys[0]["key"] == "f"
    assert config.redacted("keys")[1]["key"] == "(hidden)"


def test_active_everything_gives_no_warning(tmp_path):
    assert load_text("port = 5", tmp_path, active=ALL_ACTIVE).warnings == ()
