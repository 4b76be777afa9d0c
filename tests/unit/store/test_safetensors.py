"""Folders of safetensors: what they say, and what is refused before anything is kept."""

import json
import struct

import pytest

from blazar.errors import ModelFileRefused
from blazar.models.base import close_database
from blazar.paths import Paths
from blazar.store.assembled import assemble
from blazar.store.create import Recipe, create
from blazar.store.local import local_model
from blazar.store.preset import Preset
from blazar.store.safetensors import MAX_PARSED, read_tensors
from blazar.store.store import Store
from tests.support.raw_safetensors import shard_bytes, with_header, write_model


@pytest.fixture
def store(tmp_path):
    yield Store(Paths(tmp_path / "data"))
    close_database()


def test_a_folder_is_listed_shown_assembled_and_removed(store, tmp_path):
    folder = write_model(tmp_path / "Tiny Model", shards=3)
    model = store.install_file(folder)
    assert (model["name"], model["format"], model["changed"]) == ("tiny-model:bf16", "safetensors", True)
    assert (model["architecture"], model["context_length"], model["parameter_count"]) == ("llama", 2048, 96)
    assert model["capabilities"] == ["completion", "tools"]
    described = store.describe("tiny-model")
    assert [(file["role"], file["name"]) for file in described["files"]] == [
        ("model", "model-00001-of-00003.safetensors"), ("part", "model-00002-of-00003.safetensors"),
        ("part", "model-00003-of-00003.safetensors"), ("config", "config.json"),
        ("config", "model.safetensors.index.json"), ("config", "tokenizer.json"), ("config", "tokenizer_config.json")]
    whole = assemble(store.paths, store.get("tiny-model")).file
    assert {file.name: file.read_bytes() for file in whole.iterdir()} == {
        file.name: file.read_bytes() for file in folder.iterdir() if file.name != "README.md"}
    assert store.install_file(folder)["changed"] is False
    size = sum(file.stat().st_size for file in folder.iterdir() if file.name != "README.md")
    assert store.remove("tiny-model")["freed"] == size == model["size"]
    assert list(store.paths.blobs.iterdir()) == [] and not whole.exists()


@pytest.mark.parametrize(("config", "capabilities"), [
    ({"architectures": ["BertModel"], "model_type": "bert"}, ("embedding",)),
    ({"architectures": None, "model_type": "llama"}, ("completion", "tools")),
    ({"architectures": ["LlavaForConditionalGeneration"], "vision_config": {}}, ("completion", "tools", "vision")),
    ({"architectures": ["X5ForCausalLM"], "text_config": {"hidden_size": 8}}, ("completion", "tools"))])
def test_capabilities(tmp_path, config, capabilities):
    assert local_model(write_model(tmp_path / "m", 1, **config)).facts.capabilities == capabilities


def remove(name):
    return lambda folder: (folder / name).unlink()


def write(name, text):
    return lambda folder: (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())


def index(**table):
    return write("model.safetensors.index.json", json.dumps({"weight_map": table}))


FIRST = "model-00001-of-00002.safetensors"


@pytest.mark.parametrize(("spoil", "words"), [
    (remove(FIRST), f"{FIRST} is missing, which its index names"),
    (remove("config.json"), "its config.json is missing"),
    (remove("model.safetensors.index.json"), "2 files of weights and no model.safetensors.index.json"),
    (index(t0="../../../etc/passwd"), "not the name of a .safetensors file"),
    (index(t0="/etc/x.safetensors"), "not the name of a .safetensors file"),
    (index(t0=7), "not the name of a .safetensors file"),
    (index(t0=FIRST, t9=FIRST), "says that 't9' lies in"),
    (index(), "no `weight_map`"),
    (write("model.safetensors.index.json", "[" * 100_000), "no usable JSON"),
    (write("config.json", "[]"), "no JSON object"),
    (write("config.json", '{"model_type": "../x"}'), "is not a word"),
    (write("config.json", "{}" + " " * MAX_PARSED), "are allowed"),
    (write(FIRST, shard_bytes({"t0": [8, 4]})[:-1]), "download it again"),
    (write(FIRST, shard_bytes({"t0": [8, 4]}) + b"\0"), "download it again"),
    (write(FIRST, b"GGUF"), "no safetensors file"),
    (write(FIRST, struct.pack("<Q", 1 << 62) + b"{}"), "its header claims"),
    (write(FIRST, with_header({"t0": {"dtype": "F99", "shape": [1], "data_offsets": [0, 4]}}, b"1234")), "no type"),
    (write(FIRST, with_header({"t0": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}, b"1234")), "no type"),
    (write(FIRST, with_header({"t0": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, b"1234")),
     "another length than its shape"),
    (write(FIRST, with_header({"t0": {"dtype": "F32", "shape": [1 << 40, 1 << 40], "data_offsets": [0, 4]}}, b"1234")),
     "another length than its shape"),
    (write(FIRST, with_header({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
                               "b": {"dtype": "F32", "shape": [1], "data_offsets": [2, 6]}}, b"123456")), "an overlap"),
    (write(FIRST, with_header({}, b"")), "holds 0 tensors"),
    (write(FIRST, with_header({"t0": 7}, b"")), "no type")])
def test_refused_and_nothing_kept(store, tmp_path, spoil, words):
    folder = write_model(tmp_path / "m")
    spoil(folder)
    with pytest.raises(ModelFileRefused) as caught:
        store.install_file(folder)
    assert words in caught.value.message, caught.value.message
    assert store.list() == [] and list(store.paths.blobs.iterdir()) == []


def test_other_folders_and_single_files(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelFileRefused, match=r"holds no \.safetensors files"):
        local_model(tmp_path / "empty")
    folder = write_model(tmp_path / "m", 1)
    with pytest.raises(ModelFileRefused, match="name its folder"):
        local_model(folder / "model.safetensors")


def test_types_narrower_than_a_byte(tmp_path):
    file = tmp_path / "x.safetensors"
    file.write_bytes(with_header({"a": {"dtype": "F4", "shape": [3, 5], "data_offsets": [0, 8]}}, bytes(8)))
    assert read_tensors(file, "x") == {"a": ("F4", 15)}


@pytest.mark.parametrize("name", ["template.jinja", "own-template.jinja"])
def test_a_template_is_never_written_into_a_file_of_the_model(store, tmp_path, name):
    """Engines get links to the blobs; a template that is written beside them must not go through one."""
    folder = write_model(tmp_path / "m", shards=2)
    (folder / name).write_text("the model's own")
    store.install_file(folder, "base")
    create(store, Recipe("mine", source="base", preset=Preset(template="{{ messages }}")))
    model = store.get("mine")
    found = assemble(store.paths, model)
    assert found.template.read_text() == "{{ messages }}" and not found.template.is_symlink()
    piece = next(piece for piece in model.pieces if piece.name == name)
    assert piece.path.read_text() == "the model's own" == (found.file / name).read_text()
