"""What `spec = "auto"` comes to, and how much of it is verified at once."""

from pathlib import Path

import pytest

from blazar.planner.compute import compute_bytes
from blazar.planner.kv import Window
from blazar.planner.speculation import Candidate, choose, drafted
from blazar.store.shape import Layer, Shape

EVERY = ("none", "draft-simple", "draft-eagle3", "draft-mtp", "ngram-simple", "ngram-map-k", "ngram-mod", "ngram-cache")
HERE = Candidate(Path("/d.gguf"), "d.gguf")
NONE = Candidate(why="no draft came with it")
UNLIKE = Candidate(Path("/d.gguf"), "d.gguf", "its draft d.gguf does not fit it")
HEAD = Candidate(Path("/e.gguf"), "e.gguf", family="eagle3")


@pytest.mark.parametrize(("settings", "candidate", "types", "fits", "family", "reason"), [
    ({}, HERE, EVERY, True, "draft", "it is here, fits, and has the same tokens"),
    ({"spec": "auto"}, HERE, None, True, "draft", "it is here, fits, and has the same tokens"),
    ({}, HEAD, EVERY, True, "eagle3", "it is here, fits, and has the same tokens"),
    ({}, HERE, (), True, "draft", "it is here, fits, and has the same tokens"),
    ({}, HEAD, (), True, "off",
     "the engine does not offer draft-eagle3; the engine looks nothing up, or has no room for it"),
    ({}, HEAD, ("ngram-mod",), True, "ngram-mod", "the engine does not offer draft-eagle3"),
    ({}, HERE, EVERY, False, "ngram-mod", "its draft d.gguf would take room that the model needs"),
    ({}, UNLIKE, EVERY, True, "ngram-mod", "its draft d.gguf does not fit it"),
    ({}, NONE, EVERY, True, "ngram-mod", "no draft came with it"),
    ({}, NONE, None, True, "ngram-mod", "no draft came with it"),
    ({}, NONE, ("ngram-cache", "ngram-simple"), True, "ngram-simple", "no draft came with it"),
    ({"ngram_size_n": 4}, NONE, EVERY, True, "ngram-simple", "no draft came with it"),
    ({}, NONE, (), True, "off", "no draft came with it; the engine looks nothing up, or has no room for it"),
    ({"spec_auto_ngram": False}, NONE, EVERY, True, "off", "no draft came with it; spec_auto_ngram is off"),
    ({"spec_auto_ngram": False}, HERE, EVERY, True, "draft", "it is here, fits, and has the same tokens"),
    ({"deterministic": True}, HERE, EVERY, True, "off",
     "deterministic: what is drafted depends on what was said before"),
    ({"deterministic": True, "spec": "ngram"}, HERE, EVERY, True, "ngram", "as it was set"),
    ({"extra_args": ["--spec-type=none"]}, HERE, EVERY, True, "off", "flags of one's own come first"),
    ({"spec": "off"}, HERE, EVERY, True, "off", "as it was set"),
    ({"spec": "mtp-adaptive", "heads": 1}, NONE, EVERY, True, "mtp-adaptive", "as it was set"),
    ({"spec": "mtp"}, Candidate(Path("/h.gguf"), "h.gguf", family="mtp"), EVERY, True, "mtp", "as it was set"),
])
def test_what_is_chosen(settings, candidate, types, fits, family, reason):
    found = choose(settings, candidate, types, lambda family, draft: fits if draft else True, settings.get("heads", 0))
    assert (found.family, found.reason) == (family, reason)
    assert found.line().setting == "spec, spec_auto_ngram"
    assert bool(found.notice) is (family.startswith("ngram-") and settings.get("spec") in (None, "auto"))


@pytest.mark.parametrize(("room", "family"), [(64, "ngram-mod"), (48, "ngram-simple"), (8, "ngram-cache"), (3, "off")])
def test_a_lookup_that_would_cost_the_model_something_is_passed_over(room, family):
    def fits(name, draft):
        return draft is None and drafted({"spec": name}) <= room
    assert choose({}, NONE, EVERY, fits).family == family


@pytest.mark.parametrize("family", ["mtp", "mtp-adaptive"])
def test_a_model_without_heads_is_loaded_without(family):
    found = choose({"spec": family}, NONE, EVERY, lambda *_: True)
    assert (found.family, found.notice) == (
        "off", f'spec = "{family}" has no effect: the model has no layers for it')


def test_the_sentence_for_the_log_names_the_knobs():
    assert choose({}, NONE, EVERY, lambda *_: True).notice == (
        'tokens are guessed from the text so far (ngram-mod), since no draft came with it; spec_auto_ngram = false or '
        'spec = "off" turns that off')


@pytest.mark.parametrize(("settings", "expected"), [
    ({}, 0), ({"spec": "off"}, 0), ({"spec": "ngram-mod"}, 64), ({"spec": "ngram-mod", "ngram_mod_n_max": 9}, 9),
    ({"spec": "ngram"}, 48), ({"spec": "ngram-map-k", "ngram_size_m": 5}, 5), ({"spec": "ngram-cache"}, 8),
    ({"spec": "draft"}, 3), ({"spec": "mtp-adaptive"}, 8)])
def test_tokens_verified_at_once(settings, expected):
    assert drafted(settings) == expected


@pytest.mark.parametrize(("words", "slots", "drafts", "logged"), [
    # what llama-server b11434 logs as its compute buffer, in MiB, for such a model
    (30000, 1, 64, 35.02), (30000, 1, 200, 37.02), (30000, 4, 64, 44.79), (60000, 1, 200, 60.02), (60000, 4, 64, 74.54),
    (60000, 2, 64, 43.77), (120000, 1, 64, 43.77), (120000, 4, 64, 134.05), (120000, 2, 64, 73.53),
    (120000, 4, 0, 35.02)])
def test_compute_buffers_hold_what_is_verified(words, slots, drafts, logged):
    shape = Shape("llama", 32768, (Layer(keys=256, values=256),) * 4, 0, 0, width=1024, feed_forward=3584, heads=16,
                  key_width=64, value_width=64, vocabulary=words)
    planned = compute_bytes(shape, Window(4096 // slots, slots, drafted=drafts)) / 2**20
    assert abs(planned - logged) < max(0.15 * logged, 4)
