"""The line that says whether the build in use is current."""

from pathlib import Path

import pytest

from blazar.engines.builds import Build
from blazar.engines.install.currency import check, remember, remembered
from blazar.engines.install.flavour import Machine
from blazar.engines.install.release import Releases
from blazar.errors import NoAssetHere, ReleaseNotFound
from blazar.paths import Paths
from tests.servers.releases import ReleaseServer


@pytest.fixture
def server():
    with ReleaseServer() as server:
        server.release("b11429", {"cpu": b"1"})
        server.release("b11434", {"cpu": b"2"})
        yield server


def build(tag: str) -> Build:
    return Build("llamacpp", tag, Path("/x"), "cpu", "s", None, "", True, False, 1)


def look(server, channel, active, asset="auto"):
    return check(Releases(server.base), channel, asset, Machine("x64"), build(active) if active else None)


@pytest.mark.parametrize(("channel", "active", "current", "line"), [
    ("latest", "b11434", True, "b11434 is in use, which is current in channel latest"),
    ("latest", "b11429", False,
     "b11429 (stable v0.6.0) is in use, and channel latest has b11434: `blazar engine update`"),
    ("stable", "b11429", True, "b11429 (stable v0.6.0) is in use, which is current in channel stable"),
    ("stable", "b11434", False,
     "b11434 is in use, and channel stable has b11429 (stable v0.6.0): `blazar engine update`"),
    ("latest", "b11434-cpu", True, "b11434-cpu is in use, which is current in channel latest"),
    ("latest", "embedded-2026.10.11434", True, "embedded-2026.10.11434 is in use, which is current in channel latest"),
    ("latest", "local", False, "local is in use, and channel latest has b11434: `blazar engine update`"),
    ("latest", None, False,
     "no engine build is installed; newest in channel latest is b11434: `blazar engine update`"),
])
def test_the_line(server, channel, active, current, line):
    server.stable("v0.6.0", "b11429")
    found = look(server, channel, active)
    assert (found.is_current, found.line()) == (current, line)
    assert found.to_dict() == {"active": active, "newest": "b11429" if channel == "stable" else "b11434",
                               "channel": channel, "current": current, "line": line,
                               "stable": {"tag": "b11429", "marker": "v0.6.0"}}


def test_without_a_stable_release(server):
    assert look(server, "latest", "b11429").stable is None
    with pytest.raises(ReleaseNotFound, match="no engine release that is marked stable of ggml-org"):
        look(server, "stable", "b11429")
    with pytest.raises(NoAssetHere):
        look(server, "latest", "b11429", asset="tpu")


def test_what_was_found_is_kept(server, tmp_path):
    paths = Paths(tmp_path / "data")
    assert remembered(paths) is None
    found = look(server, "latest", "b11429")
    remember(paths, found, 100.0)
    assert remembered(paths, 200.0) == {"at": 100.0, **found.to_dict()}
    assert remembered(paths, 50.0) is None  # the clock was set back
    (paths.run / "engine-check.json").write_text("{}")
    assert remembered(paths) is None
