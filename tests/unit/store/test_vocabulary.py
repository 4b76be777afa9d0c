"""Which models speak of the same tokens."""

import pytest

from blazar.store.vocabulary import why_unlike
from tests.support.raw_gguf import write_gguf

WORDS = [f"w{number}" for number in range(200)]


def model(folder, name, words=WORDS, **more):
    return write_gguf(folder / f"{name}.gguf", {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": words, **{
        f"tokenizer.ggml.{key}": value for key, value in more.items()}})


@pytest.mark.parametrize(("words", "more", "why"), [
    (WORDS, {}, ""), (["other"] * 5 + WORDS[5:], {}, ""), (WORDS + ["x"] * 128, {}, ""), (WORDS[:100], {}, ""),
    (WORDS + ["x"] * 129, {}, "it knows 329 tokens, and the model 200"),
    ([*WORDS[:7], "other", *WORDS[8:]], {}, "token 7 is another word for it"),
    ([], {}, "it knows 0 tokens, and the model 200"),
    (WORDS, {"model": "llama"}, "its tokenizer is of another kind"),
    (WORDS, {"add_bos_token": True, "bos_token_id": 1}, "its texts begin or end with other tokens")])
def test_what_may_differ(tmp_path, words, more, why):
    assert why_unlike(model(tmp_path, "target"), model(tmp_path, "draft", words, **more)) == why


def test_ends_of_texts_count_only_where_they_are_added(tmp_path):
    target = model(tmp_path, "target", add_bos_token=False, bos_token_id=1)
    assert why_unlike(target, model(tmp_path, "draft", add_bos_token=False, bos_token_id=2)) == ""


def test_a_file_that_cannot_be_read_is_unlike(tmp_path):
    (tmp_path / "draft.gguf").write_bytes(b"GGUF")
    assert why_unlike(model(tmp_path, "target"), tmp_path / "draft.gguf").startswith("it cannot be read (")
    assert why_unlike(model(tmp_path, "target"), tmp_path / "gone.gguf").startswith("it cannot be read (")
