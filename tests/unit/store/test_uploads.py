"""Files that clients send: locked while they grow, checked at their end, forgotten when nobody wants them."""

import hashlib
import os
import time

import pytest

from blazar.errors import BlobMismatch, DigestRefused, StoreUnwritable
from blazar.models.base import close_database
from blazar.paths import Paths
from blazar.store.store import Store
from blazar.store.uploads import KEPT, Incoming, forget_old_uploads, read_digest, receive, sent

CONTENT = b"weights" * 1000
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def paths(tmp_path):
    yield Paths(tmp_path / "data").ensure()
    close_database()


def everything(paths):
    return sorted(str(path.relative_to(paths.models)) for path in paths.models.rglob("*") if path.is_file())


def test_an_upload_survives_a_sweep_while_it_grows_and_not_after(paths):
    incoming = Incoming(paths)
    incoming.write(CONTENT)
    with Store(paths).workspace(1):
        assert everything(paths) == [f"incoming/{incoming.token}"]
    incoming._file.close()  # its process is killed
    with Store(paths).workspace(1):
        assert everything(paths) == []


def test_taken_when_its_digest_is_right(paths):
    incoming = Incoming(paths)
    incoming.write(CONTENT[:500])
    incoming.write(CONTENT[500:])
    receive(paths, incoming.token, DIGEST)
    incoming.close()
    assert everything(paths) == [f"uploads/{DIGEST}"] and sent(paths, DIGEST).read_bytes() == CONTENT
    again = Incoming(paths)
    again.write(CONTENT)
    receive(paths, again.token, DIGEST)
    again.close()
    assert everything(paths) == [f"uploads/{DIGEST}"]


def test_thrown_away_when_it_is_wrong(paths):
    incoming = Incoming(paths)
    incoming.write(CONTENT + b"!")
    with pytest.raises(BlobMismatch, match=DIGEST):
        receive(paths, incoming.token, DIGEST)
    incoming.close()
    assert everything(paths) == [] and sent(paths, DIGEST) is None


def test_a_disk_without_room(paths):
    incoming = Incoming(paths)
    with pytest.raises(StoreUnwritable, match="free some space"):
        incoming.check_room(1 << 60)
    incoming.close()
    assert everything(paths) == []


@pytest.mark.parametrize("token", ["../../etc/passwd", "", "x" * 32, "A" * 32])
def test_tokens_lead_nowhere_else(paths, token):
    with pytest.raises(DigestRefused):
        receive(paths, token, DIGEST)


def test_digests_as_they_are_written():
    assert read_digest(f"sha256:{DIGEST.upper()}") == read_digest(f"sha256-{DIGEST}") == read_digest(DIGEST) == DIGEST
    for wrong in ("", "sha256:", f"sha256:{DIGEST}0", f"md5:{DIGEST}", f"sha256:../{DIGEST[3:]}", 7, None,
                  DIGEST + "\n"):
        with pytest.raises(DigestRefused):
            read_digest(wrong)


def test_what_nobody_wanted_is_forgotten_after_a_day(paths):
    for name, age in (("a" * 64, KEPT + 60), ("b" * 64, KEPT - 60)):
        (paths.uploads / name).write_text("x")
        os.utime(paths.uploads / name, (time.time() - age,) * 2)
    forget_old_uploads(paths)
    assert everything(paths) == [f"uploads/{'b' * 64}"]
