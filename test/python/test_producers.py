"""Kernels whose tiles compute chunks, by pointers and descriptors of all kinds: what they compile to, by target."""

from __future__ import annotations

from typing import Any

import producer_kernels as kernels
import pytest
from producer_programs import Producer

import syncopate
from syncopate import Strategy, SyncopateError, Tensor
from syncopate.choices import Combine
from syncopate.kernels import GemmConfig, bind_gemm, bind_gemm_pointers, gemm, gemm_pointers
from syncopate.plan.templates import all_reduce_tiles, reduce_scatter_tiles

SMALL = GemmConfig(block_m=64, block_n=64, block_k=32, num_warps=4, num_ctas=4)
TEMPLATES = {"rs": reduce_scatter_tiles, "ar": all_reduce_tiles}
OLDER = ("sm_80", "sm_89")


def sum_plan(
    what: str, shape: tuple[int, int], world: int = 2, dtype: str = "bf16", **kw: Any
) -> tuple[Any, Any]:
    plan = syncopate.Plan("sum", [world])
    c = plan.buffer("c", shape, dtype)
    TEMPLATES[what](plan, c, Strategy(comm_ctas=2, **kw))
    return plan, c


def build(
    what: str,
    target: str,
    realization: str,
    shape: tuple[int, int, int] = (256, 64, 64),
    *,
    descriptors: bool = False,
    **kw: Any,
) -> Any:
    m, n, k = shape
    reducing = "ldst_dedicated" if target in OLDER else "ldst_colocated"
    plan, c = sum_plan(what, (m, n), realization=realization, reducing=reducing, **kw)
    bind = (bind_gemm if descriptors else bind_gemm_pointers)(
        Tensor("a", (m, k), "bf16"), n, SMALL, c=c
    )
    kernel = gemm if descriptors else gemm_pointers
    return syncopate.compile(kernel, plan, **bind, target=target)


@pytest.mark.parametrize("target", [*OLDER, "sm_90", "sm_100"])
@pytest.mark.parametrize(
    ("what", "combine", "realization"),
    [
        ("rs", Combine.TILES, "ldst_dedicated"),
        ("rs", Combine.ROLE, "copy_engine"),
        ("ar", Combine.TILES, "copy_engine"),
        ("ar", Combine.ROLE, "ldst_dedicated"),
    ],
)
def test_sums_by_pointers_compile_for_every_target(target, what, combine, realization):
    assert build(what, target, realization, combine=combine).image.cubin


@pytest.mark.parametrize("realization", ["ldst_colocated", "tma_colocated", "tma_dedicated"])
def test_sums_by_pointers_compile_with_roles_of_newer_targets(realization):
    assert build("rs", "sm_90", realization).image.cubin
    assert build("ar", "sm_100", realization).image.cubin


@pytest.mark.parametrize("target", OLDER)
@pytest.mark.parametrize(
    ("realization", "message"),
    [
        ("tma_dedicated", "has no TMA, which realization tma_dedicated needs; use ldst_dedicated"),
        ("tma_colocated", "has no TMA, which realization tma_colocated needs; use ldst_dedicated"),
        ("ldst_colocated", "cannot move registers between the warps of a CTA, which realization"),
    ],
)
def test_realizations_that_a_target_lacks_are_refused(target, realization, message):
    with pytest.raises(SyncopateError, match=f"target: {target} {message}"):
        build("rs", target, realization)


def test_descriptors_are_refused_without_tma():
    with pytest.raises(SyncopateError, match=r"sm_80 has no TMA, .*'a_desc' is bound to needs"):
        build("rs", "sm_80", "copy_engine", descriptors=True)


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_stores_by_pointers_are_ordered_by_a_barrier_before_the_count(filecheck, target):
    program = build("rs", target, "copy_engine", combine=Combine.ROLE, direction="pull")
    ptx = program.ir["ptx"]
    # The first counter behind the tile's stores is that of its group.
    filecheck(
        ptx,
        """
        CHECK: {{mma|wgmma}}
        CHECK: st.global
        CHECK-NOT: cp.async.bulk
        CHECK: bar.sync
        CHECK-NOT: st.global
        CHECK: atom.{{(global.sys.acq_rel|sys.global.acq_rel|global.acq_rel.sys|acq_rel.sys.global)}}
        """,
    )


def test_bulk_stores_are_waited_for_before_the_barrier(filecheck):
    program = build("rs", "sm_90", "copy_engine", descriptors=True)
    filecheck(
        program.ir["ptx"],
        """
        CHECK: cp.{{(reduce.)?}}async.bulk.tensor.2d.global.shared
        CHECK: cp.async.bulk.wait_group 0
        CHECK: bar.sync
        CHECK: atom.{{(global.sys.acq_rel|sys.global.acq_rel|global.acq_rel.sys|acq_rel.sys.global)}}
        """,
    )


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_tile_that_adds_rounds_the_sum_once(filecheck, target):
    filecheck(
        build("rs", target, "copy_engine").ir["fused"],
        """
        CHECK: "ttg.convert_layout"({{.*}} -> tensor<64x64xbf16, #ttg.nvidia_mma
        CHECK-NEXT: "arith.extf"
        CHECK-NEXT: "arith.addf"
        CHECK-NEXT: "scf.yield"
        CHECK-NOT: "arith.extf"
        CHECK: "arith.truncf"
        CHECK-NEXT: "ttg.convert_layout"
        CHECK-NEXT: "tt.store"
        """,
    )


@pytest.mark.parametrize("flatten", [False, True])
def test_descriptors_made_on_the_device_store_chunks(flatten):
    producer = Producer(kernels.device_descriptors, FLATTEN=flatten)
    assert "tensormap_create" in producer.program.ir["fused"]
    producer.check(1e-2)


@pytest.mark.parametrize("flatten", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [("bf16", 1e-2), ("f16", 2e-3), ("f32", 1e-5)])
def test_tile_is_done_after_the_last_of_several_stores(dtype, tolerance, flatten):
    Producer(kernels.store_halves, dtype, FLATTEN=flatten).check(tolerance)


@pytest.mark.parametrize("flatten", [False, True])
def test_tile_is_done_behind_a_loop_of_stores(flatten):
    Producer(kernels.store_in_loop, FLATTEN=flatten).check(1e-2)


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_kernel_of_one_tile_per_program_stores_chunks(dtype):
    Producer(kernels.one_tile, dtype).check(1e-2)


@pytest.mark.parametrize(("dtype", "tolerance"), [("f16", 2e-3), ("f8E5M2", 0.2)])
def test_values_that_are_stored_as_they_come_are_added_in_float32(dtype, tolerance):
    Producer(kernels.copy_in_loop, dtype, stages=1, FLATTEN=False).check(tolerance)


def test_loop_of_stores_that_triton_fuses_is_refused():
    with pytest.raises(
        syncopate.PlanError,
        match=r'stores of a tile to "c_ptr" end: Triton has fused .* leave flatten=True out',
    ):
        Producer(kernels.copy_in_loop, FLATTEN=True)


def _sum_by_template(combine: Combine | None, block_m: int) -> None:
    """Compiles a sum of 192 rows for each of two ranks, by tiles of so many."""
    plan = syncopate.Plan("sum", [2])
    c = plan.buffer("c", (384, 128), "bf16")
    reduce_scatter_tiles(plan, c, Strategy(combine=combine))
    a = Tensor("a", (384, 64), "bf16")
    syncopate.compile(gemm, plan, **bind_gemm(a, 128, GemmConfig(block_m, 128, 64), c=c))


def _sum_by_hand(by_role: bool) -> None:
    """Compiles the same sum at one rank, of a plan that says who adds."""
    plan = syncopate.Plan("sum", [2])
    c = plan.buffer("c", (384, 128), "bf16")
    part = c[0:192]
    own = [plan.produce(part, rank=0)] if by_role else []
    other = plan.produce(c[:], rank=1)
    if by_role:
        plan.produce(c[192:], rank=0)
    sent = plan.put(
        part,
        part,
        src_rank=1,
        dst_rank=0,
        after=[*own, other],
        reduction="sum" if by_role else None,
    )
    if not by_role:
        plan.produce(part, rank=0, reduction="sum", after=[sent])
    a = Tensor("a", (384, 64), "bf16")
    syncopate.compile(gemm, plan, **bind_gemm(a, 128, GemmConfig(128, 128, 64), c=c))


def test_remedies_for_tiles_that_add_to_a_part_are_remedies():
    for compile_sum in (lambda: _sum_by_template(None, 128), lambda: _sum_by_hand(False)):
        with pytest.raises(SyncopateError) as caught:
            compile_sum()
        assert "sizes [192, 128], while the tile has offsets [128, 0] sizes" in str(caught.value)
        assert "bind tiles that divide it, or have a role add" in str(caught.value)
        assert "combine=Combine.ROLE" in str(caught.value)
        assert "reduction='sum' in a plan of your own" in str(caught.value)
    _sum_by_template(None, 64)
    _sum_by_template(Combine.ROLE, 128)
    _sum_by_hand(True)
