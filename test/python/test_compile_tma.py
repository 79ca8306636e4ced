"""Programs with roles on TMA: what they take of a CTA, and which plans and targets are refused."""

import pytest

import syncopate
from syncopate import Strategy, SyncopateError
from syncopate.compiler.binding import Tensor
from syncopate.compiler.budgets import read_resources
from syncopate.compiler.target import Target
from syncopate.errors import PlanError
from syncopate.kernels import GemmConfig, bind_gemm, gemm, gemm_pointers
from syncopate.kernels.bind import bind_gemm_pointers

SMALL = GemmConfig(block_m=64, block_n=64, num_warps=4, num_ctas=2)
REALIZATIONS = ("tma_colocated", "tma_dedicated")


def gather(realization, shape=(128, 64, 128), *, config=SMALL, target="sm_90", pointers=False):
    m, n, k = shape
    plan = syncopate.Plan("ag_gemm", [2])
    a = plan.buffer("a", (m, k), "bf16", shard_axis=0)
    plan.all_gather(a)
    bind = (bind_gemm_pointers if pointers else bind_gemm)(a, n, config)
    return syncopate.compile(
        gemm_pointers if pointers else gemm,
        plan,
        **bind,
        strategy=Strategy(realization=realization),
        target=target,
    )


def scatter(realization, dtype):
    m, n, k = 128, 64, 64
    plan = syncopate.Plan("gemm_rs", [2])
    c = plan.buffer("c", (m, n), dtype)
    done = [plan.produce(c[0:m, 0:n], rank=rank) for rank in range(2)]
    plan.reduce_scatter(c, after=done)
    for rank in range(2):
        plan.output(c[rank * 64 : rank * 64 + 64, 0:n], rank=rank)
    bind = bind_gemm(Tensor("a", (m, k), "bf16"), n, SMALL, c=c)
    return syncopate.compile(
        gemm, plan, **bind, strategy=Strategy(realization=realization), target="sm_90"
    )


def test_ring_fits_beside_the_default_gemm():
    program = gather("tma_colocated", (8192, 3584, 8192), config=GemmConfig())
    assert program.image.shared_bytes <= Target(90).shared_bytes
    resources = read_resources(program.image.cubin)
    assert resources.stack_bytes == 0
    assert program.image.num_warps == 12


def test_dedicated_ring_lies_where_others_compute():
    """Both kinds of CTA have one allocation, as large as what the larger of them needs."""
    program = gather(
        "tma_dedicated",
        (8192, 3584, 8192),
        config=GemmConfig(num_ctas=124, parts=1),
    )
    alone = gather("copy_engine", (8192, 3584, 8192), config=GemmConfig(parts=1))
    assert program.image.shared_bytes <= alone.image.shared_bytes + 1024
    assert read_resources(program.image.cubin).stack_bytes == 0


@pytest.mark.parametrize("realization", REALIZATIONS)
def test_scratch_holds_a_pair_of_maps_for_each_cta(realization):
    assert gather(realization).image.global_scratch_bytes == 2 * 128


@pytest.mark.parametrize("realization", REALIZATIONS)
def test_rows_that_are_no_multiple_of_16_bytes_are_refused(realization):
    with pytest.raises(
        SyncopateError,
        match=rf"realization {realization}: transfer \d, carried out by rank \d, is not made of rows of a multiple of "
        r"16 bytes at such addresses, as TMA needs it \(.*row_bytes \d+\); pad the rows",
    ):
        gather(realization, (130, 70, 51), pointers=True)


@pytest.mark.parametrize("realization", REALIZATIONS)
def test_targets_without_tma_are_refused(realization):
    with pytest.raises(
        SyncopateError, match=rf"target: sm_80 has no TMA, which realization {realization} needs"
    ):
        gather(realization, pointers=True, target="sm_80")


@pytest.mark.parametrize("target", ["sm_100", "sm_120"])
def test_newer_targets_compile(target):
    program = gather("tma_dedicated", pointers=True, target=target)
    assert program.image.shared_bytes <= Target.parse(target).shared_bytes


@pytest.mark.parametrize("realization", REALIZATIONS)
@pytest.mark.parametrize(
    ("parts", "reduction", "what"), [(1, "max", "by max"), (2, "sum", "2 parts by sum")]
)
def test_other_reductions_than_sums_of_one_part_are_refused(realization, parts, reduction, what):
    plan = syncopate.Plan("reduce", [2])
    a = plan.buffer("a", (64 * parts, 64), "f32")
    c = plan.buffer("c", (128, 64), "f32")
    plan.input(a[:], rank=0)
    plan.put(
        [a[64 * part : 64 * part + 64] for part in range(parts)],
        c[0:64],
        src_rank=0,
        dst_rank=1,
        reduction=reduction,
        realization=realization,
        after=[plan.produce(c[:], rank=1)],
    )
    with pytest.raises(
        PlanError,
        match=rf"copies or sums one part, but got one that reduces {what}: realization {realization} cannot",
    ):
        syncopate.compile(
            gemm, plan, **bind_gemm(Tensor("x", (128, 64), "f32"), 64, SMALL, c=c), target="sm_90"
        )


def test_sums_that_tma_cannot_make_are_refused():
    with pytest.raises(
        SyncopateError, match=r"adds elements of f8E5M2 in buffer 'c'; TMA can add f32, bf16"
    ):
        scatter("tma_colocated", "f8E5M2")
