"""Kernels that read slots, by Triton's interpreter on the CPU, against numpy."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("torch")

SCRIPT = '''
import numpy as np
import torch
import triton
from syncopate.device.remap import remap
from syncopate.kernels import add_activate
from syncopate.tables import BufferSpec, Region, SlotRows, TileSlots, slot_rows

draw = np.random.default_rng()


def in_slots(m, n, tile, block_rows, begin):
    """A matrix in slots in a random order, the rows of a block beginning inside a tile, and where its rows lie."""
    blocks = -(-m // block_rows)
    rows, columns = -(-(begin + block_rows) // tile[0]), -(-n // tile[1])
    count = blocks * rows * columns + 3
    slots = draw.permutation(count)[: blocks * rows * columns]
    places = []
    for number, slot in enumerate(slots.tolist()):
        block, at, column = number // columns // rows, number // columns % rows, number % columns
        first, last = max(begin, at * tile[0]), min(begin + block_rows, (at + 1) * tile[0])
        row = block * block_rows + first - begin
        places.append(SlotRows(row, min(last - first, m - row), column, slot, first - at * tile[0]))
    spec = TileSlots(tile, count, tuple(sorted(slots.tolist())), (tuple(places),))
    buffer = BufferSpec("c", (m, n), "f32", ((),), ((Region((0, 0), (m, n)),),), spec)
    values = draw.standard_normal((m, n), np.float32)
    memory = np.full(buffer.memory_shape, np.nan, np.float32)
    for row in range(m):
        for column in range(n):
            block, inside = divmod(row, block_rows)
            at = begin + inside
            slot = slots[(block * rows + at // tile[0]) * columns + column // tile[1]]
            memory[slot * tile[0] + at % tile[0], column % tile[1]] = values[row, column]
    table = torch.from_numpy(slot_rows(buffer, 0).astype(np.int32))
    return values, torch.from_numpy(memory), table


for m, n, tile, block_rows, begin in [
    (50, 70, (16, 32), 50, 0),
    (33, 48, (8, 16), 33, 5),
    (36, 40, (16, 16), 12, 6),
]:
    values, memory, table = in_slots(m, n, tile, block_rows, begin)
    tiles_n = table.shape[1]
    out = torch.full((m, n), float("nan"))
    grid = (triton.cdiv(m, 16), triton.cdiv(n, 32))
    remap[grid](memory, table, out, m, n, tiles_n, SLOT_N=tile[1], ROWS=16, COLUMNS=32)
    assert np.array_equal(out.numpy(), values)
    bias, residual = (torch.from_numpy(draw.standard_normal(s, np.float32)) for s in ((n,), (m, n)))
    for bias_of, residual_of, activation in ((bias, residual, "relu"), (None, residual, None), (bias, None, "silu")):
        right = values.astype(np.float64) + (0 if bias_of is None else bias_of.numpy())
        if activation == "relu":
            right = np.maximum(right, 0)
        if activation == "silu":
            right = right / (1 + np.exp(-right))
        right = right + (0 if residual_of is None else residual_of.numpy())
        y = torch.full((m, n), float("nan"))
        add_activate[grid](
            memory, table, bias_of, residual_of, y, m, n,
            ACTIVATION=activation, SLOT_N=tile[1], BLOCK_M=16, BLOCK_N=32,
        )
        assert np.abs(y.numpy() - right).max() < 1e-5, activation
print("done")
'''


def test_kernels_read_slots():
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "done"
