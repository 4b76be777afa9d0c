"""What this version does not act on is warned of, or refused where that would be unsafe."""

import pytest

from blazar.errors import ConfigRefused
from tests.support.config_files import ALL_ACTIVE, load_text


def test_an_inactive_setting_is_named_with_its_place(tmp_path):
    config = load_text("port = 5\nremote_fallback = false", tmp_path, active=frozenset({"port"}))
    assert config.warnings == (f"{tmp_path}/config.toml line 2, key `remote_fallback`: this version of Blazar does not "
                               f"act on it yet: it waits for requests that go to other servers; remove it, or "
                               f"expect no effect",)


def test_a_default_written_out_is_no_news(tmp_path):
    assert load_text("sentinel = true\npreload = []\n[sglang]\ncache_report = true", tmp_path,
                     active=frozenset()).warnings == ()


def test_an_inactive_field_of_an_active_table(tmp_path):
    config = load_text('[[remotes]]\nname = "a"\nurl = "https://x"\nkey = "k"', tmp_path,
                       active=ALL_ACTIVE - {"remotes[].key"})
    [warning] = config.warnings
    assert "line 4, key `key`" in warning


@pytest.mark.parametrize("field", ["rpm", "tpm", "daily_tokens", "max_concurrent", "models"])
@pytest.mark.parametrize("whole", [False, True])
def test_limits_on_keys_are_never_dropped(field, whole, tmp_path):
    value = '["m"]' if field == "models" else "5"
    active = ALL_ACTIVE - {f"keys[].{field}", *(["keys"] if whole else [])}
    with pytest.raises(ConfigRefused, match=f"line 3, key `{field}`.*less safe"):
        load_text(f'[[keys]]\nkey = "s"\n{field} = {value}', tmp_path, active=active)
    load_text('[[keys]]\nkey = "s"', tmp_path, active=active)


def test_tls_is_never_dropped(tmp_path):
    text = 'tls_cert = "/proc/self/status"\ntls_key = "/proc/self/status"'
    with pytest.raises(ConfigRefused, match="line 1, key `tls_cert`"):
        load_text(text, tmp_path, active=ALL_ACTIVE - {"tls_cert", "tls_key"})
    load_text(text, tmp_path)
