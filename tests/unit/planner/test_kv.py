"""Bytes of the KV cache, beside what llama.cpp b11434 logged for the same sizes."""

import pytest

from blazar.planner.kv import Grade, Window, kv_bytes, layer_bytes, token_bytes
from blazar.store.shape import Layer, Shape

MIB = 1 << 20
EIGHT = Shape("llama", 32768, (Layer(keys=1024, values=1024),) * 8, 0, 0)


@pytest.mark.parametrize(("grade", "window", "logged"), [
    (Grade(), Window(4096), 128.0), (Grade(), Window(16384), 512.0), (Grade(), Window(4096, 4, unified=False), 512.0),
    (Grade("q8_0", "q4_0"), Window(16384), 208.0), (Grade("f32", "f32"), Window(4096), 256.0),
    (Grade("q4_0", "q4_0"), Window(4096), 36.0), (Grade("q5_1", "q5_0"), Window(4096), 46.0),
])
def test_as_the_engine_logs_it(grade, window, logged):
    assert kv_bytes(EIGHT, grade, window) / MIB == logged


@pytest.mark.parametrize(("window", "cells"), [
    (Window(1000), 1024), (Window(1000, 3), 3072), (Window(1000, 3, unified=False), 1024), (Window(1), 256)])
def test_cells_are_padded(window, cells):
    assert window.cells == cells


@pytest.mark.parametrize(("window", "cells"), [
    (Window(8192), 1536), (Window(512), 512), (Window(8192, 2), 2560), (Window(8192, 2, unified=False), 1536),
    (Window(8192, batch=1000), 2048 + 0), (Window(8192, whole=True), 8192)])
def test_a_sliding_window_keeps_itself_and_a_batch(window, cells):
    # 1024 + 512 = 1536; of two slots in one pool 2048 + 512; 1024 + 1000 is padded to 2048.
    assert window.cells_of(Layer(keys=1, window=1024)) == cells


def test_a_state_is_kept_for_each_slot_whatever_the_context():
    layer = Layer(state=1000)
    assert [layer_bytes(layer, Grade(), Window(ctx, 3)) for ctx in (256, 65536)] == [3000, 3000]


def test_compressed_rows_have_no_values():
    layer = Layer(keys=576, values=0)
    assert layer_bytes(layer, Grade(), Window(256)) == 576 * 2 * 256


def test_bytes_of_a_token_count_the_layers_that_keep_every_token():
    shape = Shape("x", 0, (Layer(keys=64, values=64), Layer(keys=64, values=64, window=128), Layer(state=9)), 0, 0)
    assert token_bytes(shape, Grade()) == 256 and token_bytes(shape, Grade("q8_0", "q4_0")) == 68 + 36
    assert str(Grade("q8_0", "q4_0")) == "q8_0 keys and q4_0 values" and str(Grade()) == "f16"
