"""`quantize` with a stand-in that plays faults: what the person reads, and what lies in the store afterwards."""

import hashlib
import os
import signal
import subprocess
import sys

import pytest

from blazar.engines.quantize import quantize
from blazar.engines.tools import Tool
from blazar.errors import EngineToolFailed, ModelFileRefused, StoreUnwritable, UsageRefused
from blazar.paths import Paths
from blazar.store.pieces import Piece
from blazar.store.preset import Preset
from blazar.store.store import Store
from tests.support.raw_gguf import write_gguf
from tests.support.tool_stubs import play, starts, tool
from tests.support.waiting import until


@pytest.fixture
def store(tmp_path):
    store = Store(Paths(tmp_path / "data"))
    store.install_file(write_gguf(tmp_path / "m.gguf", {"general.file_type": 1, "general.name": "m"}), "m:f16")
    return store


@pytest.fixture
def stub(tmp_path):
    return Tool(tool(tmp_path, "llama-quantize"), "b7")


def left(store):
    """Names in the store, files of blobs, and what is under way."""
    return (sorted(model["name"] for model in store.list()), len(list(store.paths.blobs.iterdir())),
            list(store.paths.incoming.iterdir()))


UNTOUCHED = (["m:f16"], 1, [])


def test_a_model_is_quantised_and_installed_beside_its_source(store, stub):
    seen = []
    model = quantize(store, stub, store.get("m"), "q4_k_m", progress=lambda *step: seen.append(step))
    assert (model["name"], model["changed"]) == ("m:q4_k_m", True)
    assert left(store) == (["m:f16", "m:q4_k_m"], 2, [])
    made = store.get("m:q4_k_m")
    assert made.source == "m:f16 quantised as Q4_K_M by b7"
    assert made.file.read_bytes() == store.get("m:f16").file.read_bytes() + b"\0" * 32
    assert seen == [("quantize", 1, 2), ("quantize", 2, 2), ("verify", made.size, made.size)]
    source = str(store.get("m:f16").file)
    runs = starts(stub.path)
    assert runs[0] == ["--help"] and runs[1] == ["--dry-run", source, "Q4_K_M"]
    assert runs[2][0] == source and runs[2][2] == "Q4_K_M"


def test_the_name_may_be_chosen(store, stub):
    assert quantize(store, stub, store.get("m"), "q8_0", name="small:tiny")["name"] == "small:tiny"


def test_the_digest_is_that_of_the_file(store, stub):
    made = store.get(quantize(store, stub, store.get("m"), "q8_0", name="s:q8")["name"])
    assert made.digest == hashlib.sha256(made.file.read_bytes()).hexdigest() == made.file.stem


@pytest.mark.parametrize(("kind", "words"), [
    ("q9_9", "q9_9 is no quantisation that llama-quantize of b7 offers; it has q1_0, q2_0, q4_0, "),
    ("copy", "copy is no quantisation"), ("F16", "m:f16 is F16 already")])
def test_what_makes_no_sense_is_refused_before_anything_runs(store, stub, kind, words):
    with pytest.raises(UsageRefused) as told:
        quantize(store, stub, store.get("m"), kind)
    assert words in str(told.value)
    assert len(starts(stub.path)) == 1 and left(store) == UNTOUCHED


def test_a_quantised_source_needs_a_word(store, stub, tmp_path):
    store.install_file(write_gguf(tmp_path / "q.gguf", {"general.file_type": 2}), "q:q4_0")
    with pytest.raises(UsageRefused, match=r"q:q4_0 is quantised already, as Q4_0, and would lose quality twice"):
        quantize(store, stub, store.get("q"), "q8_0")
    assert quantize(store, stub, store.get("q"), "q8_0", again=True)["name"] == "q:q8_0"
    assert starts(stub.path)[-1][0] == "--allow-requantize"


def test_what_is_given_with_the_model_stays_with_it(store, stub, tmp_path):
    piece = store.get("m").pieces[0]
    store.adopt_pieces([piece], "polite:f16", "x", "a test", preset=Preset(system="Be polite."))
    made = store.get(quantize(store, stub, store.get("polite"), "q4_0")["name"])
    assert made.name == "polite:q4_0" and made.preset.system == "Be polite."


def test_an_importance_matrix_is_handed_on(store, stub, tmp_path):
    with pytest.raises(UsageRefused, match=r"cannot read .*matrix given with `--imatrix`"):
        quantize(store, stub, store.get("m"), "iq4_xs", imatrix=tmp_path / "matrix")
    (tmp_path / "matrix").write_text("x")
    quantize(store, stub, store.get("m"), "iq4_xs", imatrix=tmp_path / "matrix")
    assert starts(stub.path)[-1][:2] == ["--imatrix", str(tmp_path / "matrix")]


@pytest.mark.parametrize(("scenario", "error", "words"), [
    ({"fails": "no imatrix for this"}, EngineToolFailed, "could not quantise m:f16 as Q4_0: it ended with exit code "
                                                         "1; it said: .*no imatrix for this"),
    ({"crash": int(signal.SIGILL)}, EngineToolFailed, "it was ended by SIGILL"),
    ({"garbage": True}, ModelFileRefused, "is not a usable GGUF file")])
def test_a_failure_leaves_nothing(store, stub, scenario, error, words):
    play(stub.path, **scenario)
    with pytest.raises(error, match=words):
        quantize(store, stub, store.get("m"), "q4_0")
    assert left(store) == UNTOUCHED


def test_a_disk_that_is_too_small_is_told_beforehand(store, stub):
    play(stub.path, dry_run=1 << 30)
    with pytest.raises(StoreUnwritable, match=r"the model needs 1024\.\d TiB and .* are free"):
        quantize(store, stub, store.get("m"), "q4_0")
    assert len(starts(stub.path)) == 2 and left(store) == UNTOUCHED


def test_a_tool_that_cannot_be_started(store, tmp_path):
    (tmp_path / "broken").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "broken").chmod(0o755)
    with pytest.raises(EngineToolFailed, match="its --help lists no quantisation"):
        quantize(store, Tool(tmp_path / "broken", "b7"), store.get("m"), "q4_0")
    with pytest.raises(EngineToolFailed, match="there is no such program"):
        quantize(store, Tool(tmp_path / "none", "b7"), store.get("m"), "q4_0")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_run_leaves_nothing(store, stub, number):
    """Ctrl-C cleans up at once; what a kill leaves is swept by the next work in the store. The tool ends with us."""
    play(stub.path, hang=True)
    argv = [sys.executable, "-m", "blazar.cli.main", "--data-dir", str(store.paths.data_dir), "quantize", "m", "q4_0"]
    env = {**os.environ, "BLAZAR_ENGINE_PATH": str(stub.path.parent), "PYTHONPATH": os.getcwd()}
    with subprocess.Popen(argv, env=env, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as verb:
        pid_file = stub.path.with_name(f"{stub.path.name}.pid")
        pid = int(until(lambda: pid_file.exists() and pid_file.read_text(), what="the tool hangs"))
        verb.send_signal(number)
        _, said = verb.communicate(timeout=20)
    assert "Traceback" not in said and verb.returncode == (130 if number == signal.SIGINT else -number)
    until(lambda: not os.path.exists(f"/proc/{pid}"), what="the tool ends")
    play(stub.path)
    if number == signal.SIGINT:
        assert left(store) == UNTOUCHED
    assert quantize(store, stub, store.get("m"), "q8_0")["name"] == "m:q8_0"
    assert left(store) == (["m:f16", "m:q8_0"], 2, [])


def test_what_stands_beside_a_model_stays_with_it(store, stub, tmp_path):
    """A model that sees still sees."""
    seeing = {"general.architecture": "clip", "general.type": "mmproj"}
    pieces = []
    for role, facts in (("model", {"general.file_type": 1}), ("projector", seeing)):
        file = write_gguf(store.paths.incoming / role, facts)
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        pieces.append(Piece(role, file, digest, file.stat().st_size, role))
    store.adopt_pieces(pieces, "seer:f16", "seer", "here")
    assert "vision" in quantize(store, stub, store.get("seer"), "q4_k_m")["capabilities"]
    made = store.get("seer:q4_k_m")
    assert [piece.role for piece in made.pieces] == ["model", "projector"]
    assert made.pieces[1].sha256 == pieces[1].sha256
