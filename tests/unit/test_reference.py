"""The generator: what counts as acting on a setting, and that the generated files are fresh."""

from pathlib import Path

import pytest

from blazar.config.registry import SETTINGS
from blazar.config.setting import Setting, Table
from blazar.config.types import Bool, Int, ListOf
from tools import reference

TABLE = {setting.name: setting for setting in (
    Setting("used", Bool(), True, "Used."), Setting("planted", Bool(), True, "Nobody reads it."),
    Setting("flagged", Int(), 0, "By flag.", lane="here", flag="--flagged"),
    Setting("elsewhere", Int(), 0, "By flag.", lane="missing", flag="--elsewhere"),
    Setting("spelling", ListOf(Bool()), None, "Feeds.", feeds="used"),
    Setting("rows", ListOf(Table(Setting("read", Int(), None, "Read."), Setting("unread", Int(), None, "Unread."),
                                 what="rows")), (), "Rows."),
)}


@pytest.fixture
def package(tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "engines").mkdir()
    (tmp_path / "engines" / "here.py").write_text("")
    (tmp_path / "config" / "load.py").write_text("def f(config): return config.planted, config['planted']")
    return tmp_path


def active(package: Path, code: str) -> set[str]:
    (package / "code.py").write_text(code)
    return set(reference.compute_active(package, TABLE))


def test_a_planted_setting_is_inactive(package):
    assert active(package, "def f(config): return config.used") == {"used", "flagged", "spelling"}


@pytest.mark.parametrize("code", ["config.used", "self._config.used", "settings['used']", "launch.settings['used']",
                                  "message['config']['used']", "context.config.used", "settings.get('used')",
                                  "gateway_settings.used"])
def test_reads(package, code):
    assert "used" in active(package, f"x = {code}")


@pytest.mark.parametrize("code", ["x = args.used", "# config.used", "x = 'config.used'", "config.used = 1",
                                  "def used(config): return config", "x = {'used': 1}", "config_dir.used",
                                  "x = config.other['used']"])
def test_no_reads(package, code):
    assert "used" not in active(package, code)


def test_fields_count_only_within_an_active_table(package):
    assert "rows[].read" not in active(package, "x = row['read']")
    assert active(package, "for row in config.rows: x = row['read']") >= {"rows", "rows[].read"}
    assert "rows[].read" in active(package, "for row in config.rows: x = row.get('read', 1)")
    assert "rows[].unread" not in active(package, "for row in config.rows: x = row['read']; row['unread'] = 1")


def test_overrides_follow_the_setting_they_replace(package):
    (package / "code.py").write_text("settings = effective(config, model)\nx = settings['default_ctx']\n"
                                     "y = settings['replicas']\n")
    found = reference.compute_active(package, SETTINGS)
    assert found == {"default_ctx", "model_overrides", "model_overrides.<name>.ctx", "model_overrides.<name>.replicas"}
    (package / "code.py").write_text("x = settings['default_ctx']\n")
    assert reference.compute_active(package, SETTINGS) == {"default_ctx"}


def test_generated_files_are_fresh():
    assert reference.main(["--check"]) == 0


def test_check_tells_of_a_stale_file(tmp_path, capsys):
    (tmp_path / "blazar" / "config").mkdir(parents=True)
    assert reference.main([], tmp_path) == 0
    assert reference.main(["--check"], tmp_path) == 0
    (tmp_path / "etc" / "config.toml.sample").write_text("old")
    assert reference.main(["--check"], tmp_path) == 1
    assert "etc/config.toml.sample is stale" in capsys.readouterr().err
    assert (tmp_path / "etc" / "config.toml.sample").read_text() == "old"
