"""Amending real settings files: what was there stays, byte for byte where it can."""

import os
import threading
import tomllib

import pytest

from blazar.config.edit_keys import add_key, remove_key
from blazar.errors import ConfigRefused, StoreUnwritable, UsageRefused

ANN = {"name": "ann", "models": ["m", "n"], "rpm": 5, "weight": 0.5, "key": "sha256:" + "a" * 64}
BOB = {"name": 'b"ob\\', "key": "sha256:" + "b" * 64}
WRITTEN_ANN = ('[[keys]]\nname = "ann"\nmodels = ["m", "n"]\nrpm = 5\nweight = 0.5\nkey = "sha256:' + "a" * 64 + '"\n')

FILES = {
    "empty": "",
    "comments": "# words\nport = 7   # more\n\n[model_overrides.\"a.b\"]\n# inner\nctx = 5\n",
    "no end of line": "port = 7",
    "dos": "port = 7\r\n# words\r\n[gateway]\r\nhost = \"::1\"\r\n",
    "byte order mark": "\ufeffport = 7\n",
    "keys": '# before\n[[keys]] # first\nname = "eve"\nkey = "e"\n# after\n[gateway]\nport = 7\n',
    "keys apart": '[[keys]]\nkey = "e"\n[gateway]\nport = 7\n[[keys]]\nkey = "f"\n\n# end\n',
    "odd texts": 'a = """\n[gateway]\n"""\n[[keys]]\nkey = "e"\n',
    "spaced": '[[ keys ]]\nkey = "e"\n',
}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "config.toml"


def values(file):
    return tomllib.loads(file.read_bytes().decode("utf-8-sig"))


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_what_was_there_stays(file, text):
    file.write_bytes(text.encode())
    before = values(file)
    add_key(file, ANN)
    assert values(file) == {**before, "keys": [*before.get("keys", []), ANN]}
    assert file.read_bytes().decode().startswith(text.removeprefix("\ufeff"))
    add_key(file, BOB)
    assert values(file)["keys"][-2:] == [ANN, BOB]
    remove_key(file, ANN["key"])
    remove_key(file, BOB["key"])
    assert values(file) == before
    assert file.read_bytes().decode().rstrip() == text.removeprefix("\ufeff").rstrip()


def test_a_file_is_made_that_only_its_owner_can_read(tmp_path):
    file = tmp_path / "new" / "config.toml"
    add_key(file, ANN)
    assert file.read_text() == WRITTEN_ANN
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_mode_owner_and_link_of_a_file_stay(tmp_path, file):
    real = tmp_path / "real.toml"
    real.write_text("port = 7\n")
    real.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(real, 1234, 1235)
    before = real.stat()
    file.symlink_to(real)
    add_key(file, ANN)
    after = real.stat()
    assert file.is_symlink() and values(real)["keys"] == [ANN]
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.toml", "real.toml"]


def test_an_entry_in_the_middle_goes_and_comments_above_others_stay(file):
    file.write_text('[[keys]]\nkey = "a"\n\n# the second\n[[keys]]\nkey = "b" # b\nmodels = [\n  "m",\n]\n\n'
                    '# the third\n[[keys]]\nkey = "c"\n')
    remove_key(file, "b")
    assert file.read_text() == '[[keys]]\nkey = "a"\n\n# the second\n\n# the third\n[[keys]]\nkey = "c"\n'


def test_keys_that_come_and_go_leave_no_empty_lines(file):
    file.write_text("port = 7\n")
    for _ in range(3):
        add_key(file, ANN)
        add_key(file, BOB)
        remove_key(file, ANN["key"])
        remove_key(file, BOB["key"])
    assert file.read_text() == "port = 7\n"


@pytest.mark.parametrize("before", ["keys = []\nport = 7\n", "port = 7\nkeys = [ ] # none\n[sampler_defaults]\n"])
def test_an_empty_list_makes_room(file, before):
    file.write_text(before)
    add_key(file, ANN)
    assert values(file)["keys"] == [ANN] and values(file)["port"] == 7


def test_entries_within_brackets(file):
    file.write_text('# words\nkeys = [{ name = "eve", key = "e" }] # more\nport = 7\n[gateway]\n')
    add_key(file, ANN)
    assert values(file)["keys"] == [{"name": "eve", "key": "e"}, ANN]
    remove_key(file, "e")
    assert values(file) == {"keys": [ANN], "port": 7, "gateway": {}} and "# words" in file.read_text()
    remove_key(file, ANN["key"])
    assert values(file) == {"port": 7, "gateway": {}}


@pytest.mark.parametrize("text", ['[[keys]]\nkey = "a"\nmodels = [\n["x"]]\n',
                                  'a = """\n[[keys]]\nname = "no"\n"""\n[[keys]]\nkey = "e"\n'])
def test_what_cannot_be_changed_safely_is_left_alone(file, text):
    file.write_text(text)
    with pytest.raises(ConfigRefused, match="by hand"):
        remove_key(file, "a" if '"a"' in text else "e")
    assert file.read_text() == text
    file.write_text("[broken")
    with pytest.raises(ConfigRefused, match="not valid TOML"):
        add_key(file, ANN)
    assert file.read_text() == "[broken"


def test_where_nothing_can_be_written_nothing_is_left(tmp_path):
    (tmp_path / "sub").write_text("")
    with pytest.raises(StoreUnwritable, match=r"config.toml: .*nothing was changed"):
        add_key(tmp_path / "sub" / "config.toml", ANN)
    assert [path.name for path in tmp_path.iterdir()] == ["sub"]


def test_many_at_once_lose_nothing(file):
    entries = [{"name": f"n{number}", "key": f"k{number}"} for number in range(12)]
    threads = [threading.Thread(target=add_key, args=(file, entry)) for entry in entries]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(entry["name"] for entry in values(file)["keys"]) == sorted(entry["name"] for entry in entries)


def test_many_that_go_at_once_are_those_that_were_meant_and_one_stays(file):
    """Whoever comes first: an entry is found by its secret, not by a place that another one has meanwhile."""
    for number in range(12):
        add_key(file, {"name": f"n{number}", "key": f"k{number}"})
    refused = []

    def check(others):
        if not others:
            raise UsageRefused("the last one")

    def remove(secret):
        try:
            remove_key(file, secret, check)
        except UsageRefused:
            refused.append(secret)

    for gone in (range(0, 12, 2), range(1, 12, 2)):
        threads = [threading.Thread(target=remove, args=(f"k{number}",)) for number in gone]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(int(entry["key"][1:]) % 2 for entry in values(file)["keys"])
    assert [entry["key"] for entry in values(file)["keys"]] == refused and len(refused) == 1


def test_an_entry_that_is_gone_is_told(file):
    add_key(file, ANN)
    with pytest.raises(ConfigRefused, match=r"is not there any more; see `blazar keys list`"):
        remove_key(file, BOB["key"])
    assert values(file)["keys"] == [ANN]
