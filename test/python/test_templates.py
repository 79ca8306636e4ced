"""Templates of plans: what they refuse, what they choose, and what their sums compile to."""

import re

import pytest

import syncopate
from syncopate import Strategy
from syncopate.abi import Realization
from syncopate.choices import Combine, Shots
from syncopate.errors import PlanError, SyncopateError
from syncopate.kernels import (
    GemmConfig,
    bind_gemm,
    bind_gemm_pointers,
    gemm,
    gemm_pointers,
)
from syncopate.plan.templates import all_reduce_tiles, choose_shots, reduce_scatter_tiles
from syncopate.runtime.commands import roles_of

MIB = 1 << 20


def test_shots_follow_from_what_a_rank_would_send():
    assert choose_shots(2 * MIB, 2) is Shots.ONE
    assert choose_shots(2 * MIB + 1, 2) is Shots.TWO
    assert choose_shots(2 * MIB, 3) is Shots.TWO
    assert choose_shots(2 * MIB // 7, 8) is Shots.ONE


@pytest.mark.parametrize(
    ("rows", "choices", "slots"),
    [
        (64, {}, 128),
        (4096, {}, 1366),
        (64, {"combine": Combine.TILES}, 22),
        (64, {"shots": Shots.TWO}, 22),
        (64, {"combine": Combine.ROLE}, 44),
        (4096, {"shots": Shots.ONE}, 8192),
    ],
)
def test_default_of_an_all_reduce(rows, choices, slots):
    """On three ranks; how much is on its way says how it is done."""
    plan = syncopate.Plan("sum", [3])
    all_reduce_tiles(plan, plan.buffer("c", (rows, 256), "bf16"), Strategy(**choices))
    assert plan.buffers["c_arriving"].shape == (slots, 256)


@pytest.mark.parametrize("combine", [Combine.TILES, Combine.DESTINATION])
def test_one_shot_is_added_by_roles_only(combine):
    plan = syncopate.Plan("sum", [2])
    with pytest.raises(PlanError, match=r"combine: expects a role to add in one shot, but got"):
        strategy = Strategy(shots=Shots.ONE, combine=combine)
        all_reduce_tiles(plan, plan.buffer("c", (8, 8), "f32"), strategy)


@pytest.mark.parametrize("template", [all_reduce_tiles, reduce_scatter_tiles])
def test_one_rank_has_nothing_to_add_up(template):
    plan = syncopate.Plan("sum", [1])
    with pytest.raises(PlanError, match="mesh: expects at least 2 ranks to add up, but got 1"):
        template(plan, plan.buffer("c", (8, 8), "f32"))


def test_blocks_that_end_within_a_tile_are_for_roles():
    workload = syncopate.GemmWorkload("gemm_rs", 65, 64, 64, 2)
    with pytest.raises(PlanError, match=r"at one part, but not at(.|\n)*combine=Combine.ROLE"):
        workload.schedule(Strategy(combine=Combine.TILES), GemmConfig(block_m=64, block_n=64))


def test_sums_at_the_destination_are_pushed():
    plan = syncopate.Plan("sum", [2])
    with pytest.raises(PlanError, match=r"direction: expects push with Combine.DESTINATION"):
        strategy = Strategy(direction="pull", combine=Combine.DESTINATION)
        reduce_scatter_tiles(plan, plan.buffer("c", (8, 8), "f32"), strategy)


@pytest.mark.parametrize(
    "choices",
    [{"realization": "nccl"}, {"combine": Combine.COLLECTIVE, "realization": "tma_dedicated"}],
)
@pytest.mark.parametrize("template", [reduce_scatter_tiles, all_reduce_tiles])
def test_collective_may_stay_in_the_plan(template, choices):
    plan = syncopate.Plan("sum", [3])
    template(plan, plan.buffer("c", (33, 8), "f32"), Strategy(**choices))
    verb = template.__name__.removesuffix("_tiles")
    assert len(re.findall(rf"chunk\.{verb} ", plan.text)) == 1
    assert not re.search(r"chunk\.(put|get|claim) ", plan.text)


@pytest.mark.parametrize("template", [reduce_scatter_tiles, all_reduce_tiles])
def test_collective_that_stays_has_no_shots(template):
    plan = syncopate.Plan("sum", [2])
    with pytest.raises(PlanError, match=r"shots: expects none .* but got two"):
        strategy = Strategy(realization="nccl", shots=Shots.TWO)
        template(plan, plan.buffer("c", (8, 8), "f32"), strategy)


def test_plan_that_keeps_its_collective_is_not_for_other_sums():
    plan = syncopate.Plan("sum", [2])
    reduce_scatter_tiles(plan, plan.buffer("c", (8, 8), "f32"), Strategy(realization="nccl"))
    with pytest.raises(PlanError, match="has followed"):
        reduce_scatter_tiles(plan, plan.buffer("d", (8, 8), "f32"), Strategy())


def parts_of(plan, *chunks, **choices):
    c = plan.buffer("c", (4, 8), "f32")
    return plan.put(list(chunks), c[:], src_rank=0, dst_rank=0, reduction="sum", **choices)


def test_parts_are_equally_far_apart():
    plan = syncopate.Plan("sum", [2])
    s = plan.buffer("s", (32, 8), "f32")
    with pytest.raises(PlanError, match=r"each part to be as far .* \[4, 0\], but got \[8, 0\]"):
        parts_of(plan, s[0:4], s[4:8], s[12:16])


def test_parts_are_in_one_buffer():
    plan = syncopate.Plan("sum", [2])
    s, t = plan.buffer("s", (32, 8), "f32"), plan.buffer("t", (32, 8), "f32")
    with pytest.raises(
        PlanError, match=r"expects parts of buffer s of sizes \[4, 8\], but got one"
    ):
        parts_of(plan, s[0:4], t[4:8])


def test_there_is_a_part():
    with pytest.raises(PlanError, match=r"src: expects a chunk, or several, but got none"):
        parts_of(syncopate.Plan("sum", [2]))


def test_place_of_what_is_there_is_checked():
    plan = syncopate.Plan("sum", [2])
    s = plan.buffer("s", (32, 8), "f32")
    with pytest.raises(PlanError, match=r"expects behind to be in \[0, 2\], but got 3"):
        parts_of(plan, s[0:4], s[4:8], behind=3)


ADDITION = r"(?:atom|red)\.global\.sys\.relaxed\.add"
"""Newer Triton says `red` where nobody asks for what was there before."""


def destination(dtype, realization="ldst_colocated"):
    plan = syncopate.Plan("sum", [3])
    c = plan.buffer("c", (384, 256), dtype)
    strategy = Strategy(realization=realization, combine=Combine.DESTINATION)
    reduce_scatter_tiles(plan, c, strategy)
    a = syncopate.Tensor("a", (384, 128), "bf16")
    config = GemmConfig(block_m=64, block_n=128, num_warps=4, num_ctas=4)
    return syncopate.compile(gemm, plan, **bind_gemm(a, 256, config, c=c), target="sm_90")


@pytest.mark.parametrize(
    ("dtype", "atomic"),
    [("f32", r"v4\.f32"), ("bf16", r"noftz\.v8\.bf16"), ("f16", r"noftz\.v8\.f16")],
)
def test_additions_at_the_destination_are_wide_and_reach_other_gpus(dtype, atomic):
    ptx = destination(dtype).ir["ptx"]
    found = re.findall(rf"{ADDITION}\S*", ptx)
    assert found
    assert all(re.fullmatch(rf"{ADDITION}\.{atomic}", op) for op in found)
    # They come before the counter that releases them, behind a barrier.
    last = ptx.rindex(found[-1])
    assert re.search(r"bar\.sync.*?atom\.global\.sys\.acq_rel\.add\.u32", ptx[last:], re.DOTALL)


def test_tma_adds_at_the_destination():
    ptx = destination("bf16", "tma_colocated").ir["ptx"]
    assert "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add" in ptx
    assert not re.search(ADDITION, ptx)


def test_copy_engines_do_not_add_at_the_destination():
    program = destination("bf16", "copy_engine")
    assert roles_of(program.tables) == {Realization.LDST_COLOCATED}
    assert all(
        (tables["commands"].column("realization") == Realization.LDST_COLOCATED).all()
        for tables in program.tables
    )


def test_templates_of_a_plan_follow_one_strategy():
    plan = syncopate.Plan("sum", [2])
    c, d = (plan.buffer(name, (512, 256), "bf16") for name in "cd")
    strategy = Strategy(direction="pull")
    reduce_scatter_tiles(plan, c, strategy)
    with pytest.raises(
        PlanError, match=r"strategy: expects .*, which another template of plan sum"
    ):
        reduce_scatter_tiles(plan, d)


def test_a_plan_is_compiled_with_the_strategy_that_templates_have_followed():
    def build(**kw):
        plan = syncopate.Plan("sum", [2])
        c = plan.buffer("c", (512, 256), "bf16")
        reduce_scatter_tiles(plan, c, Strategy(direction="pull", pause=7))
        a = syncopate.Tensor("a", (512, 128), "bf16")
        config = GemmConfig(block_m=64, block_n=128, num_warps=4, num_ctas=4)
        return syncopate.compile(gemm, plan, **bind_gemm(a, 256, config, c=c), **kw)

    assert build().strategy == Strategy(direction="pull", pause=7)
    assert build(strategy=Strategy(direction="pull", order="grouped")).strategy.pause == 500
    with pytest.raises(SyncopateError, match=r"strategy: templates of plan sum have followed"):
        build(strategy=Strategy())


def test_pieces_of_a_sum_are_those_of_the_strategy():
    plan = syncopate.Plan("sum", [3])
    c = plan.buffer("c", (384, 256), "bf16")
    reduce_scatter_tiles(plan, c, Strategy(splits=2, combine=Combine.ROLE))
    a = syncopate.Tensor("a", (384, 128), "bf16")
    config = GemmConfig(block_m=64, block_n=128, num_warps=4, num_ctas=4)
    program = syncopate.compile(gemm, plan, **bind_gemm(a, 256, config, c=c))
    # Two parts go to each rank, which adds them up, each in two pieces.
    assert program.signal_layout.data_twin == 3 * (2 + 1) * 2


@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32"])
def test_unordered_sums_before_hopper(dtype):
    """A loop of compare-and-swap of two bytes does not reach other GPUs."""
    plan = syncopate.Plan("sum", [2])
    x, a = (plan.buffer(name, (128, 64), dtype) for name in "xa")
    for rank in range(2):
        plan.input(x[:], rank=rank)
    for rank in range(2):
        first = plan.put(x[:], a[:], src_rank=rank, dst_rank=rank)
        plan.put(
            x[:],
            a[:],
            src_rank=1 - rank,
            dst_rank=rank,
            reduction="sum",
            unordered=True,
            after=[first],
        )
    config = GemmConfig(block_m=64, block_n=64, block_k=32, num_warps=4, num_ctas=4)
    arguments = {
        **bind_gemm_pointers(a, 64, config),
        "target": "sm_80",
        "strategy": syncopate.Strategy(realization="ldst_dedicated"),
    }
    if dtype == "bf16":
        with pytest.raises(SyncopateError, match=r"target: sm_80 cannot add bf16 .* atomically"):
            syncopate.compile(gemm_pointers, plan, **arguments)
        return
    ptx = syncopate.compile(gemm_pointers, plan, **arguments).ir["ptx"]
    assert re.search(ADDITION, ptx)


def test_explanation_says_who_adds_what():
    plan = syncopate.Plan("sum", [3])
    c = plan.buffer("c", (192, 64), "f32")
    reduce_scatter_tiles(plan, c, Strategy(combine=Combine.ROLE))
    config = GemmConfig(block_m=64, block_n=64, block_k=32, num_warps=4, num_ctas=4)
    a = syncopate.Tensor("a", (192, 64), "f32")
    said = syncopate.compile(gemm, plan, **bind_gemm(a, 64, config, c=c), target="sm_90").explain()
    assert (
        "puts 2 parts from c_arriving[0:64, 0:64] on into c[64:128, 0:64] to rank 1, adding to what is there by "
        "ldst_colocated" in said
    )
    assert "to rank 2, adding to what is there atomically by" in destination("f32").explain()
