"""Programs of other shapes: another schedule for the same machine code, and right results with it."""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np
import pytest
from sim_programs import SMALL, largest_error
from sim_sums import Collective, SumCase

import syncopate
from syncopate import Descriptor, bridge
from syncopate.choices import Combine, Direction, Realization
from syncopate.compiler.schedules import schedule_statistics
from syncopate.kernels import GemmConfig, bind_gemm, gemm
from syncopate.plan.templates import all_reduce_tiles, reduce_scatter_tiles
from syncopate.sim.simulate import simulate

WORLD, N, K = 3, 72, 40


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What has been compiled since: local kernels to TritonGPU IR, and fused ones to machine code."""
    done: list[str] = []

    def count(name: str) -> None:
        original = getattr(bridge, name)

        def counted(*args: Any, **kw: Any) -> Any:
            done.append(name)
            return original(*args, **kw)

        monkeypatch.setattr(bridge, name, counted)

    count("capture_ttgir")
    count("compile_with")
    return done


def gather(m: int, realization: Realization, **choices: Any) -> Any:
    plan = syncopate.Plan("gather", [WORLD])
    a = plan.buffer("a", (m, K), "bf16", shard_axis=0)
    plan.all_gather(a)
    strategy = syncopate.Strategy(realization=realization, comm_ctas=2, **choices)
    return syncopate.compile(gemm, plan, **bind_gemm(a, N, SMALL), strategy=strategy)


def without_locations(text: str) -> str:
    """A module in which nothing names the files and lines that it comes from."""
    kept = [line for line in text.splitlines() if not line.startswith("#loc")]
    return re.sub(r" loc\([^()]*(\([^()]*(\([^()]*\)[^()]*)*\)[^()]*)*\)", "", "\n".join(kept))


def fresh_rows() -> tuple[int, list[int]]:
    """Numbers of rows, one of which is whole tiles for every rank: it is read where the caller has it."""
    seed = random.randrange(1 << 30)
    draw = random.Random(seed)
    return seed, [WORLD * SMALL.block_m * draw.randrange(1, 3), *draw.sample(range(WORLD, 400), 5)]


@pytest.mark.parametrize(
    "realization", [Realization.LDST_COLOCATED, Realization.COPY_ENGINE, Realization.TMA_DEDICATED]
)
def test_gathers_of_any_number_of_rows_are_compiled_once(realization, compilations):
    first = gather(2 * WORLD, realization)
    compilations.clear()
    seed, sizes = fresh_rows()
    for m in sizes:
        program = gather(m, realization)
        assert program.image is first.image, f"seed {seed}: {m} rows"
        result = simulate(program, calls=2, seed=m)
        assert result.verdict.ok, f"seed {seed}, {m} rows: {result.verdict}"
        assert largest_error(result) < 5e-3, f"seed {seed}, {m} rows"
    assert not compilations


def test_own_rows_are_read_where_the_caller_has_them_if_tiles_end_with_them():
    """What code does with the rank's own rows is data as well."""
    whole = gather(WORLD * SMALL.block_m, Realization.LDST_COLOCATED)
    other = gather(WORLD * SMALL.block_m + WORLD, Realization.LDST_COLOCATED)
    assert whole.image is other.image
    assert (whole.localized, other.localized) == ("a", None)


def _random_gemm(kind: str, m: int, n: int) -> Any:
    """A GEMM whose tiles of 32 by 32 on 5 CTAs leave a last round, or do not, as it comes."""
    config = GemmConfig(block_m=32, block_n=32, block_k=32, num_warps=4, num_ctas=5)
    plan, k = syncopate.Plan(kind, [2]), 8 * 32
    if kind == "ag_gemm":
        a = plan.buffer("a", (m, k), "bf16", shard_axis=0)
        plan.all_gather(a)
        return syncopate.compile(gemm, plan, **bind_gemm(a, n, config))
    c = plan.buffer("c", (m, n), "bf16")
    strategy = syncopate.Strategy(combine=Combine.ROLE, shots="two" if kind == "gemm_ar" else None)
    (reduce_scatter_tiles if kind == "gemm_rs" else all_reduce_tiles)(plan, c, strategy)
    a = syncopate.Tensor("a", (m, k), "bf16")
    return syncopate.compile(gemm, plan, **bind_gemm(a, n, config, c=c))


@pytest.mark.parametrize("kind", ["ag_gemm", "gemm_rs", "gemm_ar"])
def test_two_hundred_random_shapes_are_compiled_once(kind, compilations):
    seed = random.randrange(1 << 30)
    draw = random.Random(seed)
    # Some columns by which no row is moved in smaller units.
    first = _random_gemm(kind, 999, 104)
    compilations.clear()
    parts = set()
    # A rank has two tiles or more for each other one: a single one it would hand over, which is other code.
    for m in [draw.randrange(129, 3000) for _ in range(200)]:
        program = _random_gemm(kind, m, draw.choice([104, 72, 136]))
        assert program.image is first.image, f"seed {seed}: {m} rows"
        count = len(program.rank_tables(0)["tiles"].values)
        parts.add(count > int(np.prod(program.tiles)))
    assert parts == {False, True}
    assert not compilations


@pytest.mark.parametrize("kind", ["ag_gemm", "gemm_rs", "gemm_ar"])
def test_random_shapes_are_right(kind):
    seed = random.randrange(1 << 30)
    draw = random.Random(seed)
    for _ in range(4):
        m, n = draw.randrange(129, 400), draw.choice([104, 72, 136])
        program = _random_gemm(kind, m, n)
        result = simulate(program, calls=2, seed=draw.randrange(100))
        assert result.verdict.ok, f"seed {seed}, {m} rows: {result.verdict}"
        for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
            pairs = list(zip(inputs["a"], inputs["b"], strict=True))
            if kind == "ag_gemm":
                whole = np.concatenate(inputs["a"])
                right = [whole.astype(np.float64) @ b.T for b in inputs["b"]]
            else:
                total = np.sum([a.astype(np.float64) @ b.T for a, b in pairs], axis=0)
                half = -(-m // 2)
                right = [total, total] if kind == "gemm_ar" else [total[:half], total[half:]]
            for found, expected in zip(outputs["c"], right, strict=True):
                assert found.shape == expected.shape
                error = np.abs(found - expected).max() / np.abs(expected).max()
                assert error < 2e-2, f"seed {seed}: {m} by {n}"


@pytest.mark.parametrize("combine", [Combine.ROLE, Combine.DESTINATION])
def test_sums_of_any_number_of_rows_are_compiled_once(combine, compilations):
    def build(m: int) -> SumCase:
        return SumCase(
            Collective.REDUCE_SCATTER,
            combine,
            Direction.PUSH,
            Realization.LDST_COLOCATED,
            world=WORLD,
            shape=(m, N, K),
        )

    first = build(200).build()
    compilations.clear()
    seed, sizes = fresh_rows()
    for m in sizes:
        case = build(WORLD * m)
        program = case.build()
        assert program.image is first.image, f"seed {seed}: {WORLD * m} rows"
        result = simulate(program, calls=2, seed=m)
        assert result.verdict.ok, f"seed {seed}, {WORLD * m} rows: {result.verdict}"
        assert case.error(result) < case.tolerance, f"seed {seed}, {WORLD * m} rows"
    assert not compilations


def test_the_code_is_what_the_passes_would_make_of_the_other_plan():
    one, other = (gather(m, Realization.LDST_COLOCATED, splits=m // 100) for m in (100, 300))
    assert one.image is other.image
    assert one.ir["lowered"] != other.ir["lowered"]
    # The module that holds the kernel is the last one.
    kernels = [without_locations(program.ir["lowered"]) for program in (one, other)]
    assert "loc(" not in kernels[0]
    one_text, other_text = (text[text.index("module @ttgir") :] for text in kernels)
    assert one_text == other_text


def product_of_gathered(aliased: bool, m: int) -> Any:
    """C = A · Bᵀ with both gathered, or with one gathered A for both."""
    plan = syncopate.Plan("product", [WORLD])
    a = plan.buffer("a", (m, K), "bf16", shard_axis=0)
    plan.all_gather(a)
    b = a
    if not aliased:
        b = plan.buffer("b", (m, K), "bf16", shard_axis=0)
        plan.all_gather(b)
    bound = bind_gemm(a, m, SMALL)
    bound["bind"]["b_desc"] = Descriptor(b, bound["bind"]["b_desc"].block)
    return syncopate.compile(gemm, plan, **bound)


def test_one_buffer_for_two_arguments_is_other_code_than_two_buffers():
    m = WORLD * SMALL.block_m
    first, second = (product_of_gathered(aliased, m) for aliased in (False, True))
    assert first.image != second.image
    for program in (first, second):
        result = simulate(program, calls=2, seed=3)
        assert result.verdict.ok, result.verdict
        for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
            a = np.concatenate(inputs["a"]).astype(np.float64)
            b = np.concatenate(inputs["b"]).astype(np.float64) if "b" in inputs else a
            for out in outputs["c"]:
                error = np.abs(out.astype(np.float64) - a @ b.T).max() / np.abs(a @ b.T).max()
                assert error < 5e-3


@pytest.mark.parametrize(
    "change",
    [{"direction": "pull"}, {"realization": Realization.LDST_DEDICATED}],
    ids=["direction", "realization"],
)
def test_what_code_depends_on_makes_another_kernel(change):
    """Remote loads come in larger blocks; roles are code."""
    choices = {"realization": Realization.LDST_COLOCATED, **change}
    assert gather(100, **choices).image != gather(100, Realization.LDST_COLOCATED).image


def test_rows_that_can_only_be_moved_in_smaller_units_make_another_kernel():
    def build(columns: int) -> Any:
        plan = syncopate.Plan("gather", [WORLD])
        a = plan.buffer("a", (120, K), "bf16", shard_axis=0)
        b = plan.buffer("extra", (WORLD, columns), "bf16", shard_axis=0)
        plan.all_gather(a)
        plan.all_gather(b)
        return syncopate.compile(gemm, plan, **bind_gemm(a, N, SMALL))

    wide, narrow = build(8), build(4)
    assert wide.image != narrow.image
    assert simulate(narrow).verdict.ok


def test_a_schedule_is_made_once():
    seed, (m, *_) = fresh_rows()
    first = gather(m, Realization.LDST_COLOCATED)
    before = schedule_statistics.misses
    again = gather(m, Realization.LDST_COLOCATED)
    assert schedule_statistics.misses == before, f"seed {seed}"
    assert again.tables is first.tables
    assert gather(m + 400, Realization.LDST_COLOCATED).tables is not first.tables
    assert schedule_statistics.misses == before + 1, f"seed {seed}"


def test_a_footprint_that_has_changed_is_asked_again():
    """One function, which gives other rows the second time."""
    step = {"rows": SMALL.block_m}
    footprint = syncopate.Footprint(
        "a_desc", lambda m, n: (m * step["rows"], 0), (SMALL.block_m, K)
    )
    tiles = []
    for rows in (SMALL.block_m, SMALL.block_m // 2):
        step["rows"] = rows
        plan = syncopate.Plan("gather", [WORLD])
        a = plan.buffer("a", (WORLD * SMALL.block_m, K), "bf16", shard_axis=0)
        plan.all_gather(a)
        bound = bind_gemm(a, N, SMALL)
        program = syncopate.compile(gemm, plan, **bound, footprints=[footprint])
        tiles.append(program.rank_tables(0)["tiles"].values.tolist())
    assert tiles[0] != tiles[1]
