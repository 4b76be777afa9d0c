"""The programs that are needed: what brings a missing one, and what a compiler lacks."""

import pytest

from tools.bench import programs


def test_a_missing_program_is_named_with_its_package():
    assert str(programs.ProgramMissing("nginx")) == \
        "there is no nginx; `sudo apt-get install nginx-light` brings it"


@pytest.mark.parametrize(("said", "lacks"), [
    ("bench.h:4:10: fatal error: stdio.h: No such file or directory", True),
    ("/usr/bin/ld: cannot find Scrt1.o: No such file or directory", True),
    ("/usr/bin/ld: cannot find -lm: No such file or directory", True),
    ("engine.c:7:1: error: expected ';' before 'int'", False),
])
def test_a_compiler_without_the_c_library_is_told_from_an_error_of_ours(tmp_path, monkeypatch, said, lacks):
    compiler = tmp_path / "cc"
    compiler.write_text(f"#!/bin/sh\necho \"{said}\" >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(programs.BuildFailed) as failed:
        programs.build_c("engine", tmp_path / "built")
    assert said in str(failed.value)
    assert ("`sudo apt-get install libc6-dev` brings it" in str(failed.value)) is lacks


def test_sources_are_told_apart_by_their_names_and_words(tmp_path):
    (tmp_path / "a.py").write_text("1\n")
    first = programs.digest(tmp_path)
    (tmp_path / "notes.txt").write_text("none of it\n")
    assert programs.digest(tmp_path) == first
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    second = programs.digest(tmp_path)
    (tmp_path / "b.py").write_text("2\n")
    assert len({first, second, programs.digest(tmp_path), programs.digest()}) == 4
