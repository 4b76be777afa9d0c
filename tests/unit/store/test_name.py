"""The grammar of model names (FC-15)."""

import pytest

from blazar.errors import NameRefused
from blazar.store.name import MAX_NAME, Name, clean, file_safe, parse


@pytest.mark.parametrize(("text", "model", "variant"), [
    ("solo", "solo", ""),
    ("solo:latest", "solo", ""),
    ("solo:LATEST", "solo", ""),
    ("SOLO:Q4_0", "solo", "q4_0"),
    ("qwen3-8b:q4_k_m", "qwen3-8b", "q4_k_m"),
    ("llama3.1:8b", "llama3.1", "8b"),
    ("Unsloth/Qwen3-GGUF:Q4_K_M", "unsloth/qwen3-gguf", "q4_k_m"),
    ("hf.co/owner/repo", "owner/repo", ""),
    ("7", "7", ""),
    ("x" * MAX_NAME, "x" * MAX_NAME, ""),
])
def test_parse(text, model, variant):
    name = parse(text)
    assert (name.model, name.variant) == (model, variant)
    assert parse(str(name)) == name


def test_canonical_form_and_typed_form():
    name = parse("Unsloth/Qwen3-GGUF:Q4_K_M")
    assert str(name) == "unsloth/qwen3-gguf:q4_k_m"
    assert name.typed == "Unsloth/Qwen3-GGUF"
    assert str(parse("Solo:latest")) == "solo"
    assert parse("solo").is_implied and not parse("solo:q4_0").is_implied
    assert name == Name("unsloth/qwen3-gguf", "q4_k_m")


@pytest.mark.parametrize(("text", "reason"), [
    ("", "empty"),
    (" solo:q4_0", "begins or ends with a blank"),
    ("solo ", "begins or ends with a blank"),
    ("solo\n", "control character"),
    ("so\0lo", "control character"),
    ("../../etc/passwd", "two dots"),
    ("a..b", "two dots"),
    ("a:b..c", "two dots"),
    ("..", "two dots"),
    ("/etc/passwd", "slash"),
    ("a//b", "slash"),
    ("a/", "slash"),
    ("a/:b", "slash"),
    ("a:b/c", "one colon"),
    ("a/b/c/d", "too many slashes"),
    ("a:b:c", "one colon"),
    (":q4", "colon"),
    ("a:", "colon"),
    ("a b", "only letters"),
    ("a\\b", "only letters"),
    ("мой", "only letters"),
    ("\u212a", "only letters"),  # the Kelvin sign, which lower() turns into an ASCII k
    ("a%2fb", "only letters"),
    ("-rf", "must begin"),
    (".hidden", "must begin"),
    ("a/.b", "must begin"),
    ("a:-b", "must begin"),
])
def test_refused(text, reason):
    with pytest.raises(NameRefused) as caught:
        parse(text)
    assert reason in caught.value.message
    assert caught.value.status == 400


@pytest.mark.parametrize("text", ["x" * 10_240, "x" * (MAX_NAME + 1), "é" * 10_240, " " * 10_240, "a:" * 90])
def test_a_refusal_does_not_repeat_a_long_name(text):
    with pytest.raises(NameRefused) as caught:
        parse(text)
    assert len(caught.value.message) < 300
    assert str(len(text)) in caught.value.message or len(text) <= MAX_NAME


def test_file_safe_is_one_file_name_and_keeps_names_apart():
    assert file_safe("unsloth/qwen3:q4_k_m") == "unsloth%2Fqwen3%3Aq4_k_m"
    names = ["a/b:c", "a:b", "a/b", "a-b", "a_b", "a.b"]
    safe = {file_safe(name) for name in names}
    assert len(safe) == len(names) and not any("/" in one for one in safe)
    longest = f"{'a' * 60}/{'b' * 60}/{'c' * 60}:{'d' * 17}"
    assert len(longest) == MAX_NAME and len(file_safe(longest).encode()) <= 255


@pytest.mark.parametrize(("text", "model"), [
    ("Smollm2 135M 8k Lc100K Mix1 Ep2", "smollm2-135m-8k-lc100k-mix1-ep2"),
    ("Meta Llama 3.1 8B Instruct", "meta-llama-3.1-8b-instruct"),
    ("../../etc/passwd", "etc-passwd"),
    ("  (weird) -- name!  ", "weird-name"),
    ("a . . b", "a-.-.-b"),
    ("модель", ""),
    ("x" * 500, "x" * 100),
])
def test_clean(text, model):
    assert clean(text) == model
    if model:
        assert parse(model).model == model
