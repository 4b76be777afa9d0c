"""Weights, cache and compute buffers as plans predict them, beside what the built llama.cpp logs."""

import time

import pytest

from blazar.planner.kv import Grade
from tests.support.built_engines import built
from tests.support.memory_table import MODELS, by_chance, measured, rows
from tests.support.resident import engines, resident
from tests.support.shaped_gguf import write_shaped

Q4_K = 12

pytestmark = pytest.mark.built


def test_five_models_at_three_contexts_and_two_grades(tmp_path):
    built("llama-server")
    found = list(rows(tmp_path))
    assert len(found) == len(MODELS) * 6 and [str(row) for row in found if row.faults] == []


def test_a_model_that_nobody_chose(tmp_path):
    built("llama-server")
    seed = time.time_ns() % 10**6
    file = by_chance(tmp_path / "chance.gguf", seed)
    found = [measured(f"seed {seed}", file, ctx, grade) for ctx in (4096, 20000)
             for grade in (Grade(), Grade("q8_0", "q8_0"))]
    assert [str(row) for row in found if row.faults] == []


@pytest.mark.parametrize("engine", ["b11434", "embedded"])
@pytest.mark.parametrize(("name", "ctx", "grade"), [
    ("grouped", 12288, Grade("q8_0", "q8_0")), ("windows", 4096, Grade()), ("packed", 4096, Grade())])
def test_what_the_process_holds(tmp_path, engine, name, ctx, grade):
    built("llama-server")
    if engine not in engines():
        pytest.skip("there is no embedded engine")
    if name == "packed":
        file = write_shaped(tmp_path / "x.gguf", "grouped", matrices=Q4_K)
    else:
        file = write_shaped(tmp_path / "x.gguf", name, layers=3)
    found = resident(engine, name, file, ctx, grade)
    assert not found.is_off, found


@pytest.mark.parametrize("name", ["grouped", "windows", "recurrent", "hybrid"])
def test_several_slots(tmp_path, name):
    built("llama-server")
    row = measured(name, write_shaped(tmp_path / "x.gguf", name), 4096, Grade(), slots=3)
    assert not row.faults, row
