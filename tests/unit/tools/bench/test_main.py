"""`make bench`: what it says at its end, and what it says of an end that it cannot measure."""

import sys
from pathlib import Path

import pytest

from tools.bench.__main__ import lacking, report
from tools.bench.programs import ProgramMissing
from tools.bench.targets import LITELLM_VENV, LiteLlm

KEPT = {"value": 1.7, "must": "<= 1.8", "aim": "<= 1.4"}
FILE = Path("latest.json")


def latest(entry=KEPT, check="ok", missing=()):
    return {"targets": {"added_latency_x_nginx": entry}, "seconds": 185.0,
            "raw": {"rows": [{"check": "ok"}, {"check": check}], "missing": dict(missing)}}


def test_what_is_kept_is_said_with_the_time_that_it_took(capsys):
    assert report(latest(), FILE) == 0
    assert capsys.readouterr().out.endswith("all promises kept\nit took 3 m 5 s; the rows are in latest.json\n")


@pytest.mark.parametrize(("spoilt", "words"), [
    (latest({**KEPT, "value": 1.81}), "not all promises kept"),
    (latest({**KEPT, "value": None, "note": "one was not run with nginx"}), "not all promises kept"),
    (latest(check="INVALID: tokens: engine 2, metrics 1"), "not all counts agree"),
    (latest(missing={"haproxy": str(ProgramMissing("haproxy"))}),
     "haproxy was left out: there is no haproxy; `sudo apt-get install haproxy` brings it"),
])
def test_what_is_not_kept_not_measured_or_not_sound_is_no_success(capsys, spoilt, words):
    assert report(spoilt, FILE) == 1
    out = capsys.readouterr().out
    assert f"\n{words}\n" in out and "all promises kept\nit" not in out.replace("not all promises kept", "")


def test_what_debians_python_lacks_is_named_with_its_packages(tmp_path):
    bare = tmp_path / "python3"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E "$@"\n')
    bare.chmod(0o755)
    assert lacking(str(bare)) == (
        "not installed; `sudo apt-get install gunicorn python3-falcon python3-gevent python3-peewee python3-requests "
        "python3-toml python3-tomlkit python3-urllib3` adds what is missing")
    assert lacking(sys.executable) == ""
    assert lacking("/nonexistent/python3") == "there is no /nonexistent/python3"


def test_litellm_takes_part_where_the_variable_names_an_environment_with_it(tmp_path, monkeypatch):
    monkeypatch.delenv(LITELLM_VENV, raising=False)
    assert not LiteLlm.is_there()
    monkeypatch.setenv(LITELLM_VENV, str(tmp_path))
    assert not LiteLlm.is_there()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "litellm").touch()
    assert LiteLlm.is_there()
