"""What tiles write of plan buffers has to be inferred exactly, and what cannot be is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import refused_kernels as kernels
from test_kernel_variety import HAS_BLOCK_POINTERS, cdiv, footprints
from variety_kernels import (
    block_pointer_matmul,
    made_descriptor_matmul,
    persistent_matmul,
    tutorial_matmul,
)

import syncopate
from syncopate import Footprint, Pointer, Tensor

ROWS, WIDTH, BLOCK = 100, 32, 16


def build(kernel: Any, *, output: bool = False, tiles: int = 0, **kw: Any) -> Any:
    """A kernel from x, which is gathered, to y: another buffer of the plan, or an output of the rank."""
    plan = syncopate.Plan("rows", [2])
    x = plan.buffer("x", (ROWS, WIDTH), "f32", shard_axis=0)
    plan.all_gather(x)
    y: Any = (
        Tensor("y", (ROWS, WIDTH), "f32", output=True)
        if output
        else plan.buffer("y", (ROWS, WIDTH), "f32")
    )
    ctas = 3 if "CTAS" in [parameter.name for parameter in kernel.params] else 0
    bind = {"x": Pointer(x), "y": Pointer(y), "M": ROWS, "W": WIDTH, "BLOCK": BLOCK}
    tiles = tiles or cdiv(ROWS, BLOCK)
    return syncopate.compile(
        kernel,
        plan,
        bind={**bind, "CTAS": ctas} if ctas else bind,
        tiles=(tiles,),
        ctas=ctas or tiles,
        options={"num_stages": 1},
        **kw,
    )


ROWS_OF_A_TILE = "(d0) -> (d0 * 16, 0) [16, 32]"


@pytest.mark.parametrize("kernel", [kernels.stores_rows, kernels.stores_in_a_loop])
def test_stores_of_a_tile_are_one_box(kernel):
    assert footprints(build(kernel)) == [f"read x {ROWS_OF_A_TILE}", f"write y {ROWS_OF_A_TILE}"]


def gemm(kernel: Any, m: int, n: int, k: int, **values: Any) -> Any:
    """A GEMM of tiles of 32 by 32, into a buffer of the plan."""
    plan = syncopate.Plan("gemm", [2])
    a = plan.buffer("a", (m, k), "f16", shard_axis=0)
    c = plan.buffer("c", (m, n), "f32")
    plan.all_gather(a)
    tiles = (cdiv(m, 32), cdiv(n, 32))
    known = {
        "a_ptr": Pointer(a),
        "b_ptr": Pointer(Tensor("b", (k * n,), "f16")),
        "c_ptr": Pointer(c),
        "M": m,
        "N": n,
        "K": k,
        "BM": 32,
        "BN": 32,
        "BK": 16,
        "GROUP": 2,
        "stride_am": k,
        "stride_ak": 1,
        "stride_bk": n,
        "stride_bn": 1,
        "stride_cm": n,
        "stride_cn": 1,
        "ACTIVATION": False,
        **values,
    }
    return syncopate.compile(
        kernel,
        plan,
        bind={parameter.name: known[parameter.name] for parameter in kernel.params},
        tiles=tiles,
        ctas=values.get("CTAS", int(np.prod(tiles))),
        options={"num_warps": 4, "num_stages": 2},
    )


def writes(program: Any) -> list[str]:
    return [line for line in footprints(program) if line.startswith("write")]


def test_a_masked_store_is_clipped_to_the_buffer():
    assert writes(gemm(tutorial_matmul, 100, 50, 40)) == [
        "write c_ptr (d0, d1) -> (d0 * 32, d1 * 32) [32, 32]"
    ]
    assert writes(gemm(persistent_matmul, 100, 50, 40, CTAS=3)) == [
        "write c_ptr (d0, d1) -> (d0 * 32, d1 * 32) [32, 32]"
    ]


@pytest.mark.skipif(not HAS_BLOCK_POINTERS, reason="this Triton has no block pointers")
def test_a_block_pointer_stores_a_box():
    assert writes(gemm(block_pointer_matmul, 100, 50, 40)) == [
        "write c_ptr (d0, d1) -> (d0 * 32, d1 * 32) [32, 32]"
    ]


def test_a_tile_stored_in_two_halves_is_their_union():
    program = gemm(made_descriptor_matmul, 100, 64, 48, CTAS=3, PIECES=2)
    assert writes(program) == [
        "write c_ptr (d0, d1) -> (d0 * 32, d1 * 32) [32, 16]",
        "write c_ptr (d0, d1) -> (d0 * 32, d1 * 32 + 16) [32, 16]",
    ]


ANNOTATION = (
    r"write footprints=\[Footprint\(\"y\", lambda m: \(\.\.\., \.\.\.\), \(\.\.\., \.\.\.\), access=\"write\"\)\], "
    r"or in its body: chunk\.footprint write \"y\" at affine_map<\(m\) -> \(\.\.\., \.\.\.\)> sizes \[\.\.\., \.\.\.\]"
)


@pytest.mark.parametrize(
    ("kernel", "why"),
    [
        (kernels.stores_every_second_row, "it may leave out part of the region"),
        (kernels.stores_what_is_positive, "it may leave out part of the region"),
        (kernels.stores_sometimes, "it may leave out part of the region"),
        (kernels.leaves_out_the_end, "it may leave out part of the region"),
        (kernels.adds_atomically, "tt.atomic_rmw adds to what other tiles"),
    ],
)
def test_a_store_that_is_not_exact_names_the_annotation(kernel, why):
    with pytest.raises(syncopate.PlanError) as caught:
        build(kernel)
    assert caught.match(f'cannot infer which part of "y" a tile writes: {why}')
    assert caught.match(ANNOTATION)
    assert caught.match(r"refused_kernels\.py:\d+: the access by tt\.")


@pytest.mark.parametrize("kernel", [kernels.stores_what_is_positive, kernels.adds_atomically])
def test_the_annotation_is_taken(kernel):
    given = [Footprint("y", lambda m: (m * BLOCK, 0), (BLOCK, WIDTH), access="write")]
    program = build(kernel, footprints=given)
    assert [line for line in footprints(program) if " y " in line] == [f"write y {ROWS_OF_A_TILE}"]


def test_a_footprint_of_what_is_read_is_none_of_what_is_written():
    given = [Footprint("y", lambda m: (m * BLOCK, 0), (BLOCK, WIDTH))]
    with pytest.raises(syncopate.PlanError, match='which part of "y" a tile writes'):
        build(kernels.stores_what_is_positive, footprints=given)


def test_what_is_loaded_is_no_coordinate():
    with pytest.raises(syncopate.PlanError) as caught:
        build(kernels.follows_an_index, output=True)
    assert caught.match('cannot infer which part of "x" a tile reads: its address is not affine')
    assert caught.match(r"refused_kernels\.py:\d+: what is not understood")


@pytest.mark.parametrize("kernel", [kernels.goes_by_the_position, kernels.late_epilogue])
def test_an_address_made_of_the_position_is_refused(kernel):
    for output in (False, True):
        with pytest.raises(syncopate.PlanError, match="the position in the order"):
            build(kernel, output=output)


def test_a_pointer_made_an_integer_is_refused_whatever_is_annotated():
    given = [Footprint("x", lambda m: (0, 0), (ROWS, WIDTH))]
    for footprints_ in ([], given):
        with pytest.raises(syncopate.PlanError, match=r"tt\.ptr_to_int hides what is accessed"):
            build(kernels.hides_a_pointer, output=True, footprints=footprints_)


def test_a_loop_over_tiles_that_ends_elsewhere_is_refused():
    with pytest.raises(syncopate.PlanError, match="end at 7, the number of tiles, but its end is"):
        build(kernels.ends_where_memory_says, output=True)
    with pytest.raises(
        syncopate.PlanError, match="end at 8, the number of tiles, but it ends at 7"
    ):
        build(kernels.walks_twice, output=True, tiles=8)


def test_a_kernel_may_walk_its_tiles_twice_but_not_write_a_buffer_twice():
    values = np.random.default_rng().standard_normal((ROWS, WIDTH)).astype(np.float32)
    result = build(kernels.walks_twice, output=True).simulate({"x": np.split(values, 2)})
    assert result.verdict.ok, result.verdict
    for y in result.outputs[0]["y"]:
        np.testing.assert_allclose(y, 2 * values)
    with pytest.raises(syncopate.PlanError, match="stored to behind one tile marker only"):
        build(kernels.walks_twice)
