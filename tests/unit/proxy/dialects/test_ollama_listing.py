"""FC-14: what clients decide on is there, and every time has a zone."""

from datetime import datetime

import pytest

from blazar.proxy.dialects import ollama_listing
from blazar.transport import Endpoint

ENTRY = {"name": "solo:q4_0", "size": 1000, "digest": "ab" * 32, "modified_at": "2026-01-01T00:00:00Z",
         "architecture": "llama", "family": "llama", "format": "gguf", "parameter_count": 134515008,
         "parameter_size": "134.5M", "quantization": "Q4_1", "context_length": 8192, "capabilities": ["completion"],
         "embedding_length": 576}
DETAILS = {"parent_model": "", "format": "gguf", "family": "llama", "families": ["llama"], "parameter_size": "134.5M",
           "quantization_level": "Q4_1", "context_length": 8192, "embedding_length": 576}
ENDPOINT = Endpoint("solo:q4_0#1", "solo:q4_0", ("127.0.0.1", 1), None, "llamacpp", 1, 1, 2048, 5000, 0, 300.0, 0.0)
NOW = 1767225600.0


def test_tags():
    assert ollama_listing.tags({"solo:q4_0": ENTRY}) == {"models": [{
        "name": "solo:q4_0", "model": "solo:q4_0", "size": 1000, "digest": "ab" * 32,
        "modified_at": "2026-01-01T00:00:00Z", "details": DETAILS, "capabilities": ["completion"]}]}


def test_show():
    described = {"model": {**ENTRY, "template": "T", "parameters": None, "license": "L", "source": "file",
                           "model_info": {"llama.block_count": 30, "general.architecture": "llama"}}}
    shown = ollama_listing.show(described)
    assert shown["model_info"] == {"general.architecture": "llama", "general.parameter_count": 134515008,
                                   "llama.block_count": 30, "llama.context_length": 8192, "llama.embedding_length": 576}
    assert shown["capabilities"] == ["completion"] and shown["details"] == DETAILS
    assert (shown["template"], shown["parameters"], shown["license"]) == ("T", "", "L")
    assert shown["modified_at"] == "2026-01-01T00:00:00Z"


def test_what_a_file_does_not_tell_is_never_empty():
    bare = {**ENTRY, "family": "", "architecture": "", "parameter_size": "", "quantization": None, "format": None}
    details = ollama_listing.tags({"x": bare})["models"][0]["details"]
    assert [value for key, value in details.items() if key != "parent_model" and not value] == []


@pytest.mark.parametrize(("expires_at", "wanted"), [
    (NOW + 300, NOW + 300), (None, NOW + 100 * 365 * 86400), (1e300, NOW + 100 * 365 * 86400)])
def test_ps(expires_at, wanted):
    rows = [{"endpoint": ENDPOINT, "model": ENTRY, "expires_at": expires_at}]
    loaded = ollama_listing.ps(rows, now=lambda: NOW)["models"][0]
    assert datetime.fromisoformat(loaded.pop("expires_at")).timestamp() == wanted
    assert loaded == {"name": "solo:q4_0", "model": "solo:q4_0", "digest": "ab" * 32, "details": DETAILS, "size": 5000,
                      "size_vram": 0, "context_length": 2048}


@pytest.mark.parametrize("demanded", [(0, 6, 4), (0, 14, 2)])
def test_version_is_one_that_clients_accept(demanded):
    """VS Code turns away servers below the first, some agents those below the second."""
    assert tuple(map(int, ollama_listing.version()["version"].split("."))) >= demanded


def test_the_official_client_reads_them():
    ollama = pytest.importorskip("ollama")
    tags = ollama.ListResponse(**ollama_listing.tags({"solo:q4_0": ENTRY})).models[0]
    assert (tags.model, tags.size, tags.modified_at.utcoffset().seconds) == ("solo:q4_0", 1000, 0)
    shown = ollama.ShowResponse(**ollama_listing.show({"model": ENTRY}))
    assert shown.modelinfo["llama.context_length"] == 8192 and shown.capabilities == ["completion"]
    rows = [{"endpoint": ENDPOINT, "model": ENTRY, "expires_at": None}]
    loaded = ollama.ProcessResponse(**ollama_listing.ps(rows, now=lambda: NOW)).models[0]
    assert loaded.expires_at.year == 2125 and loaded.context_length == 2048
