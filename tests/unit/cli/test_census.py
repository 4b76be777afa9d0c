"""`--census FILE`: saved once, then read."""

import io
import json

import pytest

from blazar.cli.census import census_of
from blazar.cli.output import Output
from blazar.errors import CensusRefused
from blazar.hardware.census import census


def told():
    errors = io.StringIO()
    return Output(stream=io.StringIO(), errors=errors), errors


def test_a_new_file_gets_this_machine_and_an_old_one_is_read(tmp_path):
    file = tmp_path / "machine.json"
    out, errors = told()
    saved = census_of(str(file), out, save=True)
    assert saved.cpu == census().cpu and "saved the census" in errors.getvalue()
    assert [path.name for path in tmp_path.iterdir()] == ["machine.json"]
    other = {**json.loads(file.read_text()), "nvidia_driver": "1.2.3"}
    file.write_text(json.dumps(other))
    out, errors = told()
    assert census_of(str(file), out, save=True).nvidia_driver == "1.2.3" and "not this one" in errors.getvalue()
    assert json.loads(file.read_text()) == other


def test_nothing_is_saved_unless_asked(tmp_path):
    with pytest.raises(CensusRefused, match="cannot be read"):
        census_of(str(tmp_path / "none.json"), told()[0])
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(CensusRefused, match=r"cannot write .*: No such file or directory"):
        census_of(str(tmp_path / "no" / "machine.json"), told()[0], save=True)


def test_without_a_file_it_is_this_machine():
    assert census_of(None, told()[0]).cpu == census().cpu
