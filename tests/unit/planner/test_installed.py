"""Plans of installed models: the draft counts where it is used, and is used only where it costs the model nothing."""

import pytest

from blazar.planner.installed import plan_installed
from blazar.planner.kv import Grade
from blazar.planner.machine import Card, Machine
from blazar.planner.plan import Part, Plan
from blazar.store.facts import read_facts
from blazar.store.installed import Installed
from blazar.store.pairs import Pair
from blazar.store.pieces import Piece
from tests.support.shaped_gguf import write_shaped
from tests.support.tiny_gguf import tiny_gguf

MIB = 1 << 20
TYPES = ("draft-simple", "ngram-mod")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pair")
    return write_shaped(folder / "large.gguf", "grouped"), write_shaped(folder / "small.gguf", "grouped", layers=1)


def installed(file, draft=None):
    pieces = [Piece("model", file, "a" * 64, file.stat().st_size, file.name)]
    if draft is not None:
        pieces.append(Piece("draft", draft, "b" * 64, draft.stat().st_size, draft.name))
    return Installed("solo:q8_0", tuple(pieces), read_facts(file), "test", None, "2026")


def card(mebibytes):
    room = int(mebibytes * MIB)
    return Machine((Card("card", room, room),), (), 1 << 40, 1 << 40, 1 << 40)


def planned(model, machine, **settings):
    return plan_installed(model, {"default_ctx": 4096, "slots": 1, **settings}, machine, types=TYPES)


def test_a_draft_is_used_as_long_as_the_model_loses_nothing(files):
    model = installed(*files)
    roomy = planned(model, card(9000))
    assert (roomy.settings["spec"], roomy.draft, roomy.notice) == ("draft", files[1], "")
    alone = planned(model, card(9000), spec="off")
    assert (alone.settings["spec"], alone.draft) == ("off", None)
    beside = roomy.parts[0].beside
    assert beside > files[1].stat().st_size // 2 and alone.parts[0].beside == 0
    tight = planned(model, card((alone.on_cards + beside / 2) / MIB))
    assert (tight.settings["spec"], tight.draft) == ("ngram-mod", None)
    assert "its draft small.gguf would take room that the model needs" in tight.notice
    assert (tight.grade, tight.gpu_layers, tight.parts[0].layers) == (alone.grade, None, alone.parts[0].layers)


def test_a_pair_of_two_models(files):
    pair = Pair(files[1], "small:q8_0")
    found = plan_installed(installed(files[0]), {"default_ctx": 4096}, card(9000), pair, TYPES)
    line = next(line for line in found.lines if line.what == "speculation")
    assert (found.draft, line.value) == (files[1], "draft model small:q8_0")


@pytest.mark.parametrize(("spec", "draft"), [("ngram", False), ("off", False), ("eagle3", False), ("auto", True)])
def test_a_family_uses_only_drafts_of_its_kind(files, spec, draft):
    assert bool(planned(installed(*files), card(9000), spec=spec).draft) is draft


def test_a_draft_that_cannot_be_read_or_speaks_otherwise_is_left_out(files, tmp_path):
    (tmp_path / "cut.gguf").write_bytes(files[1].read_bytes()[:100])
    for draft, why in ((tmp_path / "cut.gguf", "its draft cannot be read ("),
                       (tiny_gguf(tmp_path / "other.gguf"), "its draft other.gguf does not fit it: ")):
        found = planned(installed(files[0], draft), card(9000))
        assert found.draft is None and why in found.notice


def test_an_embedding_model_drafts_nothing(tmp_path):
    found = planned(installed(tiny_gguf(tmp_path / "m.gguf", pooling=1)), card(9000))
    assert "spec" not in found.settings and [line for line in found.lines if line.what == "speculation"] == []


def test_a_refusal_tells_of_speculation_too(files):
    found = planned(installed(*files), Machine((), (), MIB, MIB, MIB))
    assert next(line for line in found.lines if line.what == "speculation").value == "off"


BASE = Plan(4096, 1, Grade(), (Part("card", 1, 1, 1, layers=4), Part("main memory", 1, 0, 0)))


@pytest.mark.parametrize(("change", "good"), [
    ({}, True), ({"slots": 2}, True), ({"ctx": 8192}, True), ({"ctx": 4095}, False),
    ({"grade": Grade("q8_0", "q8_0")}, False), ({"gpu_layers": 3}, False), ({"settings": {"cpu_moe_n": 1}}, False),
    ({"parts": (*BASE.parts, Part("other card", 1, 1, 1, layers=1))}, False)])
def test_what_a_model_would_lose(change, good):
    assert Plan(**{**vars(BASE), **change}).as_good_as(BASE) is good
