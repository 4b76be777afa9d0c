"""What a person may write for a model to pull. Tables."""

import pytest

from blazar.errors import NameRefused, PullFailed
from blazar.store.reference import Address, Repository, read

BASE = "https://mirror.example/hub"


@pytest.mark.parametrize(("reference", "meant"), [
    ("qwen3-8b", None), ("qwen3-8b:q4_0", None),
    ("Owner/Repo-GGUF", Repository("Owner/Repo-GGUF")), ("o/r:Q4_K_M", Repository("o/r", "q4_k_m")),
    ("o/r:latest", Repository("o/r")), ("hf.co/O/r:q4_0", Repository("O/r", "q4_0")),
    ("huggingface.co/o/r", Repository("o/r")), ("https://huggingface.co/o/r", Repository("o/r")),
    ("https://huggingface.co/o/r/", Repository("o/r")), ("https://hf.co/o/r:Q8_0", Repository("o/r", "Q8_0")),
    ("https://huggingface.co/o/r/tree/v2", Repository("o/r", "", "v2")),
    ("https://huggingface.co/o/r/blob/main/Q8_0/a%20b.gguf", Repository("o/r", "Q8_0/a b.gguf")),
    ("https://huggingface.co/o/r/resolve/abc/x.gguf?download=true", Repository("o/r", "x.gguf", "abc")),
    (f"{BASE}/o/r", Repository("o/r")), (f"{BASE}/o/r/resolve/main/x.gguf", Repository("o/r", "x.gguf")),
    ("https://host/x/y.gguf?k=v", Address("https://host/x/y.gguf?k=v")),
    ("http://127.0.0.1:8/y.gguf", Address("http://127.0.0.1:8/y.gguf")),
    ("http://[::1]/y.gguf", Address("http://[::1]/y.gguf")), ("http://localhost/y.gguf", Address("http://localhost/y.gguf"))])
def test_references(reference, meant):
    assert read(reference, BASE) == meant


@pytest.mark.parametrize(("reference", "words"), [
    ("http://host/x.gguf", "use https://"), ("ftp://host/x.gguf", "use https://"), ("file:///etc/x.gguf", "use https://"),
    ("https://host/x.bin", "names no GGUF file"), ("https://host", "names no GGUF file"),
    ("https://user:secret@host/x.gguf", "a password in it"), ("https://host:99999/x.gguf", "not a URL"),
    ("https://host/a b.gguf", "not a URL"), ("https://host/" + "x" * 3000 + ".gguf", "not a URL"),
    ("https://huggingface.co/o/r/tree/main/folder", "names no GGUF file")])
def test_urls_that_are_refused(reference, words):
    with pytest.raises(PullFailed, match=words) as caught:
        read(reference, BASE)
    assert caught.value.status == 400 and "secret" not in caught.value.message and len(caught.value.message) < 500


def test_over_the_network_no_server_of_this_machine_is_named():
    with pytest.raises(PullFailed, match="use https://"):
        read("http://127.0.0.1:8/y.gguf", BASE, local=False)
    assert read("http://127.0.0.1:8/o/r", "http://127.0.0.1:8", local=False) == Repository("o/r")


@pytest.mark.parametrize("reference", ["registry.ollama.ai/library/qwen3", "a/b/c", "../x", "o//r", "o/r:a:b", ""])
def test_names_that_are_refused(reference):
    with pytest.raises(NameRefused):
        read(reference, BASE)
