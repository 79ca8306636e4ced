# mypy: allow-untyped-defs, allow-untyped-decorators, allow-untyped-calls, allow-incomplete-defs

"""Kernels of one tile coordinate, most of which cannot be fused as they are."""

import triton
import triton.language as tl

import syncopate.language as sy


@triton.jit
def stores_rows(x, y, M, W: tl.constexpr, BLOCK: tl.constexpr):
    t = tl.program_id(0)
    m, _ = sy.tile(t, t)
    rows = m * BLOCK + tl.arange(0, BLOCK)
    cols = tl.arange(0, W)
    where = rows[:, None] * W + cols[None, :]
    tl.store(y + where, tl.load(x + where, rows[:, None] < M), rows[:, None] < M)


@triton.jit
def stores_in_a_loop(x, y, M, W: tl.constexpr, BLOCK: tl.constexpr):
    """Columns in quarters, of which a loop stores one at a time."""
    t = tl.program_id(0)
    m, _ = sy.tile(t, t)
    rows = m * BLOCK + tl.arange(0, BLOCK)
    for quarter in range(4):
        cols = quarter * (W // 4) + tl.arange(0, W // 4)
        where = rows[:, None] * W + cols[None, :]
        tl.store(y + where, tl.load(x + where, rows[:, None] < M), rows[:, None] < M)


@triton.jit
def stores_every_second_row(x, y, M, W: tl.constexpr, BLOCK: tl.constexpr):
    t = tl.program_id(0)
    m, _ = sy.tile(t, t)
    rows = m * BLOCK + 2 * tl.arange(0, BLOCK // 2)
    where = rows[:, None] * W + tl.arange(0, W)[None, :]
    tl.store(y + where, tl.load(x + where, rows[:, None] < M), rows[:, None] < M)


@triton.jit
def stores_what_is_positive(x, y, M, W: tl.constexpr, BLOCK: tl.constexpr):
    t = tl.program_id(0)
    m, _ = sy.tile(t, t)
    rows = m * BLOCK + tl.arange(0, BLOCK)
    where = rows[:, None] * W + tl.arange(0, W)[None, :]
    value = tl.load(x + where, rows[:, None] < M, 0.0)
    tl.store(y + where, value, (rows[:, None] < M) & (value > 0))


@triton.jit
def stores_sometimes(x, y, M, W: tl.constexpr, BLOCK: tl.constexpr):
    t = tl.program_id(0)
    m, _ = sy.tile(t, t)
    rows = m * BLOCK + tl.arange(0, BLOCK)
    where = rows[:, None] * W + tl.arange(0, W)[None, :]
    value = tl.load(x + where, rows[:, None] < M, 0.0)
    if tl.sum(tl.sum(value, 1), 0) > 0:
        tl.store(y + where, value, rows[:, None] < M)


@triton.jit
def leaves_out_the_end(x, y, M, W: tl.constexpr, BLOCK: tl.constexpr):
    t = tl.program_id(0)
    m, _ = sy.tile(t, t)
    rows = m * BLOCK + tl.arange(0, BLOCK)
    where = rows[:, None] * W + tl.arange(0, W)[None, :]
    tl.store(y + where, tl.load(x + where, rows[:, None] < M), rows[:, None] < M - 1)


@triton.jit
def adds_atomically(x, y, M, W: tl.constexpr, BLOCK: tl.constexpr):
    t = tl.program_id(0)
    m, _ = sy.tile(t, t)
    rows = m * BLOCK + tl.arange(0, BLOCK)
    where = rows[:, None] * W + tl.arange(0, W)[None, :]
    tl.atomic_add(y + where, tl.load(x + where, rows[:, None] < M), rows[:, None] < M)


@triton.jit
def follows_an_index(x, y, M, W: tl.constexpr, BLOCK: tl.constexpr):
    t = tl.program_id(0)
    m, _ = sy.tile(t, t)
    rows = m * BLOCK + tl.arange(0, BLOCK)
    cols = tl.arange(0, W)
    found = tl.load(y + rows * W, rows < M, 0.0).to(tl.int32)
    where = rows[:, None] * W + cols[None, :]
    value = tl.load(x + found[:, None] * W + cols[None, :], rows[:, None] < M)
    tl.store(y + where, value, rows[:, None] < M)


@triton.jit
def goes_by_the_position(x, y, M, W: tl.constexpr, BLOCK: tl.constexpr):
    t = tl.program_id(0)
    m, _ = sy.tile(t, t)
    cols = tl.arange(0, W)
    rows = t * BLOCK + tl.arange(0, BLOCK)
    where = rows[:, None] * W + cols[None, :]
    value = tl.load(x + (m * BLOCK + tl.arange(0, BLOCK))[:, None] * W + cols[None, :])
    tl.store(y + where, value, rows[:, None] < M)


@triton.jit
def hides_a_pointer(x, y, M, W: tl.constexpr, BLOCK: tl.constexpr):
    t = tl.program_id(0)
    m, _ = sy.tile(t, t)
    rows = m * BLOCK + tl.arange(0, BLOCK)
    where = rows[:, None] * W + tl.arange(0, W)[None, :]
    address = x.to(tl.int64) + m * (BLOCK * W * 4)
    there = address.to(tl.pointer_type(tl.float32), bitcast=False)
    inside = tl.arange(0, BLOCK)[:, None] * W + tl.arange(0, W)[None, :]
    tl.store(y + where, tl.load(there + inside, rows[:, None] < M), rows[:, None] < M)


@triton.jit
def walks_twice(x, y, M, W: tl.constexpr, BLOCK: tl.constexpr, CTAS: tl.constexpr):
    """Two loops over the same tiles: the second scales what the first has copied."""
    cols = tl.arange(0, W)
    for t in tl.range(tl.program_id(0), tl.cdiv(M, BLOCK), CTAS):
        m, _ = sy.tile(t, t)
        rows = m * BLOCK + tl.arange(0, BLOCK)
        where = rows[:, None] * W + cols[None, :]
        tl.store(y + where, tl.load(x + where, rows[:, None] < M), rows[:, None] < M)
    for t in tl.range(tl.program_id(0), tl.cdiv(M, BLOCK), CTAS):
        m, _ = sy.tile(t, t)
        rows = m * BLOCK + tl.arange(0, BLOCK)
        where = rows[:, None] * W + cols[None, :]
        value = tl.load(y + where, rows[:, None] < M) + tl.load(x + where, rows[:, None] < M)
        tl.store(y + where, value, rows[:, None] < M)


@triton.jit
def late_epilogue(x, y, M, W: tl.constexpr, BLOCK: tl.constexpr, CTAS: tl.constexpr):
    """As in the tutorial, the position is counted once more for the store."""
    cols = tl.arange(0, W)
    late = tl.program_id(0) - CTAS
    for t in tl.range(tl.program_id(0), tl.cdiv(M, BLOCK), CTAS):
        m, _ = sy.tile(t, t)
        rows = m * BLOCK + tl.arange(0, BLOCK)
        value = tl.load(x + rows[:, None] * W + cols[None, :], rows[:, None] < M)
        late += CTAS
        rows = late * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + rows[:, None] * W + cols[None, :], value, rows[:, None] < M)


@triton.jit
def ends_where_memory_says(x, y, M, W: tl.constexpr, BLOCK: tl.constexpr, CTAS: tl.constexpr):
    cols = tl.arange(0, W)
    for t in tl.range(tl.program_id(0), tl.load(y).to(tl.int32), CTAS):
        m, _ = sy.tile(t, t)
        rows = m * BLOCK + tl.arange(0, BLOCK)
        where = rows[:, None] * W + cols[None, :]
        tl.store(y + where, tl.load(x + where, rows[:, None] < M), rows[:, None] < M)
