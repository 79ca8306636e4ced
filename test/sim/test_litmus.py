"""Each device function in a program of its own, right and with its parts left out."""

import re
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest
import triton
import triton.language as tl
from fused_edits import kernel, remove
from hand_tables import ALL_NEEDED, ALL_ROWS, COLUMNS, LDST
from sim_programs import with_fused
from triton.backends.compiler import GPUTarget

from syncopate.abi import FaultPlace, Realization, SignalKind
from syncopate.bridge import KernelSpec, capture_ttgir, divisible
from syncopate.device import calls, copy, guard, signals, tile, words
from syncopate.device.abi import COMMAND_DST, COMMAND_SRC, COMMANDS, FLAGS
from syncopate.runtime.interface import BufferParam, TensorParam
from syncopate.sim.explore import explore
from syncopate.sim.findings import Kind
from syncopate.sim.simulate import simulate
from syncopate.tables import BufferSpec, Region, SignalLayout, Table

TILE = tl.constexpr(int(FaultPlace.TILE))
SIZE = 256


def replace(pattern, by):
    """Replaces text of the fused kernel everywhere."""

    def apply(program):
        text, count = re.subn(pattern, by, program.ir["fused"])
        assert count, pattern
        return with_fused(program, text)

    return apply


def drop(name, inside=""):
    """Removes operations of a name, or those whose text has something inside."""

    def edit(fused):
        for op in fused.find(name, where=lambda op: inside in str(op)):
            remove(op)

    return kernel(edit)


@dataclass
class Litmus:
    """Two ranks; buffer `a`, i32[2, SIZE], whose row r rank r holds and puts into the other's."""

    ir: dict
    signature: tuple
    num_ctas: int = 1
    comm_ctas: int = 0
    name: str = "litmus"
    world_size: int = 2
    timeout_ns: int = 10**9
    localized: str | None = None
    profiled: bool = False
    overrides: dict = field(default_factory=dict)
    per_rank: object = lambda _: {}

    signal_layout = SignalLayout(4, 8, 10, 12, 14, 16, 17, 17, 17)
    buffers = (
        BufferSpec(
            "a", (2, SIZE), "i32", ((Region((0, 0), (1, SIZE)),), (Region((1, 0), (1, SIZE)),))
        ),
    )
    params = (
        BufferParam("a", "a", descriptor=False),
        BufferParam("a_desc", "a", descriptor=True),
        TensorParam("out", "out", (SIZE,), "i32", descriptor=False, output=True),
    )

    @property
    def grid(self):
        return (self.num_ctas, 1, 1)

    @property
    def image(self):
        return SimpleNamespace(name="litmus", arguments=self.signature)

    def rank_tables(self, rank):
        peer, row = 1 - rank, 4 * SIZE
        rows = {
            "tiles": [(7 + rank, 8, 9, 0, 1)],
            "waits": [(peer, 1), (12 + peer, 0)],
            "signals": [(peer, rank, SignalKind.EPOCH), (peer, 12 + rank, SignalKind.EPOCH)],
            "commands": [
                (rank, rank, 0, rank * row, peer, 0, rank * row, 1, row, row, row, 1, 2, 0, 1,
                Realization.LDST_COLOCATED, 0, 0, *ALL_ROWS)
            ],
            "groups": [],
            "tile_groups": [],
            "calls": [(0, 0, 0, 0, 0, 0, 1, 2, *ALL_NEEDED)],
            **self.overrides,
            **self.per_rank(rank),
        }  # fmt: skip
        return {
            name: Table(tuple(columns.split()), np.array(rows[name], np.int64))
            for name, columns in COLUMNS.items()
        }


def build(kernel, warps=4, ctas=1, per_rank=lambda _: {}, **overrides):
    kinds = {"ctx": "*i64", "a": "*i32", "out": "*i32", "a_desc": "tensordesc<i32[1,256]>"}
    signature = {param.name: kinds[param.name] for param in kernel.params}
    options = {"num_warps": warps, "num_stages": 1}
    attrs = divisible(list(signature), {n: 16 for n, k in signature.items() if k.startswith("*")})
    spec = KernelSpec(kernel, signature, {}, attrs, GPUTarget("cuda", 90, 32), options)
    return Litmus(
        {"fused": capture_ttgir(spec).ttgir},
        tuple(signature.items()),
        ctas,
        overrides=overrides,
        per_rank=per_rank,
    )


def findings(program, **options):
    found = []
    for policy in ("random", "late", "early"):
        for seed in range(4):
            found += simulate(
                program, seed=seed, scheduler=policy, calls=2, **options
            ).verdict.findings
    return {finding.kind for finding in found}


def check_gathered(program, calls=3):
    """Every rank's output is the other's row."""
    for policy, seed in (("random", 0), ("random", 1), ("late", 2), ("early", 3)):
        result = simulate(program, calls=calls, seed=seed, scheduler=policy)
        assert result.verdict.ok, str(result.verdict)
        assert len(result.outputs) == calls
        for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
            for rank in range(2):
                assert (outputs["out"][rank] == inputs["a"][1 - rank][0]).all()


@triton.jit
def _row_of_peer(ctx, a):
    """This rank's row, and the one that its peer puts."""
    rank = tl.load(ctx + 12).to(tl.int32)
    return a + rank * 256, a + (1 - rank) * 256


@triton.jit
def message_passing(ctx, a, out):
    """All threads store to the peer, a barrier, release; acquire, all threads load."""
    mine, other = _row_of_peer(ctx, a)
    offsets = tl.arange(0, 256)
    command = words.words64(tl.load(ctx + COMMANDS))
    remote = words.words32(tl.load(command + COMMAND_DST))
    signals.wait_signals(ctx, 1, 2, TILE, False)
    tl.store(remote + offsets, tl.load(mine + offsets))
    tl.debug_barrier()
    signals.raise_signals(ctx, 0, 1)
    signals.wait_signals(ctx, 0, 1, TILE, False)
    tl.store(out + offsets, tl.load(other + offsets))
    calls.close_call(ctx)


def test_message_passing():
    check_gathered(build(message_passing))


@pytest.mark.parametrize(
    "fault",
    [
        drop(r"(gpu|ttg)\.barrier"),
        replace("sem = 3 : i32", "sem = 1 : i32"),
        replace("sem = 2 : i32", "sem = 1 : i32"),
        replace("scope = 3 : i32, sem = 3", "scope = 1 : i32, sem = 3"),
        replace("scope = 3 : i32, sem = 2", "scope = 1 : i32, sem = 2"),
    ],
    ids=[
        "no barrier",
        "relaxed release",
        "relaxed acquire",
        "release of one GPU",
        "acquire of one GPU",
    ],
)
def test_message_passing_needs_every_part(fault):
    assert Kind.RACE in findings(fault(build(message_passing)))


LDST_COLOCATED = tl.constexpr(int(Realization.LDST_COLOCATED))


@triton.jit
def by_commands(ctx, a, out):
    """The communication role moves the row."""
    _, other = _row_of_peer(ctx, a)
    offsets = tl.arange(0, 256)
    copy.run_commands_ldst(ctx, ctx, LDST_COLOCATED, 16, 32, 32, None, False, False, False)
    signals.wait_signals(ctx, 0, 1, TILE, False)
    if tl.program_id(0) == 0:
        tl.store(out + offsets, tl.load(other + offsets))
    calls.close_call(ctx)


@pytest.mark.parametrize("ctas", [1, 3])
def test_commands_share_blocks_and_raise_once(ctas):
    check_gathered(build(by_commands, ctas=ctas))


@triton.jit
def by_tma_store(ctx, a_desc, out):
    """The row is stored through TMA, in place; the peer gets it."""
    offsets = tl.arange(0, 256)
    rank = tl.load(ctx + 12).to(tl.int32)
    command = words.words64(tl.load(ctx + COMMANDS))
    remote = words.words32(tl.load(command + COMMAND_SRC))
    signals.wait_signals(ctx, 1, 2, TILE, False)
    a_desc.store([rank, 0], a_desc.load([rank, 0]) + 1)
    tl.inline_asm_elementwise(
        "cp.async.bulk.wait_group 0;\nmov.b32 $0, 0;",
        "=r",
        [],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )
    tl.debug_barrier()
    signals.raise_signals(ctx, 0, 1)
    signals.wait_signals(ctx, 0, 1, TILE, False)
    tl.store(out + offsets, tl.load(remote + offsets))
    calls.close_call(ctx)


def _getting(rank):
    row, how = 4 * SIZE, (LDST, 0, 0, *ALL_ROWS)
    return {
        "commands": [
            (0, 1 - rank, 0, (1 - rank) * row, rank, 0, 0, 1, row, row, row, 0, 0, 0, 0, *how)
        ]
    }


def test_tma_stores_are_complete_before_a_release():
    program = build(by_tma_store, per_rank=_getting)
    for policy in ("random", "late", "early"):
        result = simulate(program, seed=1, scheduler=policy)
        assert result.verdict.ok, str(result.verdict)
        for rank in range(2):
            assert (result.outputs[0]["out"][rank] == result.inputs[0]["a"][1 - rank][0] + 1).all()


@pytest.mark.parametrize(
    "fault",
    [
        drop(r"tt\.elementwise_inline_asm", "cp.async.bulk.wait_group 0"),
        replace("wait_group 0", "wait_group.read 0"),
        drop(r"(gpu|ttg)\.barrier"),
    ],
    ids=["no wait", "only for reads", "no barrier"],
)
def test_tma_stores_need_the_full_wait(fault):
    assert Kind.RACE in findings(fault(build(by_tma_store, per_rank=_getting)))


@triton.jit
def open_and_close(ctx, a, out):
    """Nothing but the protocol of a call, opening signals included."""
    offsets = tl.arange(0, 256)
    calls.open_call(ctx)
    signals.wait_signals(ctx, 0, 1, TILE, False)
    if tl.program_id(0) == 0:
        tl.store(out + offsets, offsets * 0 + words.epoch_of(ctx))
    calls.close_call(ctx)


def test_calls_open_and_close():
    program = build(open_and_close, ctas=2, calls=[(0, 1, 1, 2, 0, 0, 1, 2, *ALL_NEEDED)])
    for seed in range(4):
        result = simulate(program, calls=4, seed=seed)
        assert result.verdict.ok, str(result.verdict)
        for call, outputs in enumerate(result.outputs, start=1):
            assert (outputs["out"][0] == call).all()


@triton.jit
def read_tables(ctx, a, out):
    """What the host has prepared."""
    m, n, k, begin, end = tile.read_tile(ctx, 0, False)
    first, last = tile.input_rows(ctx)
    offsets = tl.arange(0, 256)
    value = m + 10 * n + 100 * k + 1000 * begin + 10000 * end + 100000 * first + last
    tl.store(out + offsets, offsets * 0 + value)
    calls.close_call(ctx)


def test_tables_are_read():
    result = simulate(build(read_tables))
    assert result.verdict.ok
    for rank in range(2):
        assert (result.outputs[0]["out"][rank] == 10987 + rank).all()


@triton.jit
def guarded(ctx, a, out):
    """The guard's wait; then one that must be given up."""
    offsets = tl.arange(0, 256)
    guard.guard(ctx, 1, 2)
    arrived = signals.wait_signals(ctx, 0, 1, TILE, False)
    tl.store(out + offsets, offsets * 0 + arrived + 10 * signals.aborted(ctx))
    calls.close_call(ctx)


def test_a_wait_in_vain_is_a_deadlock_or_a_timeout():
    program = build(guarded)
    assert findings(program) == {Kind.DEADLOCK}
    assert findings(program, timeouts=True) == {Kind.TIMEOUT}
    result = simulate(program, timeouts=True)
    for rank in range(2):
        assert (result.outputs[0]["out"][rank] == 10).all()
    message = result.verdict.findings[0].message
    assert (
        "waited 1 s for chunk a[1:2, 0:256] from rank 1"
        in message + result.verdict.findings[1].message
    )


@triton.jit
def polls_with_loads(ctx, a, out):
    """Ordinary loads never see what they wait for, as far as a compiler is concerned; here nobody raises it."""
    flags = words.words32(tl.load(ctx + FLAGS))
    while tl.load(flags, volatile=True) == 0:
        pass
    tl.store(out + tl.arange(0, 256), tl.arange(0, 256))


def test_loops_without_end_are_reported():
    (finding,) = simulate(build(polls_with_loads)).verdict.findings
    assert finding.kind is Kind.DEADLOCK
    assert "rank 0 CTA 0 compute runs on without end, at" in finding.message


@triton.jit
def out_of_bounds(ctx, a, out):
    offsets = tl.arange(0, 256)
    tl.store(out + offsets + 1, offsets)


@triton.jit
def never_written(ctx, a, out):
    _, other = _row_of_peer(ctx, a)
    offsets = tl.arange(0, 256)
    tl.store(out + offsets, tl.load(other + offsets))


@triton.jit
def half_written(ctx, a, out):
    offsets = tl.arange(0, 128)
    tl.store(out + offsets, offsets)


@triton.jit
def scalar_then_tensor(ctx, a, out):
    """One thread stores, the others load without a barrier."""
    offsets = tl.arange(0, 256)
    tl.store(out, 1)
    tl.store(out + offsets, tl.load(out + offsets))


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        (out_of_bounds, Kind.OUT_OF_BOUNDS),
        (never_written, Kind.UNWRITTEN),
        (half_written, Kind.OUTPUT),
        (scalar_then_tensor, Kind.RACE),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_memory_errors(kernel, kind):
    assert kind in findings(build(kernel))


def test_every_schedule_with_one_deviation():
    good = explore(build(message_passing), limit=2000)
    assert good.ok, str(good.findings[0])
    assert good.complete
    assert good.schedules > 20
    broken = explore(drop(r"(gpu|ttg)\.barrier")(build(message_passing)), limit=50)
    assert {finding.kind for finding in broken.findings} == {Kind.RACE}


def test_two_deviations_are_many_schedules():
    exploration = explore(build(message_passing), bound=2, limit=300)
    assert exploration.ok
    assert not exploration.complete
    assert exploration.schedules == 300
