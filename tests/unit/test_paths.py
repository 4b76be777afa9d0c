import stat
from pathlib import Path

from blazar.paths import Paths, locate


def test_xdg_decides_then_home(tmp_path):
    home = {"HOME": str(tmp_path)}
    assert locate(home).config_file == tmp_path / ".config/blazar/config.toml"
    assert locate(home).paths.data_dir == tmp_path / ".local/share/blazar"
    both = home | {"XDG_CONFIG_HOME": "/c", "XDG_DATA_HOME": "/d"}
    assert locate(both).config_file == Path("/c/blazar/config.toml")
    assert locate(both).paths.data_dir == Path("/d/blazar")
    assert not locate(home).warnings


def test_without_home_the_working_directory_is_used_and_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    located = locate({})
    assert located.paths.data_dir == tmp_path / "blazar"
    assert len(located.warnings) == 2 and "XDG_DATA_HOME" in located.warnings[1]


def test_the_command_line_wins_over_the_environment(tmp_path):
    env = {"HOME": str(tmp_path), "BLAZAR_CONFIG": "/from/env.toml"}
    assert locate(env).config_file == Path("/from/env.toml")
    assert locate(env, config="/from/flag.toml", data_dir="/data").config_file == Path("/from/flag.toml")
    assert locate(env, data_dir="/data").paths.data_dir == Path("/data")


def test_the_system_s_file_goes_with_the_system_s_data_dir(tmp_path):
    env = {"HOME": str(tmp_path)}
    assert locate(env, config="/etc/blazar/config.toml").paths.data_dir == Path("/var/lib/blazar")
    assert locate(env, config="/etc/blazar/other.toml").paths.data_dir == tmp_path / ".local/share/blazar"
    (tmp_path / ".config/blazar").mkdir(parents=True)
    (tmp_path / ".config/blazar/config.toml").touch()
    assert locate(env).config_file == tmp_path / ".config/blazar/config.toml", "the user's own comes first"


def test_the_run_folder_is_private(tmp_path):
    paths = Paths(tmp_path / "data").ensure().ensure()
    assert stat.S_IMODE(paths.run.stat().st_mode) == 0o700
    for folder in ("models/blobs", "models/incoming", "engines", "log", "speccache", "sessions"):
        assert (paths.data_dir / folder).is_dir()


def test_the_mark_of_a_data_dir_is_its_own(tmp_path):
    one, other = Paths(tmp_path / "a"), Paths(tmp_path / "b")
    assert one.data_dir_id == Paths(tmp_path / "a").data_dir_id != other.data_dir_id
    (tmp_path / "link").symlink_to(tmp_path / "a")
    (tmp_path / "a").mkdir()
    assert Paths(tmp_path / "link").data_dir_id == one.data_dir_id
