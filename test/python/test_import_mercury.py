"""Mercury's rings: who sends what to whom, and that all of it is the collective that it is to be."""

import json
import math
import re

import numpy as np
import pytest

import syncopate
from syncopate.importers import Source, read_exchanges
from syncopate.ir import new_context, parse, run_pipeline
from syncopate.kernels import GemmConfig, bind_gemm, gemm
from syncopate.plan.interpreter import interpret_plan
from syncopate.sim.check import check_plan
from syncopate.sim.simulate import simulate

TINY = GemmConfig(block_m=32, block_n=32, block_k=32, num_warps=4, num_ctas=2)
CHECKS = "chunk.plan(chunk-split-transfers,chunk-check-plan,chunk-check-claims)"


def program(mesh, shape, spec, *, dims=(), sums=(), reduces=False, dtype="float32"):
    """A loop with one access, of a buffer that dimensions of the mesh cut, in rings over some of them."""
    rings = [
        {"axis": "S", "num_cards": mesh[dim], "shard_dim": dim, "write_back": reduces}
        for dim in dims
    ]
    access = {"node": "ReduceOp" if reduces else "BufferLoad", "buffer": "X", "comm": rings}
    if reduces:
        access |= {"op": "sum", "shard_dim": list(sums)}
    loop = {"node": "GridLoop", "axes": ["S"], "axis_types": "m", "body": [access]}
    return json.dumps(
        {
            "mesh": mesh,
            "axes": [{"name": "S", "size": 64}],
            "buffers": [{"tensor": "X", "shape": shape, "dtype": dtype, "shard_spec": spec}],
            "body": [loop],
        },
        indent=1,
    )


def read(*arguments, **more):
    (found,) = read_exchanges(program(*arguments, **more), "mercury-json")
    return found


RINGS = {
    "ring": ([4], [3, 5], [[0], "R"], (0,)),
    "ring along columns": ([3], [4, 6], ["R", [0]], (0,)),
    "double ring": ([2, 3], [2, 4], [[0, 1], "R"], (0, 1)),
    "double ring, outside in": ([2, 3], [2, 4], [[0, 1], "R"], (1, 0)),
    "triple ring": ([2, 2, 2], [1, 2, 2], ["R", [2, 0, 1], "R"], (0, 1, 2)),
    "rings of groups": ([2, 3], [2, 4], [[1], [0]], (1,)),
    "rings of copies": ([2, 2], [2, 4], [[1], "R"], (1,)),
}


@pytest.mark.any_triton
@pytest.mark.parametrize("source", Source)
@pytest.mark.parametrize("name", RINGS)
def test_ring_brings_blocks_to_all(name, source):
    mesh, shape, spec, dims = RINGS[name]
    ring = read(mesh, shape, spec, dims=dims)
    text = ring.build(source).plan.text
    run_pipeline(parse(text, new_context()), CHECKS)
    generator = np.random.default_rng()
    blocks = [generator.normal(size=shape).astype(np.float32) for _ in range(math.prod(mesh))]
    axis = next(axis for axis, entry in enumerate(spec) if set(entry) & set(dims))
    imported = ring.build(source)
    memory = interpret_plan(text, {imported.given.name: blocks})
    grid = np.arange(len(blocks)).reshape(mesh)
    for at, rank in np.ndenumerate(grid):
        # Blocks lie in the order in which the buffer is cut, whatever way they come.
        order = [dim for dim in spec[axis] if dim in dims]
        group = []
        for place in np.ndindex(*(mesh[dim] for dim in order)):
            index = list(at)
            for dim, coordinate in zip(order, place, strict=True):
                index[dim] = coordinate
            group.append(grid[tuple(index)])
        found = memory[imported.result.name][rank]
        assert found.defined.all()
        np.testing.assert_array_equal(
            found.data, np.concatenate([blocks[member] for member in group], axis)
        )


@pytest.mark.any_triton
@pytest.mark.parametrize("source", Source)
@pytest.mark.parametrize("name", RINGS)
def test_ring_that_comes_home_brings_sums(name, source):
    mesh, shape, spec, dims = RINGS[name]
    ring = read(mesh, shape, spec, dims=dims, reduces=True)
    imported = ring.build(source)
    run_pipeline(parse(imported.plan.text, new_context()), CHECKS)
    ranks = math.prod(mesh)
    generator = np.random.default_rng()
    parts = [generator.integers(-99, 99, ring.shape).astype(np.float32) for _ in range(ranks)]
    memory = interpret_plan(imported.plan.text, {imported.given.name: parts})
    for group in ring.groups:
        wanted = np.split(sum(parts[rank] for rank in group), len(group), ring.axis)
        for block, rank in zip(wanted, group, strict=True):
            found = memory[imported.result.name][rank].data
            if found.shape != block.shape:
                found = np.split(found, len(group), ring.axis)[group.index(rank)]
            np.testing.assert_array_equal(found, block)


@pytest.mark.any_triton
def test_double_ring_goes_round_inside_before_it_goes_on_outside():
    ring = read([2, 3], [2, 4], [[0, 1], "R"], dims=(0, 1))
    assert [dict(hop)[0] for hop in ring.hops] == [1, 1, 3, 1, 1]
    puts = re.findall(r"from (\d) to (\d)", ring.build().plan.text)
    assert len(puts) == 6 * 5
    assert sum(abs(int(src) - int(dst)) == 3 for src, dst in puts) == 6


@pytest.mark.any_triton
@pytest.mark.parametrize(("sums", "groups"), [((0, 1), 1), ((0,), 3), ((1,), 2)])
def test_sum_over_dimensions_of_the_mesh_is_an_all_reduce(sums, groups):
    exchange = read([2, 3], [4, 5], ["R", "R"], sums=sums, reduces=True)
    assert len(exchange.src.parts) == groups
    imported = exchange.build(Source.TILES)
    assert imported.plan.text.count("chunk.all_reduce") == groups


@pytest.mark.any_triton
@pytest.mark.parametrize("reduces", [False, True])
def test_kernel_without_code_can_be_checked(reduces):
    ring = read([2, 2], [2, 4], [[0, 1], "R"], dims=(0, 1), reduces=reduces)
    report = check_plan(ring.build(Source.INPUTS, kernel=True).plan.text, seeds=1, calls=2)
    assert report.ok, report


def test_double_ring_before_a_gemm():
    ring = read([2, 2], [16, 64], [[0, 1], "R"], dims=(0, 1), dtype="bfloat16")
    imported = ring.build()
    compiled = syncopate.compile(gemm, imported.plan, **bind_gemm(imported.result, 64, TINY))
    result = simulate(compiled, calls=2, seed=4)
    assert result.verdict.ok, result.verdict
    for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
        a, b = ([part.astype(np.float32) for part in inputs[name]] for name in ("data", "b"))
        for rank, c in enumerate(outputs["c"]):
            wanted = np.concatenate(a) @ b[rank].T
            assert np.abs(c.astype(np.float32) - wanted).max() < 2e-2 * np.abs(wanted).max()


def test_ring_of_sums_behind_a_gemm():
    ring = read([2], [32, 64], [[0], "R"], dims=(0,), reduces=True, dtype="bfloat16")
    imported = ring.build()
    a = syncopate.Tensor("a", (64, 64), "bf16")
    bound = bind_gemm(a, 64, TINY, c=imported.given)
    result = simulate(syncopate.compile(gemm, imported.plan, **bound), calls=2, seed=4)
    assert result.verdict.ok, result.verdict
    for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
        a, b = ([part.astype(np.float32) for part in inputs[name]] for name in ("a", "b"))
        wanted = np.split(sum(x @ y.T for x, y in zip(a, b, strict=True)), 2)
        for found, block in zip(outputs["data"], wanted, strict=True):
            assert np.abs(found.astype(np.float32) - block).max() < 2e-2 * np.abs(block).max()
