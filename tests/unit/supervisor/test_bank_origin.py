"""What a bank belongs to, out of what a child is started with."""

from dataclasses import replace
from pathlib import Path

import pytest

from blazar.engines.lane import Command, Launch
from blazar.engines.program import Program
from blazar.supervisor.bank_origin import bank_of, origin_of

SETTINGS = {"session_bank": True, "session_keep_secs": 900, "cache_type": "q8_0"}
FLAGS = ("--model", "m.gguf", "--ctx-size", "8192", "--parallel", "2", "--slot-save-path", "s/", "--api-key-file", "k",
         "-fa", "on")


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "llama-server"
    path.write_text("one")
    return Program("llamacpp", (str(path),), "PATH", "b1")


@pytest.fixture
def launch(program):
    return Launch("m:q4_0", Path("m.gguf"), {"digest": "d"}, SETTINGS, program, None, sessions=Path("s"))


def command(launch, *flags):
    return Command((*launch.program.argv, *(flags or FLAGS)))


def test_each_child_of_a_model_has_its_own(launch):
    banks = [bank_of(place, launch, command(launch)) for place in ("m:q4_0", "m:q4_0 2")]
    assert [bank.index(4096).as_posix() for bank in banks] == ["s/_auto-4096.json", "s/_auto2-4096.json"]
    assert banks[0].keep == 900 and banks[0].origin["cache_type_v"] == "q8_0"


def test_none_where_none_is_wanted_or_the_engine_saves_nothing(launch):
    assert bank_of("m:q4_0", replace(launch, sessions=None), command(launch)) is None
    assert bank_of("m:q4_0", replace(launch, settings={**SETTINGS, "session_bank": False}), command(launch)) is None
    assert bank_of("m:q4_0", launch, command(launch, "--model", "m.gguf")) is None


def test_what_makes_it_another_one(launch, tmp_path):
    def differs(other, *flags):
        before, after = origin_of(launch, command(launch)), origin_of(other, command(other, *flags))
        return {field for field in before if before[field] != after[field]}

    same = [{"8192": "4096", "2": "3", "k": "other"}.get(word, word) for word in FLAGS]
    assert differs(launch, *same) == set()
    tuned = ("--ubatch-size", "1024", "--spec-type", "ngram-mod", "--lookup-cache-dynamic", "f")
    assert differs(launch, *FLAGS, *tuned) == set(), "what is changed while the daemon runs"
    assert differs(launch, *FLAGS, "--mmproj", "p.gguf") == {"projector"}
    assert differs(launch, *FLAGS[:-1], "off") == {"flags"}
    assert differs(replace(launch, facts={"digest": "e"})) == {"digest"}
    assert differs(replace(launch, settings={**SETTINGS, "cache_type_k": "f16"})) == {"cache_type_k"}
    assert differs(replace(launch, program=replace(launch.program, tag="b2"))) == {"build"}
    before = origin_of(launch, command(launch))
    Path(launch.program.argv[0]).write_text("another")
    assert before["build"] != origin_of(launch, command(launch))["build"], "built anew in the same place"
    lora = tmp_path / "style.gguf"
    lora.write_text("x")
    with_lora = replace(launch, settings={**SETTINGS, "loras": [{"path": str(lora), "scale": 1.0}]})
    before = origin_of(with_lora, command(with_lora))
    lora.write_text("longer")
    assert before["flags"] != origin_of(with_lora, command(with_lora))["flags"]
