"""The Debian package agrees with the rest: version, packages it needs, folders and user of the unit."""

import configparser
import os
import re
import subprocess
from pathlib import Path

import pytest

from blazar import __version__
from blazar.config.load import load
from blazar.models.migrate import known_steps
from tests.support.needs import need

ROOT = Path(__file__).parents[2]
DEBIAN = ROOT / "debian"


def test_versions_agree():
    first = (DEBIAN / "changelog").read_text().splitlines()[0]
    assert re.fullmatch(rf"blazar \({re.escape(__version__)}[^)]*\) \w+; urgency=\w+", first)


def test_what_python_needs_comes_as_packages():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    needed = {re.split(r"[><=]", line)[0] for line in setup["options"]["install_requires"].split("\n")
              if line and not line.startswith("#")}
    depends = re.search(r"\nDepends: (.*?)\n\w", (DEBIAN / "control").read_text(), re.DOTALL)[1]
    packages = {name.strip().removeprefix("python3-") for name in depends.split(",")}
    assert needed - packages == set()


def test_the_shipped_configuration_changes_nothing():
    assert load(DEBIAN / "config.toml", {}).as_dict() == load(Path("/nowhere/config.toml"), {}).as_dict()


def test_preinst_refuses_a_newer_schema_and_names_the_backup(tmp_path):
    """The script itself, on databases of a folder of the test."""
    database, newest = tmp_path / "blazar.db", max(known_steps())
    script = (DEBIAN / "blazar.preinst").read_text().replace("/var/lib/blazar", str(tmp_path)) \
        .replace("#SCHEMA#", str(newest))

    def preinst(action="upgrade"):
        return subprocess.run([need("sh"), "-c", script, "preinst", action, "9.9"], capture_output=True, text=True)

    def put(schema):
        database.write_bytes(bytes(60) + schema.to_bytes(4, "big") + bytes(36))

    assert preinst().returncode == 0  # nothing there yet
    put(newest)
    assert preinst().returncode == 0
    put(newest + 1)
    done = preinst()
    assert done.returncode == 1 and f"no backup that it could read ({database}.bak-{newest})" in done.stderr
    (tmp_path / f"blazar.db.bak-{newest - 2}").touch()
    done = preinst("install")
    assert done.returncode == 1 and f"mv {database}.bak-{newest - 2} {database}" in done.stderr
    assert f"has schema {newest + 1}, and this version knows up to {newest}." in done.stderr
    assert preinst("abort-upgrade").returncode == 0


def test_what_the_package_s_own_tests_name_is_there():
    stanzas = re.findall(r"^Tests: (.+)$", (DEBIAN / "tests" / "control").read_text(), re.MULTILINE)
    assert [name for name in stanzas if not os.access(DEBIAN / "tests" / name, os.X_OK)] == []
    named = re.findall(r"(tests/\S+\.py)(?:::(\w+))?", (DEBIAN / "tests" / "faults").read_text())
    assert len(named) > 5
    assert [pair for pair in named if f"def {pair[1]}" not in (ROOT / pair[0]).read_text()] == []


@pytest.mark.parametrize("script", sorted((ROOT / "tools").rglob("*.sh")), ids=lambda script: script.name)
def test_the_scripts_of_the_check_are_right(script):
    done = subprocess.run([need("bash"), "-n", str(script)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
