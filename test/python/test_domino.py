"""Domino's splits: all-reduces of pieces, by rows and by columns."""

import re

import numpy as np
import pytest

import syncopate
from syncopate.errors import PlanError
from syncopate.importers import split_all_reduce
from syncopate.ir import new_context, parse, run_pipeline
from syncopate.kernels import GemmConfig, bind_gemm, gemm
from syncopate.plan.interpreter import interpret_plan
from syncopate.sim.simulate import simulate

TINY = GemmConfig(block_m=32, block_n=32, block_k=32, num_warps=4, num_ctas=2)


def build(world, shape, **splits):
    plan = syncopate.Plan("domino", mesh=[world])
    c = plan.buffer("c", shape, "f32")
    return plan, c, split_all_reduce(plan, c, **splits)


@pytest.mark.parametrize("world", [2, 3, 5])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (2, 1), (1, 3), (3, 2)])
def test_pieces_together_are_the_sum(world, rows, columns):
    shape = (31, 10)
    plan, _, tokens = build(world, shape, row_splits=rows, column_splits=columns)
    assert len(tokens) == rows * columns
    passes = "chunk.plan(chunk-split-transfers{splits=2},chunk-check-plan,chunk-check-claims)"
    run_pipeline(parse(plan.text, new_context()), passes)
    parts = np.random.default_rng().integers(-99, 99, (world, *shape))
    for contents in interpret_plan(plan.text, {"c": list(parts)})["c"]:
        np.testing.assert_array_equal(contents.data, parts.sum(0))


def test_transfers_name_the_line_that_asked_for_them():
    plan, _, _ = build(2, (8, 4))
    places = re.findall(r'"([^"]+)":(\d+)', plan.text_with_locations)
    assert {file for file, _ in places} == {__file__}


@pytest.mark.parametrize("columns", [1, 2])
def test_gemm_with_the_pieces_behind_it(columns):
    m, n, k, world = 128, 64, 32, 2
    plan, c, _ = build(world, (m, n), row_splits=2, column_splits=columns)
    a = syncopate.Tensor("a", (m, k), "f32")
    program = syncopate.compile(gemm, plan, **bind_gemm(a, n, TINY, c=c))
    # A piece goes when its tiles are done: transfers wait for groups of tiles, not for all.
    result = simulate(program, calls=2, seed=1)
    assert result.verdict.ok, result.verdict
    for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
        whole = sum(
            x.astype(np.float32) @ y.astype(np.float32).T
            for x, y in zip(inputs["a"], inputs["b"], strict=True)
        )
        for found in outputs["c"]:
            assert np.abs(found - whole).max() < 5e-3 * np.abs(whole).max()


@pytest.mark.parametrize(
    ("shape", "splits", "said"),
    [
        ((8,), {}, "buffer c: expects 2 dimensions, but got 1"),
        ((8, 4), {"row_splits": 5}, r"row_splits: expects a number in \[1, 4\], but got 5"),
        ((8, 4), {"row_splits": 0}, r"row_splits: expects a number in \[1, 4\], but got 0"),
        ((8, 4), {"column_splits": 5}, r"column_splits: expects a number in \[1, 4\], but got 5"),
        ((8, 4), {"column_splits": "2"}, r"column_splits: expects a number .* but got '2'"),
    ],
)
def test_what_cannot_be_split_is_refused(shape, splits, said):
    with pytest.raises(PlanError, match=said):
        build(2, shape, **splits)
