"""Imports of files that are right: proved, lowered, simulated, fused with a GEMM, and exported again."""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from import_files import (
    FILES,
    msccl_exchange,
    msccl_ring_all_gather,
    msccl_ring_all_reduce,
    msccl_ring_reduce_scatter,
    mscclpp_broadcast,
)
from import_programs import all_gemms, expect_collective

import syncopate
from syncopate.errors import PlanError, SyncopateError
from syncopate.importers import (
    Source,
    emit_plan,
    export_plan,
    prove,
    read_exchanges,
    read_steps,
)
from syncopate.importers.steps.collective_steps import Collective, Memory
from syncopate.importers.steps.read_plan import read_plan
from syncopate.ir import new_context, parse, run_pipeline
from syncopate.plan.interpreter import interpret_plan
from syncopate.sim.check import check_plan
from syncopate.sim.simulate import simulate

CLAIMED = {
    name
    for name in FILES
    if name not in ("msccl_pairs_all_reduce", "mscclpp_reading_reduce_scatter")
}
"""Those for which there is an operation of plans: in place, or an all-to-all between two buffers."""


def read(name, ranks):
    form, _, write = FILES[name]
    return read_steps(write(ranks), form, f"{name}.txt")


def rows_of(steps, rows):
    return rows * steps.chunks * (1 if steps.collective is Collective.ALL_REDUCE else steps.ranks)


@pytest.mark.parametrize("ranks", [2, 3, 5])
@pytest.mark.parametrize("name", FILES)
def test_file_is_proved_and_simulated(name, ranks):
    steps = read(name, ranks)
    assert steps.collective.value == FILES[name][1]
    imported = emit_plan(steps, (rows_of(steps, 2), 16), "f32", kernel=True)
    text = imported.plan.text_with_locations
    assert ("chunk.claim" in text) == (name in CLAIMED)
    report = check_plan(text, seeds=2, calls=2)
    assert report.ok, report


@pytest.mark.parametrize("name", FILES)
def test_what_tiles_compute_can_be_the_beginning(name):
    steps = read(name, 4)
    imported = emit_plan(steps, (rows_of(steps, 2), 16), "f32", source=Source.TILES, kernel=True)
    module = parse(imported.plan.text, new_context())
    run_pipeline(module, "syncopate-plan-pipeline{splits=2}")
    assert "chunk.schedule" in str(module)


@pytest.mark.parametrize("rows", [12, 13, 17, 30])
@pytest.mark.parametrize("name", FILES)
def test_plan_brings_what_the_collective_says(name, rows):
    """Also where rows do not divide: the last cells are shorter, or empty."""
    ranks = 4
    steps = read(name, ranks)
    imported = emit_plan(steps, (rows, 3), "i64")
    generator = np.random.default_rng()
    whole = generator.integers(-1000, 1000, (ranks, rows, 3))
    block = -(-rows // ranks)
    given = list(whole)
    if steps.collective is Collective.ALL_GATHER:
        given = [whole[rank][rank * block : (rank + 1) * block] for rank in range(ranks)]
    memory = interpret_plan(imported.plan.text, {imported.given.name: given})
    for rank, expected in enumerate(expect_collective(steps.collective, given)):
        found = memory[imported.result.name][rank]
        own = slice(0, len(expected))
        if steps.in_place and steps.collective is Collective.REDUCE_SCATTER:
            own = slice(rank * block, rank * block + len(expected))
        if steps.collective is not Collective.ALL_TO_ALL:
            assert found.defined[own].all()
        np.testing.assert_array_equal(np.where(found.defined[own], found.data[own], 0), expected)


@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("name", sorted(CLAIMED))
def test_compiler_proves_the_claim(name, splits):
    steps = read(name, 4)
    # 13 rows for 4 ranks: the last block is shorter.
    imported = emit_plan(steps, (13, 8), "f32")
    module = parse(imported.plan.text, new_context())
    passes = [
        "chunk-expand-spmd",
        "chunk-decompose-collectives",
        f"chunk-split-transfers{{splits={splits}}}",
    ]
    run_pipeline(
        module, f"chunk.plan({','.join([*passes, 'chunk-check-plan', 'chunk-check-claims'])})"
    )


def test_exchange_goes_through_a_fifo():
    """Both of a pair send what they then add to, so what one of them sends has to wait elsewhere."""
    steps = read_steps(msccl_exchange(4), "msccl-xml")
    assert 0 < steps.scratch[Memory.FIFO] <= 2
    imported = emit_plan(steps, (8, 16), "f32", kernel=True)
    report = check_plan(imported.plan.text, seeds=2, calls=2)
    assert report.ok, report


def test_ring_needs_no_fifo():
    for write in (msccl_ring_all_gather, msccl_ring_all_reduce, msccl_ring_reduce_scatter):
        assert Memory.FIFO not in read_steps(write(6), "msccl-xml").scratch


def moves_of(steps):
    return Counter((move.src, move.dst, move.reduces) for move in steps.moves)


@pytest.mark.parametrize("source", Source)
@pytest.mark.parametrize("form", ["msccl-xml", "mscclpp-json"])
@pytest.mark.parametrize("name", FILES)
def test_export_and_import_are_the_same_moves(name, form, source):
    steps = read(name, 4)
    imported = emit_plan(steps, (rows_of(steps, 2), 16), "f32", source=source)
    said = {} if name in CLAIMED else {"collective": steps.collective.value}
    text = export_plan(imported.plan, form, **said)
    again = read_steps(text, form)
    prove(again)
    assert again.collective is steps.collective
    exported = read_plan(imported.plan.text, collective=steps.collective)
    assert moves_of(again) == moves_of(exported)
    # A file that is in scratch, or in a FIFO, is the same but for where that is.
    if set(steps.scratch) == set():
        scale = steps.chunks // again.chunks
        assert len(again.moves) * scale >= len(steps.moves)


@pytest.mark.parametrize("form", ["msccl-xml", "mscclpp-json"])
@pytest.mark.parametrize(
    "algorithm", ["direct", "ring", "bidirectional_ring", "recursive_doubling"]
)
@pytest.mark.parametrize("direction", ["push", "pull"])
def test_collectives_of_plans_are_exported(form, algorithm, direction):
    plan = syncopate.Plan("gather", mesh=[4])
    a = plan.buffer("a", (32, 8), "f32", shard_axis=0)
    plan.all_gather(a, algorithm=algorithm, direction=direction)
    steps = read_steps(export_plan(plan, form), form)
    prove(steps)
    assert steps.collective is Collective.ALL_GATHER
    assert moves_of(steps) == moves_of(read_plan(plan.text))


@pytest.mark.parametrize("form", ["msccl-xml", "mscclpp-json"])
@pytest.mark.parametrize("algorithm", ["direct", "ring", "recursive_doubling"])
@pytest.mark.parametrize("reduction", ["sum", "max"])
def test_reductions_of_plans_are_exported(form, algorithm, reduction):
    plan = syncopate.Plan("reduce", mesh=[4])
    c = plan.buffer("c", (32, 8), "f32")
    made = [plan.produce(c[:], rank=rank) for rank in range(4)]
    plan.all_reduce(c, reduction=reduction, after=made, algorithm=algorithm)
    steps = read_steps(export_plan(plan, form), form)
    prove(steps)
    assert steps.reduction == reduction
    assert moves_of(steps) == moves_of(read_plan(plan.text))


@pytest.mark.parametrize("case", all_gemms(3), ids=lambda case: f"{case.name}-{case.source.value}")
def test_gemm_is_fused_with_an_imported_file(case):
    program, imported = case.build()
    result = simulate(program, calls=2, seed=1)
    assert result.verdict.ok, result.verdict
    for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
        given, weights = inputs[case.given_name(imported)], inputs["b"]
        expected = case.expect(
            [a.astype(np.float32) for a in given], [b.astype(np.float32) for b in weights]
        )
        (found,) = outputs.values()
        for rank, right in enumerate(expected):
            assert np.abs(found[rank] - right).max() < 1e-2 * np.abs(right).max()


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("root", [0, 2])
def test_broadcast_of_mscclpp_begins_where_it_can(root, in_place):
    """Such a file names no root: the rank from which its steps reach all is the one."""
    steps = read_steps(mscclpp_broadcast(3, root, in_place=in_place), "mscclpp-json")
    assert (steps.collective, steps.root, steps.chunks) == (Collective.BROADCAST, root, 2)
    plan = emit_plan(steps, (5, 4), "i64").plan
    assert ("chunk.broadcast" in plan.text) == in_place
    whole = np.random.default_rng().integers(-99, 99, (5, 4))
    given = [whole if rank == root else whole[:0] for rank in range(3)]
    memory = interpret_plan(plan.text, {"data" if in_place else "input": given})
    for found in memory["data" if in_place else "output"]:
        np.testing.assert_array_equal(found.data, whole)


def test_broadcast_that_does_not_bring_all_is_refused():
    steps = read_steps(mscclpp_broadcast(2, 1).replace('"index": 1', '"index": 0'), "mscclpp-json")
    with pytest.raises(
        PlanError, match=r"written is no broadcast: in the end, data\[1\] of rank 0"
    ):
        emit_plan(steps, (4, 4), "f32")


def test_errors_of_the_plan_point_into_the_file():
    steps = read_steps(msccl_ring_all_gather(2), "msccl-xml", "ring.xml")
    with pytest.raises(PlanError, match=r"shape: expects positive sizes, but got \[0, 8\]"):
        emit_plan(steps, (0, 8), "f32")
    text = emit_plan(steps, (4, 8), "f32").plan.text_with_locations
    # Where rank 1 receives.
    assert '"ring.xml":11:1' in text
    broken = text.replace(
        "to %0[2, 0] sizes [2, 8] from 1 to 0", "to %0[0, 0] sizes [2, 8] from 1 to 0"
    )
    assert broken != text
    module = parse(broken, new_context())
    with pytest.raises(PlanError, match=r"ring\.xml:\d: "):
        run_pipeline(module, "chunk.plan(chunk-check-plan,chunk-check-claims)")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda plan, a: None, "expects a plan with one collective, or one chunk.claim, but got 0"),
        (
            lambda plan, a: plan.broadcast(a, root=0),
            "expects no chunk.broadcast, which MSCCL's XML has not",
        ),
        (
            lambda plan, a: plan.all_gather(a, group=[1, 0]),
            "expects a collective of all ranks, in their order",
        ),
        (lambda plan, a: plan.all_gather(a, axis=1), "expects a collective along axis 0"),
        (
            lambda plan, a: plan.all_to_all(
                a, plan.buffer("b", (2, 8), "f32"), rows=[[1, 0], [0, 7]]
            ),
            "expects an all_to_all of blocks",
        ),
    ],
)
def test_what_formats_cannot_say_is_refused(change, said):
    plan = syncopate.Plan("p", mesh=[2])
    a = plan.buffer("a", (8, 8), "f32")
    for rank in range(2):
        plan.input(a[:], rank=rank)
    change(plan, a)
    with pytest.raises(PlanError, match=r"test_importers\.py:\d+: .*" + said.replace(".", r"\.")):
        export_plan(plan, "msccl-xml")


def test_export_refuses_transfers_of_columns_and_others():
    def start():
        plan = syncopate.Plan("p", mesh=[2])
        a = plan.buffer("a", (8, 8), "f32", shard_axis=0)
        return plan, a

    plan, a = start()
    halves = [
        plan.put(
            a[4 * r : 4 * r + 4, c : c + 4],
            a[4 * r : 4 * r + 4, c : c + 4],
            src_rank=r,
            dst_rank=1 - r,
        )
        for r in range(2)
        for c in (0, 4)
    ]
    with plan.claim(after=halves):
        plan.all_gather(a)
    with pytest.raises(PlanError, match="expects transfers of whole rows, but got offsets"):
        export_plan(plan, "mscclpp-json")
    plan, a = start()
    other = plan.buffer("other", (8, 8), "f32")
    plan.all_gather(a)
    plan.put(a[0:4], other[0:4], src_rank=0, dst_rank=1)
    with pytest.raises(PlanError, match="expects transfers that the claim comes after"):
        export_plan(plan, "mscclpp-json")
    with pytest.raises(SyncopateError, match="format: expects one that can be written, msccl-xml"):
        export_plan(plan, "taccl-json")
    with pytest.raises(SyncopateError, match="format: expects one of msccl-xml"):
        read_steps("", "xml")


def test_what_a_plan_is_said_to_be_is_proved():
    steps = read("msccl_pairs_all_reduce", 3)
    plan = emit_plan(steps, (6, 4), "f32").plan
    with pytest.raises(PlanError, match=r"expects a plan with one collective, or one chunk\.claim"):
        export_plan(plan, "msccl-xml")
    with pytest.raises(
        PlanError, match="expects input and output to have 2 and 6 rows, as an all_gather"
    ):
        export_plan(plan, "msccl-xml", collective="all_gather")
    with pytest.raises(PlanError, match=r"is no all_to_all: in the end, output.0. of rank 0"):
        export_plan(plan, "msccl-xml", collective="all_to_all")
    with pytest.raises(
        PlanError, match="and a buffer c of what they come to, among input, output, scratch"
    ):
        export_plan(plan, "msccl-xml", collective="all_reduce", result="c")
    with pytest.raises(SyncopateError, match=r"collective: expects one of all_gather, .* 'sum'"):
        export_plan(plan, "msccl-xml", collective="sum")


def test_export_says_where_a_module_is_malformed():
    with pytest.raises(PlanError, match=r"^p\.mlir:1: "):
        export_plan("module {", "msccl-xml", file="p.mlir")


def blocks(language):
    page = (Path(__file__).parents[2] / "docs" / "importers.md").read_text()
    return re.findall(rf"```{language}(?: long| xla)?\n(.*?)```", page, re.DOTALL)


def test_the_file_on_the_page_is_right():
    (text,) = blocks("xml")
    steps = read_steps(text, "msccl-xml")
    prove(steps)
    assert (steps.ranks, len(steps.moves)) == (2, 2)


def test_the_programs_on_the_page_are_right(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("ring.xml").write_text(FILES["msccl_ring_all_gather"][2](2))
    Path("sum.json").write_text(FILES["mscclpp_packets_all_reduce"][2](2))
    fused, beside, layouts, written = blocks("python")
    found = {"syncopate": syncopate}
    # What is compiled there is large; that it is bound is enough.
    monkeypatch.setattr(syncopate, "compile", lambda kernel, plan, **bound: plan, raising=False)
    exec(fused, found)
    assert "chunk.produce" in found["program"].text
    assert found["gathered"].result.shape == (8192, 4096)
    Path("ag_gemm.mlir").write_text(blocks("mlir")[0])
    (scattered,) = read_exchanges(blocks("mlir")[1], "stablehlo")
    assert scattered.gemm.workload.name == "gemm_rs-1024x96x32-bf16-w4-kn"
    exec(beside, found)
    assert found["workload"].name == "ag_gemm-1024x96x128-bf16-w4-kn"
    assert "chunk.all_gather" in found["program"].text
    staged = read_steps(blocks("json")[0], "partitions-json")
    prove(staged)
    assert (staged.ranks, staged.chunks) == (8, 32)
    assert len(read_exchanges(blocks("json")[1], "layouts-json")) == 4
    gathered, summed = read_exchanges(blocks("json")[2], "mercury-json")
    assert (gathered.shape, len(gathered.hops)) == ((8192, 4096), 7)
    assert (summed.shape, len(summed.hops), summed.sums) == ((8192, 3584), 3, True)
    exec(layouts, found)
    assert "chunk.all_gather" in found["imported"].plan.text
    assert found["summed"].plan.text.count("chunk.reduce_scatter") == 2
    exec(written, found)
    assert found["plan"].text.count("chunk.put") == 12
