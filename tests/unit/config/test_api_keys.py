import hashlib

import pytest

from blazar.config.tables.api_keys import digest_of, names_of
from blazar.errors import ConfigRefused
from tests.support.config_files import load_text

HASH = hashlib.sha256(b"sk-a").hexdigest()


def keys(folder, *texts, env=None):
    return load_text("".join(f"[[keys]]\nkey = \"{text}\"\n" for text in texts), folder, env).keys


@pytest.mark.parametrize("text", ["sk-a", f"sha256:{HASH}", f"sha256:{HASH.upper()}"])
def test_a_secret_and_its_hash_mean_the_same(tmp_path, text):
    [entry] = keys(tmp_path, text)
    assert digest_of(entry["key"]) == hashlib.sha256(b"sk-a").digest()


@pytest.mark.parametrize("text", ["sha256:", "sha256:abc", f"sha256:{HASH}00", f"sha256:{HASH[:-2]}",
                                  f"sha256:{HASH[:-1]}x"])
def test_half_a_hash_is_refused_with_words_that_do_not_repeat_it(tmp_path, text):
    with pytest.raises(ConfigRefused, match=r"64 hexadecimal digits do not follow.*sha256sum") as refused:
        keys(tmp_path, text)
    assert HASH[:8] not in str(refused.value)


def test_the_same_secret_twice_is_found_behind_its_hash(tmp_path):
    with pytest.raises(ConfigRefused, match=r"line 4, key `key`: another entry of .*keys.* has the same secret"):
        keys(tmp_path, "sk-a", f"sha256:{HASH}")
    with pytest.raises(ConfigRefused, match="same secret"):
        keys(tmp_path, f"sha256:{HASH}", env={"BLAZAR_KEYS": "boot:sk-a"})


def test_names_of_those_without_one(tmp_path):
    assert names_of(keys(tmp_path, "a", "b", env={"BLAZAR_KEYS": "boot:c"})) == ["key 1", "key 2", "boot"]
    with pytest.raises(ConfigRefused, match="counts as key 2"):
        load_text('[[keys]]\nkey = "a"\nname = "Key 2"\n[[keys]]\nkey = "b"\n', tmp_path)


@pytest.mark.parametrize("name", ["", " ", "two\\nlines", "a\\tb", "a,b", "x" * 201])
def test_a_name_fits_into_a_line(tmp_path, name):
    with pytest.raises(ConfigRefused, match=r"key `name`: .*write a name in UTF-8 on one line"):
        load_text(f'[[keys]]\nkey = "sk-a"\nname = "{name}"\n', tmp_path)


def test_a_name_in_another_coding_is_refused_at_once_and_not_by_each_request(tmp_path):
    with pytest.raises(ConfigRefused, match=r"BLAZAR_KEYS.*in UTF-8"):
        load_text("", tmp_path, {"BLAZAR_KEYS": "caf\udce9:sk-a"})
    assert load_text("", tmp_path, {"BLAZAR_KEYS": "caf\u00e9:sk-a"}).keys[0]["name"] == "caf\u00e9"
