"""Layouts of DTensor, GSPMD and Alpa, and the plans from one to another."""

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings, strategies

import syncopate
from syncopate.errors import PlanError
from syncopate.importers import Source, alpa_layout, dtensor_layout, gspmd_layout, reshard
from syncopate.importers.layouts.layout import Box
from syncopate.ir import new_context, parse, run_pipeline
from syncopate.kernels import GemmConfig, bind_gemm, gemm
from syncopate.plan.interpreter import interpret_plan
from syncopate.sim.simulate import simulate

TINY = GemmConfig(block_m=32, block_n=32, block_k=32, num_warps=4, num_ctas=2)
CHECKS = "chunk.plan(chunk-decompose-collectives,chunk-split-transfers,chunk-check-plan,chunk-check-claims)"


def slices(box):
    return tuple(slice(a, a + n) for a, n in zip(box.offsets, box.sizes, strict=True))


def draw_values(layout, whole, generator):
    """What ranks hold: their boxes of a tensor, or numbers that sum to it."""
    held = [whole[slices(box)] for box in layout.boxes]
    for group in layout.parts:
        total = held[group[0]]
        parts = [generator.integers(-99, 99, total.shape) for _ in group[1:]]
        for rank, part in zip(group, [*parts, total - sum(parts)], strict=True):
            held[rank] = part
    return held


def check(src, dst, shape, source=Source.INPUTS):
    """The plan brings every rank its box, whatever it moves for that, and passes all checks."""
    generator = np.random.default_rng()
    whole = generator.integers(-1000, 1000, shape)
    imported = reshard(src, dst, "i64", source=source)
    plan = imported.plan.text
    run_pipeline(parse(plan, new_context()), CHECKS)
    shared = imported.given is imported.result
    buffer = np.zeros(imported.given.shape, np.int64)
    given_values = []
    for rank, value in enumerate(draw_values(src, whole, generator)):
        # An input of one region is given as that region; one that is empty is not given at all.
        assert value.shape == src.boxes[rank].sizes
        given_values.append(value if value.size else buffer[:0])
    memory = interpret_plan(plan, {imported.given.name: given_values})
    for rank, box in enumerate(dst.boxes):
        if box.is_empty:
            continue
        at = (0,) * len(shape)
        if shared or src.parts:
            outer = src.boxes[rank] if not box.without(src.boxes[rank]) else box
            at = tuple(a - b for a, b in zip(box.offsets, outer.offsets, strict=True))
        place = slices(Box(at, box.sizes))
        found = memory[imported.result.name][rank]
        assert found.defined[place].all()
        np.testing.assert_array_equal(found.data[place], whole[slices(box)])
    return plan


def operations(plan):
    """What moves something in a plan."""
    named = set(re.findall(r"chunk\.(\w+) ", plan))
    return named - {"plan", "buffer", "input", "produce", "output"}


@pytest.mark.parametrize(
    ("mesh", "src", "dst", "expected"),
    [
        ([4], ["S(0)"], ["R"], {"all_gather"}),
        ([4], ["S(1)"], ["R"], {"all_gather"}),
        ([4], ["P(sum)"], ["R"], {"all_reduce"}),
        ([4], ["P(sum)"], ["S(0)"], {"reduce_scatter"}),
        ([4], ["P(sum)"], ["S(1)"], {"reduce_scatter"}),
        ([4], ["S(0)"], ["S(1)"], {"put"}),
        ([4], ["R"], ["S(0)"], set()),
        ([4], ["S(0)"], ["S(0)"], set()),
        ([2, 2], ["S(0)", "S(1)"], ["S(0)", "R"], {"all_gather"}),
        ([2, 2], ["S(0)", "S(1)"], ["R", "S(1)"], {"all_gather"}),
        ([2, 2], ["S(0)", "R"], ["R", "R"], {"all_gather"}),
        ([2, 2], ["S(0)", "S(0)"], ["R", "R"], {"all_gather"}),
        ([2, 2], ["S(0)", "P(sum)"], ["S(0)", "R"], {"all_reduce"}),
        ([2, 2], ["P(sum)", "S(1)"], ["S(0)", "S(1)"], {"reduce_scatter"}),
        ([2, 2], ["P(sum)", "P(sum)"], ["R", "R"], {"all_reduce"}),
        ([2, 2], ["S(0)", "S(1)"], ["R", "R"], {"put"}),
        ([2, 2], ["S(0)", "S(1)"], ["S(1)", "S(0)"], {"put"}),
    ],
)
@pytest.mark.parametrize("shape", [(8, 12), (7, 5), (3, 9)])
def test_placements_give_the_collective_between_them(mesh, src, dst, expected, shape):
    layouts = [dtensor_layout(mesh, placements, shape) for placements in (src, dst)]
    if layouts[0].parts and len({box.sizes for box in layouts[0].boxes}) > 1:
        with pytest.raises(PlanError, match="src: expects parts of one size on all ranks"):
            reshard(*layouts, "f32")
        return
    plan = check(*layouts, shape)
    copied = {"put"} if expected & {"all_reduce", "reduce_scatter"} else set()
    if shape == (8, 12):
        assert operations(plan) == expected | copied


PLACEMENTS = strategies.sampled_from(["R", "S(0)", "S(1)", "S(2)"])


@settings(max_examples=60, deadline=None, database=None)
@given(
    strategies.lists(strategies.integers(1, 3), min_size=1, max_size=3),
    strategies.data(),
    strategies.tuples(*[strategies.integers(1, 7)] * 3),
    strategies.sampled_from(Source),
)
def test_any_layout_comes_from_any_other(mesh, data, shape, source):
    layouts = [
        dtensor_layout(mesh, data.draw(strategies.tuples(*[PLACEMENTS] * len(mesh))), shape)
        for _ in range(2)
    ]
    check(*layouts, shape, source)


@settings(max_examples=40, deadline=None, database=None)
@given(
    strategies.lists(strategies.integers(1, 4), min_size=1, max_size=3),
    strategies.data(),
    strategies.tuples(*[strategies.integers(1, 12)] * 3),
)
def test_boxes_are_those_of_torch(mesh, data, shape):
    utils = pytest.importorskip("torch.distributed.tensor._utils")
    torch = pytest.importorskip("torch.distributed.tensor")
    drawn = data.draw(strategies.tuples(*[strategies.sampled_from([-1, 0, 1, 2])] * len(mesh)))
    placements = [torch.Replicate() if dim < 0 else torch.Shard(dim) for dim in drawn]
    layout = dtensor_layout(mesh, placements, shape)
    for rank, box in enumerate(layout.boxes):
        sizes, offsets = utils._compute_local_shape_and_global_offset(
            shape, mesh, list(map(int, np.unravel_index(rank, mesh))), placements
        )
        assert box.sizes == tuple(sizes)
        if 0 not in sizes:
            assert box.offsets == tuple(offsets)


@pytest.mark.parametrize(
    ("text", "mesh", "placements"),
    [
        ("{replicated}", [4], ["R"]),
        ("{devices=[4,1]0,1,2,3}", [4], ["S(0)"]),
        ("{devices=[4,1]<=[4]}", [4], ["S(0)"]),
        ("{devices=[1,4]<=[4]}", [4], ["S(1)"]),
        ("{devices=[2,2]<=[4]}", [2, 2], ["S(0)", "S(1)"]),
        ("{devices=[2,2]<=[2,2]T(1,0)}", [2, 2], ["S(1)", "S(0)"]),
        ("{devices=[2,2]0,2,1,3}", [2, 2], ["S(1)", "S(0)"]),
        ("{devices=[2,1,2]<=[4] last_tile_dim_replicate}", [2, 2], ["S(0)", "R"]),
        ("{devices=[1,2,2]0,2,1,3 last_tile_dim_replicate}", [2, 2], ["R", "S(1)"]),
        ("{devices=[2,1,2]<=[4] last_tile_dims={replicated}}", [2, 2], ["S(0)", "R"]),
        ('{devices=[4,1]0,1,2,3 metadata={op_name="f(x)"}}', [4], ["S(0)"]),
        ('{replicated metadata={op_name="f"}}', [4], ["R"]),
        ("{devices=[2,1,2]<=[4] last_tile_dims={unreduced}}", [2, 2], ["S(0)", "P(sum)"]),
    ],
)
def test_gspmd_and_dtensor_say_the_same(text, mesh, placements):
    """Of a tensor whose sizes divide; else XLA cuts once, and torch once for each dimension of the mesh."""
    found, expected = gspmd_layout(text, (8, 12), 4), dtensor_layout(mesh, placements, (8, 12))
    assert (found.boxes, found.parts) == (expected.boxes, expected.parts)


@pytest.mark.parametrize(
    ("spec", "placements"),
    [
        ("RR", ["R", "R"]),
        ("S0R", ["S(0)", "R"]),
        ("RS0", ["S(1)", "R"]),
        ("S1R", ["R", "S(0)"]),
        ("S0S1", ["S(0)", "S(1)"]),
        ("S1S0", ["S(1)", "S(0)"]),
        ("S01R", ["S(0)", "S(0)"]),
        ("RS01", ["S(1)", "S(1)"]),
    ],
)
def test_alpa_and_dtensor_say_the_same(spec, placements):
    assert (
        alpa_layout([2, 3], spec, (12, 18)).boxes
        == dtensor_layout([2, 3], placements, (12, 18)).boxes
    )


def test_alpa_counts_devices_in_the_order_of_the_spec():
    boxes = alpa_layout([2, 3], "S10R", (12, 4)).boxes
    # Device (1, 2) of the mesh is the last one of both; (1, 0) the second half of the first third.
    assert [box.offsets[0] for box in boxes] == [0, 4, 8, 2, 6, 10]


@pytest.mark.parametrize("order", ["S01R", "S10R"])
def test_plan_between_specs_of_alpa(order):
    shape = (12, 8)
    plan = check(alpa_layout([2, 2], order, shape), alpa_layout([2, 2], "RS0", shape), shape)
    assert operations(plan) == {"put"}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: dtensor_layout([2], ["S(0)", "R"], (4,)), r"placements: expects 1, one for each"),
        (
            lambda: dtensor_layout([2], ["X"], (4,)),
            r"expects S\(dimension\), R or P\(reduction\).*'X'",
        ),
        (lambda: dtensor_layout([2], ["S(1)"], (4,)), r"expects dimensions in \[0, 1\), but got 1"),
        (lambda: dtensor_layout([2], ["P(avg)"], (4,)), "expects parts of one sum, max or min"),
        (lambda: dtensor_layout([2, 2], ["P(sum)", "P(max)"], (4,)), "expects parts of one sum"),
        (lambda: dtensor_layout([0], ["R"], (4,)), "mesh: expects 1 to 4096 ranks"),
        (lambda: dtensor_layout([2], ["R"], (0,)), "shape: expects positive sizes"),
        (lambda: gspmd_layout("{maximal device=1}", (4,), 2), "sharding: expects {replicated} or"),
        (lambda: gspmd_layout("{devices=[2]0,1", (4,), 3), "expects each of 3 devices once"),
        (
            lambda: gspmd_layout("{devices=[2,1]0,1}", (4,), 2),
            "expects 1 dimensions of tiles, but got 2",
        ),
        (lambda: gspmd_layout("{devices=[2]0,0}", (4,), 2), "expects each of 2 devices once"),
        (
            lambda: gspmd_layout("{devices=[2]<=[2]T(1)}", (4,), 2),
            "expects T to name each dimension",
        ),
        (lambda: gspmd_layout("{devices=[2],0}", (4,), 2), "sharding: expects"),
        (
            lambda: gspmd_layout("{devices=[2,2]<=[4] last_tile_dims={manual}}", (4,), 4),
            "but got manual",
        ),
        (
            lambda: gspmd_layout("{devices=[2,]<=[2]}", (4,), 2),
            "expects numbers with commas between",
        ),
        (
            lambda: alpa_layout([2, 2], "S0", (4, 4)),
            "spec: expects R or S .* for each of 2 dimensions",
        ),
        (
            lambda: alpa_layout([2, 2], "S0S0", (4, 4)),
            "expects each of 2 dimensions of the mesh at most once",
        ),
        (
            lambda: alpa_layout([2, 2], "S2R", (4, 4)),
            "expects each of 2 dimensions of the mesh at most once",
        ),
        (lambda: alpa_layout([2, 2], "X0R", (4, 4)), "spec: expects R or S"),
        (
            lambda: reshard(
                dtensor_layout([2], ["R"], (4,)), dtensor_layout([3], ["R"], (4,)), "f32"
            ),
            "dst: expects a layout of 2 ranks",
        ),
        (
            lambda: reshard(
                dtensor_layout([2], ["R"], (4,)), dtensor_layout([2], ["P(sum)"], (4,)), "f32"
            ),
            "dst: expects values that are whole",
        ),
        (
            lambda: reshard(
                dtensor_layout([2, 2], ["S(0)", "P(sum)"], (4, 4)),
                dtensor_layout([2, 2], ["R", "R"], (4, 4)),
                "f32",
            ),
            "expects parts of a sum to become its blocks",
        ),
    ],
)
def test_what_is_no_layout_is_refused(make, said):
    with pytest.raises(PlanError, match=said):
        make()


def test_gemm_of_a_layout_that_its_consumer_does_not_have():
    """Rows of C are to be whole sums: the GEMM's K is cut among the ranks."""
    m, n, k, world = 64, 48, 32, 2
    src = dtensor_layout([world], ["P(sum)"], (m, n))
    imported = reshard(src, dtensor_layout([world], ["S(0)"], (m, n)), "f32", source=Source.TILES)
    a = syncopate.Tensor("a", (m, k), "f32")
    program = syncopate.compile(gemm, imported.plan, **bind_gemm(a, n, TINY, c=imported.given))
    result = simulate(program, calls=2, seed=2)
    assert result.verdict.ok, result.verdict
    for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
        whole = sum(
            x.astype(np.float32) @ y.astype(np.float32).T
            for x, y in zip(inputs["a"], inputs["b"], strict=True)
        )
        for rank in range(world):
            block = whole[rank * m // world : (rank + 1) * m // world]
            assert np.abs(outputs["data"][rank] - block).max() < 5e-3 * np.abs(whole).max()
    assert math.isfinite(np.abs(whole).max())
