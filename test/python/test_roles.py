"""Roles of compiled kernels: which CTAs and warps they have, and the order of what they do, in IR and in PTX."""

import re

import pytest

import syncopate
from syncopate.abi import Realization
from syncopate.choices import Combine
from syncopate.kernels import GemmConfig, gemm, gemm_pointers
from syncopate.kernels.bind import bind_gemm, bind_gemm_pointers
from syncopate.plan.templates import reduce_scatter_tiles

SMALL = GemmConfig(block_n=64, num_warps=4, num_ctas=8)
ACQUIRE = r"ld\.(global\.sys\.acquire|acquire\.sys\.global|global\.acquire\.sys)"
COUNT = r"atom\.(global\.sys\.acq_rel|acq_rel\.sys\.global|sys\.global\.acq_rel|global\.acq_rel\.sys)\.add"
RELEASE = r"atom\.(global\.sys\.release|release\.sys\.global|sys\.global\.release|global\.release\.sys)\.exch"
PRODUCER = (
    ACQUIRE,
    r"ld\.global\.v4",
    r"st\.global\.v4",
    r"bar\.sync|barrier\.sync",
    COUNT,
    RELEASE,
)


def build(*realizations, comm_ctas=4, pointers=False, target="sm_90", config=SMALL, **options):
    """A gather of two ranks in four pieces, of which each has the next realization."""
    plan = syncopate.Plan("gather", [2])
    a = plan.buffer("a", (512, 256), "bf16", shard_axis=0)
    for piece in range(4):
        rows = a[128 * piece : 128 * (piece + 1), :]
        ends = {"src_rank": piece // 2, "dst_rank": 1 - piece // 2}
        plan.put(rows, rows, **ends, realization=realizations[piece % len(realizations)])
    bind = (bind_gemm_pointers if pointers else bind_gemm)(a, 256, config)
    return syncopate.compile(
        gemm_pointers if pointers else gemm,
        plan,
        **{**bind, **options},
        strategy=syncopate.Strategy(comm_ctas=comm_ctas),
        target=target,
    )


def build_sum(combine, realization="ldst_colocated"):
    """A GEMM whose tiles compute parts of a sum, of which each rank gets a block."""
    plan = syncopate.Plan("sum", [2])
    c = plan.buffer("c", (512, 256), "bf16")
    strategy = syncopate.Strategy(realization=realization, combine=combine)
    reduce_scatter_tiles(plan, c, strategy)
    a = syncopate.Tensor("a", (512, 256), "bf16")
    return syncopate.compile(gemm, plan, **bind_gemm(a, 256, SMALL, c=c))


def find_in_order(text, *patterns):
    """Asserts that the patterns follow one another, and returns where the last one ends."""
    at = 0
    for pattern in patterns:
        match = re.compile(pattern).search(text, at)
        assert match, f"{pattern} does not come after what stands before it"
        at = match.end()
    return at


def test_dedicated_ctas_come_first_and_have_the_warps_of_the_kernel():
    program = build("ldst_dedicated", comm_ctas=5)
    assert program.comm_ctas == 5
    assert program.num_ctas == 8
    assert program.grid == (13, 1, 1)
    assert program.image.num_warps == SMALL.num_warps
    assert "warp_specialize" not in program.ir["ttgir"]
    assert "setmaxnreg" not in program.ir["ptx"]


def test_dedicated_role_stands_in_a_branch_before_the_computation():
    text = build("ldst_dedicated").ir["ttgir"]
    copied = r"tt\.store %\S+, %\S+, %\S+ : tensor<\d+x4x!tt\.ptr<i32>"
    counted = r"tt\.atomic_rmw add, acq_rel, sys"
    find_in_order(
        text,
        r"arith\.cmpi slt, %\S+, %\S+ : i64",
        r"scf\.if",
        copied,
        r"(gpu|ttg)\.barrier",
        counted,
        r"tt\.atomic_rmw exch, release, sys",
        r"\} else \{",
        r"tt\.get_program_id x",
        r"arith\.subi",
        r"ttng\.warp_group_dot",
        r"tt\.atomic_rmw add, acq_rel, gpu",
    )
    # The kernel's own number and the number of programs, where it asks for it, are counted without those in front.
    body = text[text.index("ttng.warp_group_dot") :]
    assert not re.search(copied, body)


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100"])
def test_dedicated_role_releases_after_stores_and_a_barrier(target):
    """Wait, load, store, barrier, count, and only then raise flags, all at system scope."""
    ptx = build("ldst_dedicated", pointers=True, target=target).ir["ptx"]
    find_in_order(ptx, *PRODUCER)
    assert "ld.global.nc" not in ptx


def test_tiles_acquire_what_dedicated_ctas_bring_before_bulk_loads():
    ptx = build("ldst_dedicated").ir["ptx"]
    at = find_in_order(ptx, *PRODUCER)
    find_in_order(ptx[at:], ACQUIRE, r"fence\.proxy\.async", r"cp\.async\.bulk\.tensor")


def test_mixed_plan_has_every_role_in_its_place():
    program = build("ldst_colocated", "ldst_dedicated", "copy_engine")
    assert program.image.num_warps == SMALL.num_warps + 4
    ptx = program.ir["ptx"]
    # Each role copies in a loop of its own.
    assert len(re.findall(COUNT, ptx)) == 2
    text = program.ir["ttgir"]
    find_in_order(
        text,
        r"scf\.if",
        r"tt\.atomic_rmw add, acq_rel, sys",
        r"\} else \{",
        r"ttg\.warp_specialize",
    )
    used = {
        Realization(value)
        for rank in range(2)
        for value in program.rank_tables(rank)["commands"].column("realization").tolist()
    }
    assert {role.spelling for role in used} == {"ldst_colocated", "ldst_dedicated", "copy_engine"}


@pytest.mark.parametrize(
    ("realization", "ctas"),
    [("ldst_dedicated", 126), ("ldst_colocated", 132), ("copy_engine", 132)],
)
def test_all_multiprocessors_are_used_by_default(realization, ctas):
    config = GemmConfig(block_n=64, num_warps=4, num_ctas=ctas)
    program = build(realization, comm_ctas=6, config=config, ctas=None)
    assert program.num_ctas == ctas
    assert program.comm_ctas + program.num_ctas == 132


def test_kernel_has_to_step_by_the_computing_ctas():
    config = GemmConfig(block_n=64, num_warps=4, num_ctas=132)
    with pytest.raises(syncopate.PlanError, match="126, the CTAs of the kernel, but"):
        build("ldst_dedicated", comm_ctas=6, config=config, ctas=None)


def test_some_ctas_have_to_compute():
    with pytest.raises(syncopate.SyncopateError, match="comm_ctas 132 leaves none of the 132"):
        build("ldst_dedicated", comm_ctas=132, ctas=None)


def test_all_ctas_have_to_be_resident():
    with pytest.raises(
        syncopate.BudgetError,
        match=r"5008 CTAs that wait for each other, 5000 of them \(comm_ctas\) for communication alone, but",
    ):
        build("ldst_dedicated", comm_ctas=5000)


def test_words_say_who_communicates():
    words = build("ldst_dedicated", "copy_engine", comm_ctas=3).explain()
    assert "8 CTAs each, and 3 in front of them for communication" in words
    assert "by CTAs of the same launch that do nothing else" in words


def test_tile_is_announced_when_its_stores_are_complete():
    ptx = build_sum(Combine.ROLE, "copy_engine").ir["ptx"]
    stores = list(re.finditer(r"cp\.async\.bulk\.tensor\.2d\.global", ptx))
    assert stores
    for store in stores:
        find_in_order(
            ptx[store.start() :],
            r"cp\.async\.bulk\.wait_group 0;",
            r"bar\.sync|barrier\.sync",
            COUNT,
            RELEASE,
        )


def test_tile_that_adds_waits_before_its_store():
    text = build_sum(Combine.TILES).ir["ttgir"]
    at = find_in_order(
        text, r"scf\.if", r"tt\.atomic_rmw add, acquire, sys", r"fence\.proxy\.async"
    )
    find_in_order(
        text[at:],
        r"ttng\.async_tma_reduce add",
        r"ttng\.async_tma_copy_local_to_global",
        r"cp\.async\.bulk\.wait_group 0;",
        r"tt\.atomic_rmw add, acq_rel, sys",
        r"tt\.atomic_rmw exch, release, sys",
    )
    assert (
        "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add"
        in build_sum(Combine.TILES).ir["ptx"]
    )
