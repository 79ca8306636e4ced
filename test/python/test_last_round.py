# mypy: allow-untyped-defs, allow-untyped-decorators, allow-untyped-calls, allow-incomplete-defs

"""How many CTAs compute a tile of the last round, what such a kernel is bound to, and which are refused."""

import dataclasses
import re

import pytest
import triton
import triton.language as tl

import syncopate
import syncopate.language as sy
from syncopate import Ctas, Descriptor, Parts, PlanError, Scratch, Strategy, SyncopateError, Tensor
from syncopate.kernels import GemmConfig, bind_gemm, bind_gemm_pointers, gemm, gemm_pointers
from syncopate.runtime.interface import ScratchParam

SMALL = GemmConfig(block_m=32, block_n=32, block_k=32, num_warps=4, num_ctas=10)


@pytest.mark.parametrize(
    ("tiles", "ctas", "steps", "count"),
    [
        (416, 132, 256, 6),  # 20 are left: 6 times 20 is 120
        (960, 132, 128, 3),
        (928, 132, 128, 8),  # 4 are left, but more than 8 parts are none
        (928, 132, 31, 7),
        (928, 132, 7, 1),
        (264, 132, 128, 1),
        (199, 132, 128, 1),  # 67 are left, more than half of the CTAs
        (66, 132, 128, 2),
        (66, 132, 3, 1),
    ],
)
def test_parts_are_as_many_as_there_are_ctas_for(tiles, ctas, steps, count):
    assert Parts(steps).choose(tiles, ctas) == count


@pytest.mark.parametrize(
    ("m", "n", "num_sms", "block"),
    [
        # 3 rounds and 20 tiles by 6 CTAs, against 6 rounds and 40 by 3 in about half the time.
        (2048, 6656, 132, (128, 256)),
        # 68 tiles are left that no two CTAs are there for; of the narrow ones 4 are left behind 3 rounds.
        (25600, 256, 132, (128, 128)),
        # Two full rounds of either.
        (128 * 264, 250, 132, (128, 256)),
        # On 110 multiprocessors these leave 44 tiles by 2 CTAs each, and narrow ones 88, which are a whole round.
        (128 * 264, 250, 110, (128, 128)),
        # 128 large tiles are less than a round; so are 112 narrow ones.
        (2048, 2048, 132, (128, 128)),
        (512, 3584, 132, (64, 128)),
    ],
)
def test_chosen_tiles_leave_few_without_work(m, n, num_sms, block):
    config = GemmConfig.choose(m, n, num_sms=num_sms)
    assert (config.block_m, config.block_n) == block


def test_rows_across_cache_lines_take_large_tiles():
    assert GemmConfig.choose(8200, 3600, 2 * 8192).block_n == 128
    assert GemmConfig.choose(8200, 3600, 2 * 8184).block_n == 256


def test_parts_that_have_no_cta_are_refused():
    assert Parts(3, count=4).choose(14, 13) == 4
    with pytest.raises(SyncopateError, match="needs 8 CTAs, but 7 compute; use at most 3"):
        Parts(3, count=4).choose(9, 7)
    with pytest.raises(SyncopateError, match="parts: steps expects a positive integer, but got 0"):
        Parts(0)
    with pytest.raises(SyncopateError, match="scratch: expects a shape of positive integers"):
        Scratch((Ctas(), 0), "f32")


def all_gather_gemm(kernel, bind, config, target="sm_90"):
    """12 tiles, in 9 steps of K each, that read a gathered A."""
    plan = syncopate.Plan("ag_gemm", [2])
    a = plan.buffer("a", (128, 264), "bf16", shard_axis=0)
    plan.all_gather(a, axis=0)
    return syncopate.compile(
        kernel,
        plan,
        **bind(a, 96, config),
        target=target,
        strategy=Strategy(realization="copy_engine"),
    )


@pytest.mark.parametrize(
    ("kernel", "bind"), [(gemm, bind_gemm), (gemm_pointers, bind_gemm_pointers)]
)
def test_tiles_access_alike_in_parts(kernel, bind):
    """Tiles of one CTA and of several have the same footprints; only a kernel with the latter has memory for parts."""
    found, scratch = [], []
    for parts in (1, None, 5):
        program = all_gather_gemm(kernel, bind, dataclasses.replace(SMALL, parts=parts))
        text = program.ir["lowered"]
        maps = dict(re.findall(r"^(#map\d*) = (.*)$", text, re.MULTILINE))
        lines = re.findall(r"chunk.footprint (\w+ \"\w+\") at (#map\d*) (sizes \[.*\])", text)
        found.append({(what, maps[where], sizes) for what, where, sizes in lines})
        scratch.append([param for param in program.params if isinstance(param, ScratchParam)])
        rows = len(program.rank_tables(0)["tiles"].values)
        assert rows == {1: 12, None: 14, 5: 20}[parts]
    assert found[0] == found[1] == found[2]
    assert not scratch[0]
    assert [param.shape for param in scratch[1]] == [(10, 32, 32), (10,)]


@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_90", "sm_100"])
def test_kernels_compile(target):
    config = dataclasses.replace(SMALL, parts=3)
    assert all_gather_gemm(gemm_pointers, bind_gemm_pointers, config, target).image.cubin
    if target not in ("sm_80", "sm_89"):
        assert all_gather_gemm(gemm, bind_gemm, config, target).image.cubin


def test_parts_are_stored_before_they_are_counted():
    """Stores of all threads, a barrier, an addition that acquires and releases, a barrier, loads of all threads."""
    ptx = all_gather_gemm(gemm, bind_gemm, dataclasses.replace(SMALL, parts=3)).ir["ptx"]
    assert re.search(
        r"st\.global\.v4.*?bar\.sync.*?atom\.global\.gpu\.acq_rel\.add.*?bar\.sync.*?ld\.global\.v4",
        ptx.replace(".b32", ""),
        re.DOTALL,
    )


@triton.jit
def copies_in_parts(
    x, y, counters, TILES: tl.constexpr, CTAS: tl.constexpr, PARTS: tl.constexpr, FORM: tl.constexpr
):
    """Tiles of 64 by 64, of which those of the last round are computed by PARTS programs, in one of several FORMs."""
    pid = tl.program_id(0)
    whole = TILES - TILES % CTAS
    for t in tl.range(pid, whole, CTAS):
        m, _ = sy.tile(t, t)
        y.store([m * 64, 0], x.load([m * 64, 0]))
    for t in tl.range(whole + pid, whole + (TILES - whole) * PARTS, CTAS):
        m, part, _ = sy.tile(t, whole + pid // PARTS, pid % PARTS)
        block = x.load([m * 64, 0])
        if FORM == "last":
            if sy.last_part(counters + pid // PARTS, PARTS):
                y.store([m * 64, 0], block)
        elif FORM == "first":
            if part == 0:
                y.store([m * 64, 0], block)
        elif FORM == "not last":
            if sy.last_part(counters + pid // PARTS, PARTS):
                tl.debug_barrier()
            else:
                y.store([m * 64, 0], block)
        else:
            y.store([m * 64, 0], block)


def copy_in_parts(form):
    """Five tiles on four CTAs; the last one by two of them."""
    plan = syncopate.Plan("copies", [2])
    x = plan.buffer("x", (320, 64), "bf16", shard_axis=0)
    plan.all_gather(x, axis=0)
    y = plan.buffer("y", (320, 64), "bf16")
    for rank in range(2):
        plan.produce(y[:], rank=rank)
        plan.output(y[:], rank=rank)
    return syncopate.compile(
        copies_in_parts,
        plan,
        bind={
            "x": Descriptor(x, (64, 64)),
            "y": Descriptor(y, (64, 64)),
            "counters": Scratch((Ctas(),), "i32"),
            "TILES": 5,
            "CTAS": Ctas(),
            "PARTS": Parts(2, count=2),
            "FORM": form,
        },
        tiles=(5,),
        ctas=4,
        strategy=Strategy(realization="copy_engine"),
        options={"num_warps": 4, "num_stages": 1},
    )


def test_kernel_of_ones_own_runs():
    result = copy_in_parts("last").simulate(calls=3)
    assert result.verdict.ok, result.verdict
    for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
        for found in outputs["y"]:
            assert (found[:160] == inputs["x"][0]).all()
            assert (found[160:] == inputs["x"][1]).all()


@pytest.mark.parametrize("form", ["first", "not last", "all"])
def test_stores_of_parts_that_are_not_the_last_are_refused(form):
    with pytest.raises(
        PlanError,
        match='expects stores to "y" of a tile that several CTAs compute to stand in a branch',
    ):
        copy_in_parts(form)


def test_kernel_that_walks_whole_tiles_only_is_refused():
    plan = syncopate.Plan("ag_gemm", [2])
    a = plan.buffer("a", (128, 264), "bf16", shard_axis=0)
    plan.all_gather(a, axis=0)
    arguments = bind_gemm(a, 96, SMALL)
    bind = {**arguments["bind"], "SPLIT": False}
    with pytest.raises(
        PlanError, match="expects a loop over the tiles of whole rounds and one over"
    ):
        syncopate.compile(gemm, plan, **{**arguments, "bind": bind})
    bind |= {"parts": 1, "GROUP_M": Parts(9, count=2)}
    with pytest.raises(PlanError, match="expects the loop over whole tiles to end at 10"):
        syncopate.compile(gemm, plan, **{**arguments, "bind": bind})


def test_two_numbers_of_parts_are_refused():
    plan = syncopate.Plan("ag_gemm", [2])
    arguments = bind_gemm(Tensor("a", (128, 264), "bf16"), 96, SMALL)
    bind = {**arguments["bind"], "GROUP_M": Parts(9, count=3)}
    with pytest.raises(SyncopateError, match="expects one number of parts, but got 2, 3"):
        syncopate.compile(gemm, plan, **{**arguments, "bind": bind})


@triton.jit
def counts_its_parts(x, y, counters):
    """A grid of five tiles in two parts each, which are tiles of the kernel themselves."""
    t = tl.program_id(0)
    m, _, _ = sy.tile(t, t // 2, t % 2)
    block = x.load([m * 64, 0])
    if sy.last_part(counters + m, 2):
        y.store([m * 64, 0], block)


def test_tiles_that_count_by_themselves_are_no_parts():
    """Without `Parts`, each tile is complete when it is done, so a store that only some carry out is refused."""
    plan = syncopate.Plan("copies", [2])
    x = plan.buffer("x", (320, 64), "bf16", shard_axis=0)
    plan.all_gather(x, axis=0)
    y = plan.buffer("y", (320, 64), "bf16")
    for rank in range(2):
        plan.produce(y[:], rank=rank)
        plan.output(y[:], rank=rank)
    with pytest.raises(PlanError, match="it may leave out part of the region"):
        syncopate.compile(
            counts_its_parts,
            plan,
            bind={
                "x": Descriptor(x, (64, 64)),
                "y": Descriptor(y, (64, 64)),
                "counters": Scratch((5,), "i32"),
            },
            tiles=(5, 2),
            ctas=10,
        )
