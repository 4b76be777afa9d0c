import importlib.util

import pytest

from blazar.engines.routing import EMBEDDED, find_program
from blazar.errors import EngineMissing


@pytest.fixture
def engine(tmp_path):
    file = tmp_path / "engines" / "llama-server"
    file.parent.mkdir()
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return file


@pytest.mark.parametrize("named", ["file", "folder"])
def test_named_engine_wins(engine, named):
    path = engine if named == "file" else engine.parent
    program = find_program("m", str(path), {"PATH": str(engine.parent)})
    assert (program.argv, program.source) == ((str(engine),), "BLAZAR_ENGINE_PATH")
    assert program.picks_port


@pytest.mark.parametrize("spoil, reason", [
    (lambda file: file.unlink(), "is not a file"),
    (lambda file: file.chmod(0o644), "is not executable"),
])
def test_wrong_path_is_never_passed_over(engine, spoil, reason):
    spoil(engine)
    for path in (engine, engine.parent):
        with pytest.raises(EngineMissing, match=reason) as caught:
            find_program("m", str(path), {"PATH": "/usr/bin"})
        assert str(engine) in caught.value.message


def test_path_comes_next(engine):
    program = find_program("m", None, {"PATH": str(engine.parent)})
    assert (program.argv, program.source) == ((str(engine),), "PATH")


def test_then_the_embedded_one_or_none(tmp_path):
    if importlib.util.find_spec("xllamacpp"):
        program = find_program("m", "", {"PATH": str(tmp_path)})
        assert (program.argv, program.source) == (EMBEDDED, "embedded")
    else:
        with pytest.raises(EngineMissing, match="no llama-server on PATH"):
            find_program("m", "", {"PATH": str(tmp_path)})
