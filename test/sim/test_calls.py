"""Library calls of what tiles compute: sound and right, and what breaks them is found."""

import dataclasses
import random

import numpy as np
import pytest
from edited_tables import refuse_tables
from sim_calls import KINDS, SMALL, expected, gemm_calls, largest_error
from sim_table import options_of

import syncopate
from syncopate.abi import Realization
from syncopate.choices import Combine
from syncopate.errors import PlanError, SyncopateError
from syncopate.kernels import (
    GemmConfig,
    add_rms_norm,
    bind_add_rms_norm,
    bind_gemm_pointers,
    gemm_pointers,
)
from syncopate.plan.templates import all_gather_tiles, all_reduce_tiles
from syncopate.runtime.engine_plan import AwaitWord, Call, Raise, plan_engine
from syncopate.runtime.linking import Addresses
from syncopate.sim.simulate import simulate
from syncopate.tables import first_row, slot_rows

TOLERANCE = 2e-2


def check(kind, program, seeds=2):
    for seed in range(seeds):
        result = simulate(program, **options_of(seed))
        assert result.verdict.ok, result.verdict
        assert largest_error(kind, result) < TOLERANCE


SHAPES = ("rows", "tiles")


@pytest.mark.parametrize("slots", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("world", "waves"), [(2, ()), (3, (1,)), (4, (1, 2))])
def test_whole_tiles(kind, world, waves, slots):
    check(kind, gemm_calls(kind, world, (128 * world, 136, 72), waves=waves, slots=slots))


@pytest.mark.parametrize("slots", SHAPES)
@pytest.mark.parametrize(("world", "rows"), [(2, 130), (3, 251), (4, 333)])
def test_all_reduce_of_odd_rows(world, rows, slots):
    check("all_reduce", gemm_calls("all_reduce", world, (rows, 72, 40), waves=(1,), slots=slots))


@pytest.mark.parametrize("slots", SHAPES)
@pytest.mark.parametrize(("world", "rows"), [(2, 100), (3, 130), (4, 64), (4, 70)])
def test_blocks_that_end_inside_tiles(world, rows, slots):
    for kind in ("reduce_scatter", "all_to_all"):
        m = rows * world - (5 if kind == "reduce_scatter" else 0)
        check(kind, gemm_calls(kind, world, (m, 72, 40), waves=(1,), slots=slots))


@pytest.mark.parametrize("slots", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("world", "rows", "ctas"), [(2, 128, 5), (3, 96, 13)])
def test_last_tiles_are_computed_in_parts(kind, world, rows, ctas, slots):
    config = GemmConfig(block_m=64, block_n=32, block_k=32, num_warps=4, num_ctas=ctas, parts=2)
    program = gemm_calls(
        kind, world, (rows * world, 72, 104), waves=(1,), slots=slots, config=config
    )
    for rank in range(world):
        tiles = program.rank_tables(rank)["tiles"]
        assert set(tiles.column("c2").tolist()) == {0, 1}
        assert len(tiles.values) > len(program.rank_tables(rank)["slots"].values)
    check(kind, program, seeds=3)


def test_code_is_not_shared_by_other_columns_of_tiles():
    """Where a tile begins is worked out from its number, by how many tiles a row has."""
    programs = [gemm_calls("all_reduce", 2, (128, n, 40), slots="tiles") for n in (136, 72)]
    assert programs[0].image is not programs[1].image
    for program in programs:
        check("all_reduce", program, seeds=1)


def test_code_is_shared_by_other_rows_but_not_by_other_slots():
    seed = random.randrange(1 << 30)
    draw = random.Random(seed)
    for kind, unit in (("all_reduce", 1), ("reduce_scatter", 128), ("all_to_all", 128)):
        first = gemm_calls(kind, 2, (256, 72, 40), waves=(1,), slots="tiles")
        m = unit * draw.randrange(-(-65 // unit), 512 // unit + 1)
        other = gemm_calls(kind, 2, (m, 72, 40), waves=(2,), slots="tiles")
        assert other.image is first.image, f"seed {seed}: {kind}, {m} rows"
        check(kind, other)
        assert gemm_calls(kind, 2, (256, 72, 40)).image is not first.image
    # Blocks that end inside tiles make some of them be stored twice.
    whole, ragged = (gemm_calls("reduce_scatter", 2, (m, 72, 40)) for m in (256, 200))
    assert whole.image is not ragged.image


@pytest.mark.parametrize("dtype", ["f16", "f32"])
def test_other_types(dtype):
    for kind in KINDS:
        check(kind, gemm_calls(kind, 2, (256, 72, 40), dtype=dtype, slots="tiles"))


@pytest.mark.parametrize("kind", KINDS)
def test_whole_rows_need_no_copy(kind):
    program = gemm_calls(kind, 2, (256, 136, 40))
    assert program.remap is None
    assert gemm_calls(kind, 2, (256, 136, 40), slots="tiles").remap is not None
    for buffer in program.buffers:
        for rank in range(2):
            if buffer.slots is not None and buffer.outputs[rank]:
                assert first_row(buffer, rank) is not None


def test_plan_may_name_the_realization():
    for kind in KINDS:
        named = gemm_calls(kind, 2, (256, 72, 40), named=True)
        chosen = gemm_calls(kind, 2, (256, 72, 40))
        for rank in range(2):
            for name, table in named.rank_tables(rank).items():
                assert np.array_equal(table.values, chosen.rank_tables(rank)[name].values)


def test_without_nccl_the_same_plan_becomes_transfers():
    for realization in ("ldst_colocated", "ldst_dedicated"):
        plan = syncopate.Plan("transfers", [2])
        c = plan.buffer("c", (128, 64), "bf16")
        strategy = syncopate.Strategy(
            realization=realization, comm_ctas=2, combine=Combine.COLLECTIVE
        )
        all_reduce_tiles(plan, c, strategy)
        bind = syncopate.kernels.bind_gemm(syncopate.Tensor("a", (128, 40), "bf16"), 64, SMALL, c=c)
        program = syncopate.compile(syncopate.kernels.gemm, plan, **bind, strategy=strategy)
        assert all(buffer.slots is None for buffer in program.buffers)
        check("all_reduce", program)


@pytest.mark.parametrize("kind", KINDS)
def test_every_element_of_an_output_has_its_place(kind):
    program = gemm_calls(kind, 3, (300, 136, 40), waves=(1,), slots="tiles")
    spec = program.buffers[-1]
    for rank in range(3):
        rows = slot_rows(spec, rank)
        assert rows.shape == (spec.outputs[rank][0].sizes[0], -(-136 // 64))
        assert len(np.unique(rows)) == rows.size
        assert rows.min() >= 0
        assert rows.max() < spec.memory_shape[0]


def test_waves_say_how_many_tiles_a_call_takes():
    # There are 32 tiles, 3 of them a wave.
    program = gemm_calls("all_reduce", 2, (512, 256, 40), waves=(1, 3), slots="tiles")
    counts = np.bincount(program.rank_tables(0)["slots"].column("call"))
    assert counts.tolist() == [3, 9, 9, 9, 2]
    assert "all_reduce of 9 tiles of c, 73728 bytes, by nccl" in program.explain()


def test_the_stream_waits_for_each_group_and_calls():
    program = gemm_calls("reduce_scatter", 2, (256, 128, 40), waves=(1,), slots="tiles")
    addresses = Addresses(((1 << 20,), (2 << 20,)), (1 << 10, 2 << 10))
    calls = np.bincount(program.rank_tables(1)["slots"].column("call"))
    ops = plan_engine(program, 1, addresses)
    assert [type(op) for op in ops] == [AwaitWord, Call] * len(calls) + [Raise]
    slot = 64 * 64 * 2
    assert [op.nbytes for op in ops[1:-1:2]] == [count // 2 * slot for count in calls]
    assert all(op.dst_offset == op.src_offset + op.nbytes for op in ops[1:-1:2])
    assert len({op.address for op in ops[::2]}) == len(calls) + 1


# What comes next reads the slots.


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("rows", [64, 50])
@pytest.mark.parametrize("realization", ["ldst_colocated", "nccl"])
def test_norm_reads_slots(world, rows, realization):
    """A sum by calls, scattered in slots; then a norm of each rank's rows, gathered where they belong."""
    m, n, epsilon = rows * world, 136, 1e-5
    first = gemm_calls("reduce_scatter", world, (m, n, 40), waves=(1,), slots="tiles")
    ran = simulate(first)
    assert ran.verdict.ok, ran.verdict
    spec = first.buffers[0]
    plan = syncopate.Plan("norm", [world])
    own, y = plan.buffer("own", (rows, n), "bf16"), plan.buffer("y", (m, n), "bf16")
    all_gather_tiles(plan, own, y, syncopate.Strategy(realization=realization))
    bind = bind_add_rms_norm(own, epsilon=epsilon, num_warps=4, num_ctas=2, slots=spec)
    second = syncopate.compile(add_rms_norm, plan, **bind)
    draw = np.random.default_rng()
    residual = [draw.standard_normal((rows, n), np.float32) for _ in range(world)]
    weight = draw.standard_normal(n, np.float32)
    result = simulate(
        second,
        {
            "x": ran.buffers["c"],
            "x_rows": [slot_rows(spec, rank) for rank in range(world)],
            "residual": residual,
            "weight": [weight] * world,
        },
    )
    assert result.verdict.ok, result.verdict
    blocks = [expected("reduce_scatter", ran.inputs[0], rank) for rank in range(world)]
    total = np.concatenate(blocks) + np.concatenate(result.inputs[0]["residual"])
    scale = 1 / np.sqrt(np.square(total).mean(1, keepdims=True) + epsilon)
    right = total * scale * result.inputs[0]["weight"][0]
    for found in result.outputs[0]["y"]:
        assert np.abs(found - right).max() / np.abs(right).max() < TOLERANCE


# What is refused.


def refuse(message, kernel=None, config=SMALL, **options):
    plan = syncopate.Plan("p", [2])
    c = plan.buffer("c", options.pop("shape", (256, 64)), "bf16")
    strategy = syncopate.Strategy(realization="nccl")
    options.pop("add", lambda plan, c: all_reduce_tiles(plan, c, strategy))(plan, c)
    m, n = c.shape
    bind = (bind_gemm_pointers if kernel else syncopate.kernels.bind_gemm)(
        syncopate.Tensor("a", (m, 40), "bf16"), n, config, c=c
    )
    with pytest.raises(SyncopateError, match=message):
        syncopate.compile(kernel or syncopate.kernels.gemm, plan, **bind, strategy=strategy)


def test_stores_by_pointers_are_refused():
    refuse("expects tiles to be stored by a descriptor of two dimensions", gemm_pointers)


def test_small_blocks_are_refused():
    def add(plan, c):
        made = [plan.produce(c[:], rank=rank) for rank in range(2)]
        plan.reduce_scatter(c, after=made)

    plan = syncopate.Plan("p", [4])
    c = plan.buffer("c", (96, 64), "bf16")
    made = [plan.produce(c[:], rank=rank) for rank in range(4)]
    plan.reduce_scatter(c, after=made)
    bind = syncopate.kernels.bind_gemm(syncopate.Tensor("a", (96, 40), "bf16"), 64, SMALL, c=c)
    with pytest.raises(PlanError, match="in the blocks of two ranks at most, each of 24 rows"):
        syncopate.compile(
            syncopate.kernels.gemm,
            plan,
            **bind,
            strategy=syncopate.Strategy(realization="nccl"),
        )


# What breaks it is found.


def edit_tables(program, edit):
    """The program with tables that `edit` changes, by rank, names and columns."""
    edited = []
    for rank in range(program.world_size):
        good = program.rank_tables(rank)
        values = {name: table.values.copy() for name, table in good.items()}
        columns = {
            name: {column: values[name][:, i] for i, column in enumerate(table.columns)}
            for name, table in good.items()
        }
        edit(rank, columns)
        edited.append({n: dataclasses.replace(t, values=values[n]) for n, t in good.items()})
    return dataclasses.replace(program, tables=tuple(edited))


def calls_of(columns):
    return np.flatnonzero(columns["commands"]["realization"] == Realization.NCCL)


def one_wait_later(_, columns):
    _, early, late = calls_of(columns)[:3]
    commands = columns["commands"]
    commands["wait_begin"][late] = commands["wait_begin"][early]
    commands["wait_end"][early] = commands["wait_begin"][early]


def call_twice_as_long(_, columns):
    columns["commands"]["row_bytes"][calls_of(columns)[0]] *= 2


def no_engine_done(_, columns):
    columns["calls"]["close_wait_end"][:] = columns["calls"]["close_wait_begin"]


def slots_of_two_calls_swapped(_, columns):
    slots = columns["slots"]
    one, other = (np.flatnonzero(slots["call"] == call)[0] for call in (0, 1))
    slots["slot"][[one, other]] = slots["slot"][[other, one]]


def slots_of_one_rank_swapped(rank, columns):
    slots = columns["slots"]
    if rank == 1:
        alike = np.flatnonzero(slots["call"] == 0)[:2]
        slots["slot"][alike] = slots["slot"][alike[::-1]]


def max_for_sum(_, columns):
    columns["commands"]["reduction"][calls_of(columns)] = 2


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (one_wait_later, "is not done when call"),
        (call_twice_as_long, "expects whole slots|goes from byte"),
        (no_engine_done, "without a wait for its copy engine|without a wait for the call before"),
        (slots_of_two_calls_swapped, "but expects one in"),
        (slots_of_one_rank_swapped, "but on rank 0 in slots"),
        (max_for_sum, "has transfer -2 and reduction 2"),
    ],
)
def test_edited_tables_are_refused_and_found(edit, message):
    good = gemm_calls("all_reduce", 2, (256, 128, 40), waves=(1,), slots="tiles")
    assert not refuse_tables(good)
    broken = edit_tables(good, edit)
    assert any(part in refuse_tables(broken) for part in message.split("|"))
    found = False
    for seed in range(6):
        result = simulate(broken, **options_of(seed))
        found |= not result.verdict.ok or not largest_error("all_reduce", result) < TOLERANCE
    assert found


def test_ranks_that_make_other_calls_are_found():
    good = gemm_calls("reduce_scatter", 2, (256, 128, 40), waves=(1,))

    def edit(rank, columns):
        if rank == 1:
            columns["commands"]["reduction"][calls_of(columns)] = 2

    result = simulate(edit_tables(good, edit))
    assert "ranks make different library calls" in str(result.verdict)


def test_default_tiles_compile():
    # The shared memory and the registers of a large tile are those of the GEMM alone.
    for kind in KINDS:
        for slots in SHAPES:
            program = gemm_calls(
                kind, 2, (1024, 1024, 256), config=GemmConfig(), slots=slots, machine_code=True
            )
            assert program.num_ctas == 130
            assert program.grid == (130, 1, 1)
