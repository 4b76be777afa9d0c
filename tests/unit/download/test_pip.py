"""The real pip and a package index over loopback."""

import contextlib
import os
import sys
import zipfile
from collections.abc import Callable
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


def download(folder: Path, package: str, bucket: Bucket | None, tell: Callable[[int], None]) -> str | None:
    folder.mkdir()
    return pip.run(sys.executable, ["download", package, "-d", str(folder)], folder, bucket, tell)


@pytest.mark.parametrize("limited", [True, False])
def test_it_tells_how_far_it_is_and_stands_still_while_that_is_too_much(index, tmp_path, limited):
    index.route(f"/files/{WHEEL}").rate = 3_000_000
    folder, told, states = tmp_path / "work", [], set()

    def tell(came: int) -> None:
        told.append(came)
        for path in running(folder):
            with contextlib.suppress(OSError):
                states.add(path.with_name("stat").read_text().rpartition(")")[2].split()[0])

    assert download(folder, "tiny-wheel", Bucket(1_000_000) if limited else None, tell) is None
    assert told == sorted(told) and told[-1] > MIB and ("T" in states) is limited
    assert (folder / WHEEL).read_bytes() == (tmp_path / WHEEL).read_bytes()
    pip.tidy(folder)
    assert [path.name for path in folder.iterdir()] == [WHEEL]


def test_its_own_words_are_told(index, tmp_path):
    said = download(tmp_path / "work", "no-such-thing", None, lambda came: None)
    assert said is not None and said.startswith("pip says: ") and "No matching distribution" in said


def test_who_interrupts_it_ends_it(index, tmp_path):
    index.route(f"/files/{WHEEL}").rate = 1_000_000

    class Enough(Exception):
        pass

    def stop_at_half(came: int) -> None:
        if came > MIB // 2:
            raise Enough

    with pytest.raises(Enough):
        download(tmp_path / "work", "tiny-wheel", Bucket(500_000), stop_at_half)
    assert not running(tmp_path / "work")


def test_our_own_variables_are_not_its_business():
    assert pip.environment({"BLAZAR_REGISTRY_TOKEN": "x", "PIP_INDEX_URL": "y"}) == {"PIP_INDEX_URL": "y"}


def running(folder: Path) -> list[Path]:
    """The files `cmdline` in /proc of processes that were told of `folder`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if str(folder).encode() in path.read_bytes():
                found.append(path)
    return found
