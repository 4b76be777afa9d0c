"""What model files say of themselves."""

import json

import pytest

from blazar.errors import ModelFileRefused
from blazar.store.facts import ModelFacts, format_count, read_facts
from blazar.store.gguf_types import FILE_TYPES, TENSOR_TYPES
from tests.support.raw_gguf import write_gguf
from tests.support.tiny_gguf import tiny_gguf

LLAMA = {
    "general.name": "Tiny Llama", "general.license": "mit", "llama.block_count": 2, "llama.embedding_length": 64,
    "llama.attention.head_count": 4, "llama.attention.head_count_kv": 2, "llama.rope.freq_base": 10000.0,
    "tokenizer.ggml.tokens": ["a", "b", "c"], "tokenizer.chat_template": "{{ messages }}",
}


def facts(tmp_path, metadata, **options) -> ModelFacts:
    return read_facts(write_gguf(tmp_path / "m.gguf", metadata, **options))


def test_a_chat_model(tmp_path):
    found = facts(tmp_path, LLAMA, elements=1000)
    assert found.to_dict() == {
        "architecture": "llama", "name": "Tiny Llama", "context_length": 4096, "block_count": 2, "head_count": 4,
        "head_count_kv": 2, "key_length": 16, "value_length": 16, "embedding_length": 64, "vocab_size": 3,
        "quantization": "Q4_0", "parameter_count": 1000, "parameter_size": "1.0K",
        "size": (tmp_path / "m.gguf").stat().st_size, "chat_template": "{{ messages }}",
        "capabilities": ["completion"], "license": "mit", "format": "gguf",
        "model_info": {
            "general.architecture": "llama", "general.file_type": 2, "general.license": "mit",
            "general.name": "Tiny Llama", "llama.attention.head_count": 4, "llama.attention.head_count_kv": 2,
            "llama.block_count": 2, "llama.context_length": 4096, "llama.embedding_length": 64,
            "llama.rope.freq_base": 10000.0},
    }


def test_there_and_back_through_json(tmp_path):
    found = facts(tmp_path, LLAMA)
    assert ModelFacts.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_what_the_file_does_not_say_stays_unknown(tmp_path):
    found = facts(tmp_path, {"llama.context_length": None})
    assert (found.name, found.context_length, found.block_count, found.head_count_kv, found.key_length,
            found.embedding_length, found.vocab_size, found.chat_template, found.license) == (None,) * 9


def test_stated_key_and_value_lengths_win(tmp_path):
    found = facts(tmp_path, {**LLAMA, "llama.attention.key_length": 192, "llama.attention.value_length": 128,
                             "llama.vocab_size": 500})
    assert (found.key_length, found.value_length, found.vocab_size) == (192, 128, 500)


def test_without_grouped_heads_every_head_has_its_key_and_value(tmp_path):
    assert facts(tmp_path, {**LLAMA, "llama.attention.head_count_kv": None}).head_count_kv == 4


def test_layers_that_differ_count_as_the_largest(tmp_path):
    assert facts(tmp_path, {**LLAMA, "llama.attention.head_count_kv": [2, 8, 0]}).head_count_kv == 8


def test_numbers_that_json_lacks_are_left_out(tmp_path):
    found = facts(tmp_path, {"x.scale": float("nan"), "x.base": float("inf"), "x.fine": 0.5})
    assert "x.fine" in found.model_info and "x.scale" not in found.model_info and "x.base" not in found.model_info
    json.dumps(found.to_dict(), allow_nan=False)


@pytest.mark.parametrize(("file_type", "quantization"), [
    (0, "F32"), (1, "F16"), (3, "Q4_1"), (7, "Q8_0"), (15, "Q4_K_M"), (18, "Q6_K"), (30, "IQ4_XS"), (32, "BF16"),
    (38, "MXFP4_MOE"), (1024 + 15, "Q4_K_M"), (None, "F32"), (999, "F32"),
])
def test_quantization(tmp_path, file_type, quantization):
    assert facts(tmp_path, {"general.file_type": file_type}).quantization == quantization


@pytest.mark.parametrize(("template", "extra", "capabilities"), [
    ("{{ messages }}", {}, ("completion",)),
    ("{% if tools %}{{ tools }}{% endif %}", {}, ("completion", "tools")),
    ("<tool_call>", {}, ("completion", "tools")),
    ("a template of stools", {}, ("completion",)),
    ("<think>\n</think>", {}, ("completion", "thinking")),
    ("{% if tools %}<think>", {"llama.vision.block_count": 3}, ("completion", "tools", "vision", "thinking")),
    (None, {}, ("completion",)),
    (None, {"llama.pooling_type": 3}, ("embedding",)),
    ("{% if tools %}", {"llama.pooling_type": 0}, ("completion", "tools")),
    (None, {"general.architecture": "bert"}, ("embedding",)),
    (None, {"general.architecture": "nomic-bert"}, ("embedding",)),
])
def test_capabilities(tmp_path, template, extra, capabilities):
    assert facts(tmp_path, {"tokenizer.chat_template": template, **extra}).capabilities == capabilities


@pytest.mark.parametrize(("metadata", "reason"), [
    ({"general.architecture": None}, "its general.architecture is ''"),
    ({"general.architecture": 7}, "its general.architecture is '7'"),
    ({"general.architecture": "a b\n" * 50}, "not a word"),
    ({"general.architecture": "clip"}, "projector"),
    ({"general.type": "mmproj"}, "projector"),
    ({"general.type": "adapter"}, "LoRA adapter"),
    ({"general.type": "imatrix"}, "importance matrix"),
    ({"split.count": 3, "split.no": 0}, "one of 3 parts"),
])
def test_files_that_are_no_whole_model(tmp_path, metadata, reason):
    with pytest.raises(ModelFileRefused, match=reason):
        facts(tmp_path, metadata)


@pytest.mark.parametrize(("count", "words"), [
    (0, "0"), (999, "999"), (1000, "1.0K"), (134_515_008, "134.5M"), (8_030_261_248, "8.0B"), (10**12, "1.0T"),
])
def test_format_count(count, words):
    assert format_count(count) == words


def test_tiny_model(tmp_path):
    found = read_facts(tiny_gguf(tmp_path / "tiny.gguf", layers=3, ctx=512, name="small one", file_type=1))
    assert (found.architecture, found.name, found.context_length, found.block_count) == ("llama", "small one", 512, 3)
    assert (found.head_count, found.key_length, found.vocab_size, found.quantization) == (4, 16, 364, "F16")
    assert found.capabilities == ("completion",) and "<|im_start|>" in (found.chat_template or "")


def test_tiny_models_of_two_seeds_differ(tmp_path):
    one, two = tiny_gguf(tmp_path / "1.gguf", seed=1), tiny_gguf(tmp_path / "2.gguf", seed=2)
    assert one.read_bytes() != two.read_bytes()
    assert one.read_bytes() == tiny_gguf(tmp_path / "3.gguf", seed=1).read_bytes()


def test_type_tables_agree_with_the_reference_library():
    constants = pytest.importorskip("gguf").constants
    for kind, sizes in constants.GGML_QUANT_SIZES.items():
        assert TENSOR_TYPES[kind.value] == (kind.name, *sizes)
    for kind in constants.LlamaFileType:
        if kind.name != "GUESSED":
            assert FILE_TYPES[kind.value] == kind.name.removeprefix("MOSTLY_").removeprefix("ALL_")


def test_texts_of_the_file_that_are_too_long_to_be_told(tmp_path):
    """What is told of a model crosses the control socket and stands in the database; a file may hold megabytes."""
    much = {f"k{number}": "y" * 16_000 for number in range(40)}
    texts = {"long": "x" * 17_000, "general.license": "L" * 100_000, **much}
    facts = read_facts(write_gguf(tmp_path / "m.gguf", texts))
    assert "long" not in facts.model_info and len(facts.license) == 64 << 10
    assert sum(len(text) for text in facts.model_info.values() if isinstance(text, str)) <= 256 << 10
    assert facts.model_info["general.architecture"] == "llama" and "k0" in facts.model_info
    assert len(json.dumps(facts.to_dict())) < 400_000
