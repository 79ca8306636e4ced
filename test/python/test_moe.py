"""Plans whose sizes are read at run time: builders, interpreter, linking, words; routings; programs for targets."""

import dataclasses
import re
import runpy
from pathlib import Path

import numpy as np
import pytest
from moe_programs import SHAPES, moe_program

import syncopate
from syncopate.abi import CommandField, ContextWord
from syncopate.errors import InternalError, PlanError, SyncopateError
from syncopate.kernels import GemmConfig, bind_grouped_gemm, grouped_gemm
from syncopate.plan.interpreter import interpret_plan
from syncopate.plan.tokens import RoutingShape, combine_tokens, dispatch_tokens
from syncopate.runtime.linking import RankAddresses, layout_tables, link_rank
from syncopate.runtime.memory_plan import plan_memory, resolve
from syncopate.sim.check import check_plan
from syncopate.tables import Table

REALIZATIONS = ("ldst_colocated", "ldst_dedicated", "tma_colocated", "tma_dedicated")


def counted_plan():
    plan = syncopate.Plan("p", [2])
    a, n = plan.buffer("a", (8, 4), "f32", shard_axis=0), plan.buffer("n", (3,), "i32")
    for rank in range(2):
        plan.input(n[:], rank=rank)
    return plan, a, n


@pytest.mark.parametrize("count", [-3, 0, 1, 3, 4, 100])
@pytest.mark.parametrize("past", [0, 2])
@pytest.mark.parametrize("kind", ["put", "get"])
def test_interpreter_moves_as_many_rows_as_are_counted(count, past, kind):
    plan, a, n = counted_plan()
    getattr(plan, kind)(a[0:4], a[0:4], src_rank=0, dst_rank=1, rows=n[1], past=past)
    generator = np.random.default_rng(count + 10)
    data = [generator.standard_normal((4, 4)) for _ in range(2)]
    mine = [np.array([99, 99, 99])] * 2
    # Who carries it out reads its own number.
    mine[0 if kind == "put" else 1] = np.array([99, count, 99])
    received = interpret_plan(plan.text, {"a": data, "n": mine})["a"][1]
    moved = min(max(count - past, 0), 4)
    np.testing.assert_array_equal(received.data[:moved], data[0][:moved])
    assert received.defined[:moved].all()
    assert not received.defined[moved:4].any()


def test_builder_names_what_is_wrong_with_a_count():
    plan, a, n = counted_plan()
    ranks = {"src_rank": 0, "dst_rank": 1}
    with pytest.raises(PlanError, match=r"rows: expects an element of a buffer .* got sizes \[2\]"):
        plan.put(a[0:4], a[0:4], **ranks, rows=n[0:2])
    with pytest.raises(PlanError, match="past: expects rows to be given too, but got 3 alone"):
        plan.put(a[0:4], a[0:4], **ranks, past=3)
    with pytest.raises(PlanError, match="to be read from a buffer of i32 of one known dimension"):
        words = plan.buffer("words", (3,), "i64")
        plan.put(a[0:4], a[0:4], **ranks, rows=words[0])


def test_shape_names_what_is_wrong():
    with pytest.raises(PlanError, match="experts: expects a multiple of the 2 ranks, but got 5"):
        RoutingShape(2, 8, 1, 5)
    with pytest.raises(PlanError, match="tokens: expects a positive integer, but got 0"):
        RoutingShape(2, 0, 1, 4)
    with pytest.raises(PlanError, match=r"expects fewer than 2\^31 rows in all"):
        RoutingShape(2, 2**28, 4, 4)
    plan = syncopate.Plan("p", [3])
    for template in (dispatch_tokens, combine_tokens):
        with pytest.raises(PlanError, match="shape: expects the 3 ranks of plan p, but got 2"):
            template(plan, RoutingShape(2, 8, 1, 4), 16, "bf16")
    with pytest.raises(
        SyncopateError, match="expects block_m 128, that of the routing, but got 64"
    ):
        moe_program(RoutingShape(2, 8, 1, 4), block_m=64)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_no_routing_needs_more_blocks_than_the_shape_has(shape):
    # The most blocks come of experts with one row more than fills some, if there are rows for that.
    rows, most = shape.rows * shape.top_k, 0
    for experts in range(1, min(shape.experts_per_rank, rows) + 1):
        most = max(most, experts + (rows - experts) // shape.block_m)
    assert most == shape.blocks


@pytest.mark.parametrize("target", ["sm_90", "sm_100"])
@pytest.mark.parametrize("realization", REALIZATIONS)
def test_dispatch_compiles(target, realization):
    program = moe_program(SHAPES[0], target=target, realization=realization)
    assert program.image.cubin
    assert {row["count_index"] for row in program.rank_tables(1)["commands"].rows()} == {0}
    words = program.explain()
    assert "the first tokens_words[0] rows, to rank 1" in words
    assert "wait for the first tokens_words[2 + c0] of the transfers" in words


def test_copy_engine_is_refused():
    with pytest.raises(PlanError, match="its number of rows is read there, but got copy_engine"):
        moe_program(SHAPES[0], realization="copy_engine")


def test_loop_that_ends_early_is_refused_where_tiles_do_not_count_what_they_need():
    plan = syncopate.Plan("moe", [2])
    dispatch = dispatch_tokens(plan, SHAPES[0], 64, "bf16")
    config = GemmConfig(block_m=SHAPES[0].block_m, block_n=64, num_warps=4, num_ctas=2)
    arguments = bind_grouped_gemm(dispatch, SHAPES[0], 64, config)
    with pytest.raises(PlanError, match="expects the loop over tiles to end at"):
        syncopate.compile(grouped_gemm, plan, **{**arguments, "needs": None})
    other = dispatch_tokens(syncopate.Plan("other", [2]), SHAPES[0], 64, "bf16")
    with pytest.raises(SyncopateError, match="needs: expects a part of a buffer of the plan"):
        syncopate.compile(grouped_gemm, plan, **{**arguments, "needs": other.needs})


def test_plan_with_counts_is_not_probed():
    program = moe_program(SHAPES[0])
    with pytest.raises(SyncopateError, match="is read at run time, and only the plan's own kernel"):
        check_plan(program.ir["lowered"], seeds=1)


def link(program, rank=0):
    addresses = resolve(plan_memory(program), [1 << 20, 1 << 30])
    upload = link_rank(program, rank, addresses, RankAddresses(64, 0, 1 << 12))
    return upload, addresses


def test_counts_are_linked_to_the_rank_s_own_words():
    program = moe_program(SHAPES[0])
    for rank in range(2):
        upload, addresses = link(program, rank)
        words = addresses.buffers[rank][2]
        context = upload[: 8 * len(ContextWord)].view(np.int64)
        assert context[ContextWord.NEEDS] == words + 8
        at = layout_tables(program.rank_tables(rank), program.num_ctas).commands
        command = upload[at : at + 8 * len(CommandField)].view(np.int64)
        assert command[CommandField.COUNT] == words
        assert command[CommandField.COUNT_PAST] == 0


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("commands", "count_buffer", 3),
        ("commands", "count_index", -1),
        ("commands", "count_index", 10**6),
        ("calls", "needs_buffer", -2),
        ("calls", "needs_index", 10**6),
    ],
)
def test_words_outside_their_buffer_are_refused(table, column, value):
    program = moe_program(SHAPES[0])
    tables = dict(program.rank_tables(0))
    values = tables[table].values.copy()
    values[0, tables[table].columns.index(column)] = value
    tables[table] = Table(tables[table].columns, values)
    broken = dataclasses.replace(program, tables=(tables, *program.tables[1:]))
    with pytest.raises(InternalError, match=f"table {table}, row 0: expects .* to be a word of a"):
        link(broken)


def test_example_checks_itself_without_a_gpu(monkeypatch, capsys):
    pytest.importorskip("torch")
    monkeypatch.setattr("sys.argv", ["moe.py"])
    example = Path(__file__).parents[2] / "examples" / "moe.py"
    runpy.run_path(str(example), run_name="example")["main"]()
    said = capsys.readouterr().out
    assert said.count("simulated: sound\n") == 2
    assert len(re.findall(r"relative error against torch: [1-9]\.\de-03\n", said)) == 2
