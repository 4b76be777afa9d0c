"""The real pip and a package index over loopback."""

import os
import sys
import time
import zipfile
from pathlib import Path

import pytest

from blazar.download import pip
from blazar.download.throttle import Bucket
from tests.servers.file_server import FileServer, Reply
from tests.support.downloads import MIB, content

WHEEL = "tiny_wheel-1.0-py3-none-any.whl"


@pytest.fixture
def index(tmp_path, monkeypatch):
    """An index with one wheel of 3 MiB, which pip is told of by its own settings."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    info = "tiny_wheel-1.0.dist-info"
    with zipfile.ZipFile(tmp_path / WHEEL, "w") as archive:
        archive.writestr("tiny_wheel/data.bin", content(3 * MIB))
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-wheel\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    with FileServer() as server:
        server.put(f"/files/{WHEEL}", (tmp_path / WHEEL).read_bytes())
        page = f'<!DOCTYPE html><html><body><a href="/files/{WHEEL}">{WHEEL}</a></body></html>'.encode()
        server.on("/simple/tiny-wheel/", lambda seen: Reply(200, page, {"Content-Type": "text/html"}))
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("PIP_INDEX_URL", server.url("/simple"))
        monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
        yield server


def download(folder: Path, package: str, bucket: Bucket | None, told: list[int]) -> str | None:
    folder.mkdir()
    return pip.run(sys.executable, ["download", package, "-d", str(folder)], folder, bucket, told.append)


def test_it_tells_how_far_it_is_and_the_limit_holds(index, tmp_path):
    """3 MiB at 1 MB a second: 1 MB at once, then two seconds for the rest. 0.2 MB may come before the next look."""
    index.route(f"/files/{WHEEL}").rate = 20_000_000
    told: list[int] = []
    began = time.monotonic()
    assert download(tmp_path / "limited", "tiny-wheel", Bucket(1_000_000), told) is None
    assert time.monotonic() - began > 1.9 and told == sorted(told) and max(told) > MIB
    assert (tmp_path / "limited" / WHEEL).read_bytes() == (tmp_path / WHEEL).read_bytes()
    pip.tidy(tmp_path / "limited")
    assert [path.name for path in (tmp_path / "limited").iterdir()] == [WHEEL]


def test_its_own_words_are_told(index, tmp_path):
    said = download(tmp_path / "work", "no-such-thing", None, [])
    assert said is not None and said.startswith("pip says: ") and "No matching distribution" in said


def test_who_interrupts_it_ends_it(index, tmp_path):
    index.route(f"/files/{WHEEL}").rate = 1_000_000

    class Enough(Exception):
        pass

    def stop_at_half(came: int) -> None:
        if came > MIB // 2:
            raise Enough

    (tmp_path / "work").mkdir()
    words = ["download", "tiny-wheel", "-d", str(tmp_path / "work")]
    with pytest.raises(Enough):
        pip.run(sys.executable, words, tmp_path / "work", Bucket(500_000), stop_at_half)
    mark = str(tmp_path / "work").encode()
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if mark in _read(path)]


def test_our_own_variables_are_not_its_business():
    assert pip.environment({"BLAZAR_REGISTRY_TOKEN": "x", "PIP_INDEX_URL": "y"}) == {"PIP_INDEX_URL": "y"}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
