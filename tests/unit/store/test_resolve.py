"""From references to installed models (FC-15)."""

import time

import pytest

from blazar.errors import ModelAmbiguous, ModelNotFound, NameRefused
from blazar.store.resolve import resolve

INSTALLED = ["m:q4_0", "m:q8_0", "solo:q4_0", "unsloth/qwen3-gguf:q4_k_m"]
ALIASES = {"gpt-4o": "m:q8_0", "small:fast": "solo:q4_0", "dangling": "gone:q4_0"}


@pytest.mark.parametrize(("reference", "name"), [
    ("solo", "solo:q4_0"),
    ("solo:latest", "solo:q4_0"),
    ("Solo", "solo:q4_0"),
    ("SOLO:Q4_0", "solo:q4_0"),
    ("m:q4_0", "m:q4_0"),
    ("M:Q8_0", "m:q8_0"),
    ("Unsloth/Qwen3-GGUF", "unsloth/qwen3-gguf:q4_k_m"),
    ("gpt-4o", "m:q8_0"),
    ("GPT-4o:latest", "m:q8_0"),
    ("small:fast", "solo:q4_0"),
])
def test_found(reference, name):
    assert resolve(reference, INSTALLED, ALIASES) == name
    assert resolve(reference, dict.fromkeys(INSTALLED), ALIASES) == name


@pytest.mark.parametrize("name", INSTALLED)
def test_a_listed_name_means_itself(name):
    assert resolve(name, INSTALLED, {name: "solo:q4_0"}) == name


@pytest.mark.parametrize("reference", ["m", "M", "m:latest"])
def test_two_variants_are_ambiguous(reference):
    with pytest.raises(ModelAmbiguous) as caught:
        resolve(reference, INSTALLED, ALIASES)
    assert "m:q4_0, m:q8_0" in caught.value.message and caught.value.status == 400


@pytest.mark.parametrize(("reference", "near"), [
    ("m:nope", "; did you mean m:q4_0 or m:q8_0?"),
    ("solo:q8_0", "; did you mean solo:q4_0?"),
    ("sollo", "; did you mean solo:q4_0 or small:fast?"),
    ("gpt4o", "; did you mean gpt-4o?"),
    ("qwertzuiop", "`blazar pull qwertzuiop`;"),
    ("dangling", "`blazar pull dangling`;"),
    ("small", "; did you mean small:fast?"),
])
def test_missing_is_never_answered_with_another(reference, near):
    with pytest.raises(ModelNotFound) as caught:
        resolve(reference, INSTALLED, ALIASES)
    assert near in caught.value.message and caught.value.status == 404


@pytest.mark.parametrize("reference", [" solo:q4_0", "../../etc/passwd", "x" * 10_240, "", "a\0"])
def test_odd_names_are_refused(reference):
    with pytest.raises(NameRefused):
        resolve(reference, INSTALLED, ALIASES)


def test_nothing_installed():
    with pytest.raises(ModelNotFound, match="blazar pull solo"):
        resolve("solo", [], {})


def test_an_exact_hit_does_not_look_at_the_other_names():
    many = {f"model-{number}:q4_0": None for number in range(100_000)}
    start = time.perf_counter()
    for _ in range(1000):
        resolve("model-77777:q4_0", many, {})
    assert time.perf_counter() - start < 0.1
