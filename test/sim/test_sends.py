"""Transfers that one rank sends and another receives: sound and right, between nodes too, and faults are found."""

import dataclasses
import math

import numpy as np
import pytest
from edited_tables import refuse_tables
from sim_compile import compile_program
from sim_table import options_of

import syncopate
from syncopate.abi import NO_EXCHANGE, Realization
from syncopate.errors import PlanError, SyncopateError
from syncopate.kernels import GemmConfig, bind_gemm, gemm
from syncopate.plan.templates import all_gather_tiles, all_reduce_tiles, reduce_scatter_tiles
from syncopate.runtime.engine_plan import AwaitWord, Exchange, Raise, plan_engine
from syncopate.runtime.linking import Addresses
from syncopate.runtime.table_checks import check_reach

SMALL = GemmConfig(block_m=64, block_n=64, num_warps=4, num_ctas=3)
TOLERANCE = 1e-2
INTRA = ("ldst_colocated", "ldst_dedicated", "tma_colocated", "tma_dedicated", "copy_engine")


def before_gemm(kind, mesh, shape, strategy):
    """A collective of A, and C = A Bᵀ."""
    (m, n, k), world = shape, math.prod(mesh)
    plan = syncopate.Plan(kind, mesh)
    if kind == "all_gather":
        a = plan.buffer("a", (m, k), "bf16", shard_axis=0)
        plan.all_gather(a, axis=0)
    else:
        given = plan.buffer("given", (m, k), "bf16")
        for rank in range(world):
            plan.input(given[:], rank=rank)
        a = plan.buffer("a", (m, k), "bf16")
        plan.all_to_all(given, a)
    return compile_program(gemm, plan, **bind_gemm(a, n, SMALL), strategy=strategy)


def behind_gemm(kind, mesh, shape, strategy):
    """C = A Bᵀ, and a collective of it."""
    m, n, k = shape
    plan = syncopate.Plan(kind, mesh)
    if kind == "all_gather":
        c = plan.buffer("own", (-(-m // math.prod(mesh)), n), "bf16")
        all_gather_tiles(plan, c, plan.buffer("c", (m, n), "bf16"), strategy)
    else:
        c = plan.buffer("c", (m, n), "bf16")
        add = {"reduce_scatter": reduce_scatter_tiles, "all_reduce": all_reduce_tiles}[kind]
        add(plan, c, strategy)
    rows = c.shape[0]
    bind = bind_gemm(syncopate.Tensor("a", (rows, k), "bf16"), n, SMALL, c=c)
    return compile_program(gemm, plan, **bind, strategy=strategy)


def expected(kind, where, inputs, rank):
    if where == "before":
        if kind == "all_gather":
            a = np.concatenate(inputs["a"])
        else:
            whole, world = inputs["given"], len(inputs["given"])
            rows = len(whole[0]) // world
            a = np.concatenate([part[rank * rows : (rank + 1) * rows] for part in whole])
        return np.float64(a) @ np.float64(inputs["b"][rank]).T
    products = [
        np.float64(a) @ np.float64(b).T for a, b in zip(inputs["a"], inputs["b"], strict=True)
    ]
    if kind == "all_gather":
        return np.concatenate(products)
    rows = -(-len(products[0]) // len(products))
    return (
        sum(products)[rank * rows : (rank + 1) * rows]
        if kind == "reduce_scatter"
        else sum(products)
    )


def largest_error(kind, where, result):
    errors = []
    for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
        for rank, found in enumerate(outputs["c"]):
            right = expected(kind, where, inputs, rank)
            assert found.shape == right.shape or kind == "all_gather"
            errors.append(np.abs(found - right[: len(found)]).max() / np.abs(right).max())
    return float(np.max(errors))


def check(kind, where, program, seeds=2):
    for seed in range(seeds):
        result = program.simulate(**options_of(seed))
        assert result.verdict.ok, result.verdict
        assert largest_error(kind, where, result) < TOLERANCE


def check_nodes(program, places):
    """No rank touches the memory of another node."""
    for rank in range(program.world_size):
        near = [rank // places == other // places for other in range(program.world_size)]
        check_reach(program, rank, near)


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("kind", ["all_gather", "all_to_all"])
def test_inputs_by_nccl(kind, world, splits):
    m = 72 * world if kind == "all_to_all" else 72 * world - 7
    strategy = syncopate.Strategy(realization="nccl", splits=splits)
    program = before_gemm(kind, [world], (m, 72, 40), strategy)
    check(kind, "before", program)
    check_nodes(program, 1)


@pytest.mark.parametrize("intra", INTRA)
@pytest.mark.parametrize("direction", ["push", "pull"])
def test_gather_between_nodes_first(intra, direction):
    strategy = syncopate.Strategy(
        realization=intra, between="nccl", algorithm="hierarchical", direction=direction, splits=2, comm_ctas=2
    )  # fmt: skip
    program = before_gemm("all_gather", [2, 2], (4 * 40 - 3, 64, 40), strategy)
    check("all_gather", "before", program)
    check_nodes(program, 2)
    # Each rank's block goes to the other node once.
    commands = program.rank_tables(0)["commands"].rows()
    sent = [row for row in commands if row["exchange"] != NO_EXCHANGE and row["src_rank"] == 0]
    assert {row["dst_rank"] for row in sent} == {2}
    assert sum(row["rows"] * row["row_bytes"] for row in sent) == 40 * 40 * 2


@pytest.mark.parametrize("intra", ["ldst_colocated", "ldst_dedicated", "copy_engine"])
@pytest.mark.parametrize("mesh", [[2, 2], [2, 1], [3, 2]])
def test_sum_within_nodes_first(intra, mesh):
    world = math.prod(mesh)
    strategy = syncopate.Strategy(realization=intra, between="nccl", splits=1, comm_ctas=2)
    program = behind_gemm("reduce_scatter", mesh, (64 * world, 72, 40), strategy)
    check("reduce_scatter", "behind", program, seeds=1 if world > 4 else 2)
    check_nodes(program, mesh[-1])
    # A rank sends each block of its place to another node once, whatever the ranks of its node have of it.
    commands = program.rank_tables(0)["commands"].rows()
    sent = [row for row in commands if row["exchange"] != NO_EXCHANGE and row["src_rank"] == 0]
    assert len(sent) == mesh[0] - 1


def test_all_reduce_between_nodes():
    strategy = syncopate.Strategy(between="nccl", splits=1)
    program = behind_gemm("all_reduce", [2, 2], (4 * 64, 72, 40), strategy)
    check("all_reduce", "behind", program)
    check_nodes(program, 2)


@pytest.mark.parametrize("mesh", [[2], [2, 2]])
def test_what_tiles_compute_is_sent(mesh):
    between = None if len(mesh) == 1 else "nccl"
    realization = "nccl" if between is None else "ldst_colocated"
    strategy = syncopate.Strategy(realization=realization, between=between, splits=2)
    world = math.prod(mesh)
    program = behind_gemm("all_gather", mesh, (64 * world, 72, 40), strategy)
    for seed in range(2):
        result = program.simulate(**options_of(seed))
        assert result.verdict.ok, result.verdict
        inputs, outputs = result.inputs[-1], result.outputs[-1]
        right = expected("all_gather", "behind", inputs, 0)
        for found in outputs["c"]:
            assert np.abs(found - right).max() / np.abs(right).max() < TOLERANCE


def test_library_calls_need_no_common_memory():
    """A sum by calls of all ranks, each on a node of its own."""
    plan = syncopate.Plan("calls", [2, 1])
    c = plan.buffer("c", (256, 72), "bf16")
    strategy = syncopate.Strategy(realization="nccl", waves=(1,))
    reduce_scatter_tiles(plan, c, strategy)
    bind = bind_gemm(syncopate.Tensor("a", (256, 40), "bf16"), 72, SMALL, c=c)
    program = compile_program(gemm, plan, **bind, strategy=strategy)
    check("reduce_scatter", "behind", program)
    check_nodes(program, 1)


def test_a_transfer_may_name_it():
    plan = syncopate.Plan("named", [2])
    a = plan.buffer("a", (128, 40), "bf16", shard_axis=0)
    plan.put(a[:64], a[:64], src_rank=0, dst_rank=1, realization="nccl")
    plan.put(a[64:], a[64:], src_rank=1, dst_rank=0)
    program = compile_program(gemm, plan, **bind_gemm(a, 72, SMALL))
    check("all_gather", "before", program)
    with pytest.raises(SyncopateError, match="rank 0 accesses the memory of rank 1, which it"):
        check_nodes(program, 1)


def test_a_rank_does_not_send_to_itself():
    plan = syncopate.Plan("own", [2])
    given, a = (plan.buffer(name, (64, 40), "bf16") for name in ("given", "a"))
    for rank in range(2):
        plan.input(given[:], rank=rank)
        plan.put(given[:], a[:], src_rank=rank, dst_rank=rank, realization="nccl")
    with pytest.raises(PlanError, match="expects another rank than 0 to receive it"):
        compile_program(gemm, plan, **bind_gemm(a, 72, SMALL))


def test_others_do_not_add_between_nodes():
    plan = syncopate.Plan("sum", [2, 2])
    c = plan.buffer("c", (256, 64), "bf16")
    with pytest.raises(PlanError, match="expects a role to add"):
        reduce_scatter_tiles(plan, c, syncopate.Strategy(between="nccl", combine="tiles"))


def test_sends_and_receives_of_an_exchange_are_one_operation():
    strategy = syncopate.Strategy(realization="nccl", splits=2)
    program = before_gemm("all_gather", [3], (3 * 64, 72, 40), strategy)
    addresses = Addresses(((1 << 20,), (2 << 20,), (3 << 20,)), (1 << 10, 2 << 10, 3 << 10))
    ops = plan_engine(program, 1, addresses)
    assert [type(op) for op in ops] == [Exchange, Raise, Raise] * 2 + [Raise]
    for number, op in enumerate(ops[:-1:3]):
        assert (op.meeting, op.members) == (number, (0, 1, 2))
        assert sorted(piece.peer for piece in op.sends) == [0, 2]
        assert sorted(piece.peer for piece in op.receives) == [0, 2]
        half = 32 * 40 * 2
        # A rank's own rows are where the caller keeps them.
        assert {(p.input_offset, p.nbytes) for p in op.sends} == {(number * half, half)}
        assert {p.address - (2 << 20) for p in op.receives} == {
            64 * 80 * rank + number * half for rank in (0, 2)
        }


def test_waits_stand_before_the_exchange():
    strategy = syncopate.Strategy(between="nccl", splits=1)
    program = behind_gemm("reduce_scatter", [2, 1], (128, 64, 40), strategy)
    addresses = Addresses(
        tuple((r << 30, (r << 30) + (1 << 20)) for r in (1, 2)), (1 << 10, 2 << 10)
    )
    kinds = [type(op) for op in plan_engine(program, 0, addresses)]
    assert kinds == [AwaitWord, Exchange, Raise, Raise]


# What breaks it is found.


def edit_commands(program, edit):
    tables = []
    for rank in range(program.world_size):
        mine = dict(program.rank_tables(rank))
        table = mine["commands"]
        values = table.values.copy()
        edit(rank, {name: values[:, i] for i, name in enumerate(table.columns)})
        mine["commands"] = dataclasses.replace(table, values=values)
        tables.append(mine)
    return dataclasses.replace(program, tables=tuple(tables))


def no_wait(rank, columns):
    columns["wait_end"][columns["exchange"] != NO_EXCHANGE] = columns["wait_begin"][
        columns["exchange"] != NO_EXCHANGE
    ]


def late_exchange(rank, columns):
    if rank == 0:
        own = np.flatnonzero(columns["exchange"] != NO_EXCHANGE)
        columns["exchange"][own[-1]] = columns["exchange"][own[0]]


def sends_less(rank, columns):
    own = np.flatnonzero(columns["realization"] == Realization.NCCL)
    if rank == 0:
        columns["rows"][own[columns["src_rank"][own] == 0][0]] -= 1


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (no_wait, "which no stream takes down"),
        (late_exchange, "is of exchange"),
        (sends_less, "is no region of"),
    ],
)
def test_edited_tables_are_refused(edit, message):
    strategy = syncopate.Strategy(between="nccl", splits=2)
    good = behind_gemm("reduce_scatter", [2, 1], (256, 64, 40), strategy)
    assert not refuse_tables(good)
    broken = edit_commands(good, edit)
    refused = refuse_tables(broken)
    assert message in refused, refused


@pytest.mark.parametrize("edit", [no_wait, sends_less])
def test_edited_tables_are_found(edit):
    strategy = syncopate.Strategy(between="nccl", splits=2)
    good = behind_gemm("reduce_scatter", [2, 1], (256, 64, 40), strategy)
    broken = edit_commands(good, edit)
    found = False
    for seed in range(6):
        result = broken.simulate(**options_of(seed))
        found |= (
            not result.verdict.ok
            or not largest_error("reduce_scatter", "behind", result) < TOLERANCE
        )
    assert found
