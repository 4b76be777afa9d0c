"""Completion as the shells do it: real bash and zsh read the scripts, and bash is asked what it would offer."""

import shutil
import subprocess

import pytest

from tools import completion


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("completion")
    for shell in completion.SHELLS:
        assert completion.main([shell, str(folder / shell)]) == 0
    return folder


def offered(scripts, *words, cwd="/"):
    """What bash offers in place of the last of `words`."""
    code = (f"source '{scripts}/bash'; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _blazar; "
            "printf '%s\\n' \"${COMPREPLY[@]}\"")
    done = subprocess.run(["bash", "-c", code, "bash", "blazar", *words], capture_output=True, text=True, cwd=cwd)
    assert done.stderr == ""
    return set(done.stdout.split())


@pytest.mark.parametrize(("words", "found"), [
    (["ser"], {"serve", "service"}),
    (["service", ""], {"install", "status", "logs", "--help", "-h", "--config", "--data-dir"}),
    (["keys", "add", "ann", "--daily"], {"--daily-tokens"}), (["--data-dir", "serve", "ke"], {"keys"}),
    (["service", "logs", "--fo"], {"--follow"}), (["engine", "rollb"], {"rollback"})])
def test_verbs_and_options(scripts, words, found):
    assert offered(scripts, *words) == found


def test_files_where_an_option_wants_one(scripts, tmp_path):
    (tmp_path / "blazar.toml").touch()
    (tmp_path / "blazing").mkdir()
    assert offered(scripts, "--config", "bla", cwd=tmp_path) == {"blazar.toml", "blazing"}
    assert offered(scripts, "list", "--data-dir", "bla", cwd=tmp_path) == {"blazing"}


def test_zsh_reads_its_script(scripts):
    script = (scripts / "zsh").read_text()
    assert script.startswith("#compdef blazar\n") and "'logs:" in script and "_blazar_service_logs()" in script
    if shutil.which("zsh"):
        done = subprocess.run(["zsh", "-n", str(scripts / "zsh")], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


def test_usage():
    assert completion.main(["fish", "x"]) == 2
