"""Models of several files: split sets, companions, and that all of them come and go together."""

import contextlib
import hashlib
import json
import os
import re
import sqlite3

import pytest

from blazar.errors import DatabaseUnusable, ModelFileRefused, ModelfileRefused, NameTaken
from blazar.models.base import close_database
from blazar.models.installed_model import InstalledModel
from blazar.models.migrate import known_steps, migrate
from blazar.paths import Paths
from blazar.store.assembled import assemble
from blazar.store.facts import read_facts
from blazar.store.pieces import Piece
from blazar.store.preset import NO_PRESET, Preset
from blazar.store.store import MAX_PRESET, Store
from tests.support.raw_gguf import gguf_bytes, write_gguf


@pytest.fixture
def store(tmp_path):
    yield Store(Paths(tmp_path / "data"))
    close_database()


def blobs(store):
    return sorted(file.stem for file in store.paths.blobs.iterdir())


def piece(folder, role, content, name=None):
    digest = hashlib.sha256(content).hexdigest()
    path = folder / f"{len(list(folder.iterdir()))}.piece"
    path.write_bytes(content)
    return Piece(role, path, digest, len(content), name or f"{role}.gguf")


def write_set(folder, count=3, **metadata):
    paths = []
    for number in range(count):
        path = folder / f"big-{number + 1:05}-of-{count:05}.gguf"
        paths.append(write_gguf(path, {"split.no": number, "split.count": count, "split.tensors.count": count,
                                       "general.name": None, **metadata}, fill=bytes([number])))
    return paths


PROJECTOR = gguf_bytes({"general.architecture": "clip", "general.type": "mmproj"}, fill=b"p")
HEARING = gguf_bytes({"general.architecture": "clip", "clip.has_audio_encoder": True}, fill=b"h")
ADAPTER = gguf_bytes({"general.type": "adapter"}, fill=b"a")
MODEL = gguf_bytes(fill=b"m")


# -- split sets -------------------------------------------------------------------------------------------------------


def test_a_set_is_installed_by_any_of_its_parts(store, tmp_path):
    parts = write_set(tmp_path)
    model = store.install_file(parts[2])
    assert model["name"] == "big:q4_0" and model["parameter_count"] == 3 * 64
    assert model["size"] == sum(part.stat().st_size for part in parts)
    assert blobs(store) == sorted(hashlib.sha256(part.read_bytes()).hexdigest() for part in parts)
    assert re.fullmatch("[0-9a-f]{64}", model["digest"]) and model["digest"] not in blobs(store)
    found = assemble(store.paths, store.get("big"))
    assert found.file.name == "model-00001-of-00003.gguf"
    assert [file.read_bytes() for file in sorted(found.file.parent.iterdir())] == [part.read_bytes() for part in parts]
    assert store.install_file(parts[0])["changed"] is False
    assert store.remove("big")["freed"] == model["size"]
    assert blobs(store) == [] and not found.file.parent.exists()


def test_a_gone_part_is_told_and_mended(store, tmp_path):
    parts = write_set(tmp_path)
    store.install_file(parts[0])
    store.get("big").pieces[1].path.unlink()
    with pytest.raises(ModelFileRefused, match="pull the model again"):
        store.get("big")
    assert store.install_file(parts[0])["changed"] is True
    assert len(store.get("big").pieces) == 3


@pytest.mark.parametrize(("spoil", "words"), [
    (lambda parts: parts[1].unlink(), "big-00002-of-00003.gguf is not beside it"),
    (lambda parts: parts[1].write_bytes(parts[2].read_bytes()), "it says that it is part 2 (from 0)"),
    (lambda parts: parts[1].write_bytes(gguf_bytes()), "it says that it is one of 1 parts"),
    (lambda parts: write_set(parts[0].parent, **{"split.tensors.count": 7}), "hold 7 tensors, and they hold 3"),
    (lambda parts: os.truncate(parts[2], 100), "cut short")])
def test_sets_that_are_refused(store, tmp_path, spoil, words):
    parts = write_set(tmp_path)
    spoil(parts)
    with pytest.raises(ModelFileRefused) as caught:
        store.install_file(parts[0])
    assert words in caught.value.message
    assert store.list() == [] and blobs(store) == []


def test_a_part_under_another_name(store, tmp_path):
    part = write_set(tmp_path)[0].rename(tmp_path / "renamed.gguf")
    with pytest.raises(ModelFileRefused, match="under the names they came with"):
        store.install_file(part)
    huge = write_gguf(tmp_path / "x-00001-of-99999.gguf")
    with pytest.raises(ModelFileRefused, match="999 are allowed"):
        store.install_file(huge)


# -- companions -------------------------------------------------------------------------------------------------------


def test_companions_come_and_go_with_the_model(store, tmp_path):
    pieces = [piece(tmp_path, "model", MODEL), piece(tmp_path, "projector", PROJECTOR),
              piece(tmp_path, "adapter", ADAPTER)]
    model = store.adopt_pieces(pieces, "seeing", "x", "here")
    assert model["capabilities"] == ["completion", "vision"]
    found = assemble(store.paths, store.get("seeing"))
    assert found.file == store.get("seeing").file
    assert [(role, path.read_bytes()) for role, path in found.companions] == [
        ("projector", PROJECTOR), ("adapter", ADAPTER)]
    assert store.adopt_pieces([piece(tmp_path, "model", MODEL), piece(tmp_path, "projector", HEARING)], "hearing", "x",
                              "here")["capabilities"] == ["completion", "audio"]
    store.remove("seeing")
    assert blobs(store) == sorted(hashlib.sha256(content).hexdigest() for content in (MODEL, HEARING))
    store.remove("hearing")
    assert blobs(store) == []


@pytest.mark.parametrize(("roles", "words"), [
    ([("projector", PROJECTOR)], "one file of its own"),
    ([("model", MODEL), ("model", ADAPTER)], "one file of its own"),
    ([("model", PROJECTOR)], "a projector for images or audio"),
    ([("model", MODEL), ("projector", ADAPTER)], "given as a projector, and is an adapter"),
    ([("model", MODEL), ("adapter", MODEL)], "given as an adapter, and is a model"),
    ([("model", MODEL), ("adapter", gguf_bytes({"general.type": "adapter", "general.architecture": "qwen3"}))],
     "an adapter for qwen3, and the model is a llama"),
    ([("model", MODEL), ("adapter", b"junk")], "does not begin with `GGUF`")])
def test_companions_that_are_refused(store, tmp_path, roles, words):
    with pytest.raises(ModelFileRefused) as caught:
        store.adopt_pieces([piece(tmp_path, role, content) for role, content in roles], "x", "x", "here")
    assert words in caught.value.message
    assert store.list() == [] and blobs(store) == []


def test_a_database_that_refuses_puts_the_files_back(store, tmp_path):
    store.list()
    close_database()
    with contextlib.closing(sqlite3.connect(store.paths.database)) as connection:
        connection.execute("CREATE TRIGGER no BEFORE INSERT ON installed_model BEGIN SELECT RAISE(ABORT, 'full'); END")
    pieces = [piece(tmp_path, "model", MODEL), piece(tmp_path, "projector", PROJECTOR)]
    with pytest.raises(DatabaseUnusable):
        store.adopt_pieces(pieces, "x", "x", "here")
    assert blobs(store) == [] and [one.path.read_bytes() for one in pieces] == [MODEL, PROJECTOR]


# -- rows, presets, copies --------------------------------------------------------------------------------------------


def test_a_row_of_before_there_were_several_files(store, tmp_path):
    store.install_file(write_gguf(tmp_path / "m.gguf"), "old")
    row = InstalledModel.find("old:q4_0")
    InstalledModel.put(**{**row, "files": None})
    model = store.get("old")
    assert [(one.role, one.sha256, one.size) for one in model.pieces] == [("model", row["digest"], row["size"])]
    assert model.digest == row["digest"] and store.remove("old")["freed"] == row["size"] and blobs(store) == []


def test_a_database_of_before_is_brought_up_to_date(store, tmp_path):
    steps = {number: statements for number, statements in known_steps().items() if number < 4}
    store.paths.ensure()
    migrate(store.paths.database, steps)
    digest = hashlib.sha256(MODEL).hexdigest()
    (store.paths.blobs / f"{digest}.gguf").write_bytes(MODEL)
    (tmp_path / "m.gguf").write_bytes(MODEL)
    facts = json.dumps({key: value for key, value in read_facts(tmp_path / "m.gguf").to_dict().items()
                        if key != "format"})
    with contextlib.closing(sqlite3.connect(store.paths.database)) as connection:
        connection.execute("INSERT INTO installed_model VALUES ('old:q4_0', ?, ?, ?, 'a file', NULL, NULL, NULL, '')",
                           (digest, len(MODEL), facts))
        connection.commit()
    model = store.get("old")
    assert (model.digest, model.size, model.facts.format, model.preset) == (digest, len(MODEL), "gguf", NO_PRESET)
    assert store.remove("old")["freed"] == len(MODEL) and blobs(store) == []


def test_a_preset_makes_another_digest_and_defaults(store, tmp_path):
    plain = store.adopt_pieces([piece(tmp_path, "model", MODEL)], "a", "x", "here")
    made = store.adopt_pieces([piece(tmp_path, "model", MODEL)], "b", "x", "here", preset=Preset(
        system="S", parameters={"num_ctx": 9, "seed": 1}, template="{% if tools %}{% endif %}"))
    assert plain["digest"] == hashlib.sha256(MODEL).hexdigest() != made["digest"]
    assert "defaults" not in plain and made["defaults"] == {"system": "S", "parameters": {"seed": 1}}
    assert made["capabilities"] == ["completion", "tools"]
    template = assemble(store.paths, store.get("b")).template
    assert template.read_text() == "{% if tools %}{% endif %}"
    assert store.remove("a")["freed"] == 0 and store.remove("b")["freed"] == len(MODEL)


def test_presets_have_a_limit_alone_and_together(store, tmp_path):
    with pytest.raises(ModelfileRefused, match="shorten them"):
        store.adopt_pieces([piece(tmp_path, "model", MODEL)], "x", "x", "here", preset=Preset(system="x" * 200_000))
    assert store.list() == [] and blobs(store) == []
    for number in range(16):
        store.adopt_pieces([piece(tmp_path, "model", MODEL)], f"m{number}", "x", "here",
                           preset=Preset(system="x" * MAX_PRESET))
    with pytest.raises(ModelfileRefused, match="all together"):
        store.copy("m0", "m16")
    store.copy("m0", "m1")
    assert len(store.list()) == 16


def test_copies_share_files_and_replace(store, tmp_path):
    store.adopt_pieces([piece(tmp_path, "model", MODEL)], "a:mine", "x", "here", preset=Preset(system="S"))
    other = gguf_bytes(fill=b"o")
    store.adopt_pieces([piece(tmp_path, "model", other)], "b:mine", "x", "here")
    assert store.copy("a:mine", "b") | {"modified_at": ""} == {**store.list()[1], "changed": True, "modified_at": ""}
    assert blobs(store) == [hashlib.sha256(MODEL).hexdigest()], "the replaced one's file is gone"
    assert store.copy("a:mine", "b")["changed"] is False
    store.remove("a:mine")
    assert store.get("b").preset.system == "S"


def test_aliases_hide_no_model(store, tmp_path):
    store.adopt_pieces([piece(tmp_path, "model", MODEL)], "a", "x", "here")
    with pytest.raises(NameTaken, match="may not hide"):
        store.alias("a", "A:q4_0")
    assert store.alias("a", "gpt")["changed"] is True and store.alias("a", "gpt")["changed"] is False
    assert store.describe("gpt")["aliases"] == ["gpt"]
    store.copy("a", "a:other")
    assert store.alias("a:other", "a")["name"] == "a:other", "of two variants it may choose one"
    assert store.get("a").name == "a:other"
    store.adopt_pieces([piece(tmp_path, "model", gguf_bytes(fill=b"o"))], "b", "x", "here")
    with pytest.raises(NameTaken, match=r"b means the installed model b:q4_0"):
        store.alias("a:q4_0", "b")
    store.copy("b", "GPT")
    assert store.get("gpt").name == "gpt:q4_0" and store.aliases() == {"a": "a:other"}


def test_what_a_killed_process_left_is_tidied(store, tmp_path):
    store.adopt_pieces([piece(tmp_path, "model", MODEL)], "a", "x", "here")
    (store.paths.blobs / f"{'0' * 64}.gguf").write_text("placed, and then killed")
    (store.paths.blobs / "notes.gguf").write_text("somebody's")
    (store.paths.incoming / ("0" * 32)).write_text("half of an upload")
    store.tidy()
    assert blobs(store) == sorted([hashlib.sha256(MODEL).hexdigest(), "notes"])
    assert list(store.paths.incoming.iterdir()) == []
