"""The permissions check on real files."""

import os

import pytest

from blazar.doctor.check import Surroundings
from blazar.doctor.permissions import check_permissions
from blazar.paths import locate

HASH = "sha256:" + "a" * 64


@pytest.fixture
def find(tmp_path):
    """The finding with this settings file, which everybody may read unless a mode says otherwise."""
    def look(text="", mode=0o644, **env):
        file = tmp_path / "config.toml"
        file.write_text(text)
        file.chmod(mode)
        return check_permissions(Surroundings(locate({"HOME": str(tmp_path)}, str(file), str(tmp_path / "data")), env))
    return look


@pytest.mark.parametrize(("text", "state"), [
    ("port = 7\n", "ok"), (f'[[keys]]\nkey = "{HASH}"\n', "ok"), ('[[keys]]\nkey = "a-secret"\n', "warn"),
    ('[engine_env]\nTOKEN = "x"\n', "warn"), ('[[remotes]]\nname = "r"\nurl = "https://h"\nkey = "k"\n', "warn"),
    ('[[remotes]]\nname = "r"\nurl = "https://h"\n', "ok"), ("no_such_key = 1\n", "ok"),
])
def test_secrets_in_a_file_for_everybody(tmp_path, find, text, state):
    finding = find(text, BLAZAR_KEYS="boot:hunter2")
    assert finding.state == state
    if state == "warn":
        assert finding.remedy == f"`chmod o-rwx {tmp_path}/config.toml`" and "secrets in it" in finding.found
    assert find(text, mode=0o640).state == "ok"


def test_a_private_key_for_everybody(tmp_path, find):
    (tmp_path / "key.pem").write_text("")
    (tmp_path / "cert.pem").write_text("")
    finding = find(f'tls_cert = "{tmp_path}/cert.pem"\ntls_key = "{tmp_path}/key.pem"\n')
    assert finding.state == "warn" and f"{tmp_path}/key.pem" in finding.remedy


def test_the_data_dir(tmp_path, find):
    run = tmp_path / "data" / "run"
    assert find().state == "ok"
    run.mkdir(parents=True, mode=0o755)
    run.chmod(0o755)
    finding = find()
    assert finding.state == "warn" and finding.remedy == f"`chmod 700 {run}`"
    run.chmod(0o700)
    assert find().state == "ok"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_files_of_another_owner(tmp_path, find):
    blob = tmp_path / "data" / "models" / "a.gguf"
    blob.parent.mkdir(parents=True)
    blob.write_text("")
    os.chown(blob, 65533, 0)
    finding = find()
    assert finding.found == f"{blob} belongs to 65533, and the data dir to root"
    assert finding.remedy.startswith(f"`sudo chown -R root: {tmp_path}/data`")
