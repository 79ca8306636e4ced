"""GEMMs whose results library calls bring together, and what they should give."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from sim_compile import compile_program

import syncopate
from syncopate.choices import Combine
from syncopate.kernels import GemmConfig, bind_gemm, gemm
from syncopate.plan.builder import shard
from syncopate.plan.templates import all_reduce_tiles, all_to_all_tiles, reduce_scatter_tiles
from syncopate.sim.simulate import Result

KINDS = ("all_reduce", "reduce_scatter", "all_to_all")
SMALL = GemmConfig(block_m=64, block_n=64, num_warps=4, num_ctas=3)


@functools.cache
def gemm_calls(
    kind: str,
    world: int,
    shape: tuple[int, int, int],
    *,
    dtype: str = "bf16",
    waves: tuple[int, ...] = (),
    slots: str = "rows",
    config: GemmConfig = SMALL,
    named: bool = False,
    **options: Any,
) -> Any:
    """C = A Bᵀ on every rank, and a collective of it; the plan names its realization, or the strategy does."""
    m, n, k = shape
    plan = syncopate.Plan(kind, [world])
    c = plan.buffer("c", (m, n), dtype)
    strategy = syncopate.Strategy(
        realization="copy_engine" if named else "nccl",
        waves=waves,
        slots=slots,
        comm_ctas=2,
        combine=Combine.COLLECTIVE if named else None,
    )
    if named:
        _add_named(plan, kind, c)
    elif kind == "all_reduce":
        all_reduce_tiles(plan, c, strategy)
    elif kind == "reduce_scatter":
        reduce_scatter_tiles(plan, c, strategy)
    else:
        all_to_all_tiles(plan, c, plan.buffer("received", (m, n), dtype))
    bind = bind_gemm(syncopate.Tensor("a", (m, k), dtype), n, config, c=c)
    return compile_program(gemm, plan, **bind, strategy=strategy, **options)


def routed_calls(
    shape: tuple[int, int, int],
    capacity: int,
    rows: Any,
    *,
    config: GemmConfig = SMALL,
    **strategy: Any,
) -> Any:
    """C = A Bᵀ on every rank, of which ranks send each other rows; `received` has room for so many of each."""
    (m, n, k), world = shape, len(rows)
    plan = syncopate.Plan("routed", [world])
    c, received = (
        plan.buffer("c", (m, n), "bf16"),
        plan.buffer("received", (capacity * world, n), "bf16"),
    )
    all_to_all_tiles(plan, c, received, rows)
    bind = bind_gemm(syncopate.Tensor("a", (m, k), "bf16"), n, config, c=c)
    chosen = syncopate.Strategy(comm_ctas=2, combine=Combine.COLLECTIVE, **strategy)
    return compile_program(gemm, plan, **bind, strategy=chosen)


def random_rows(draw: Any, world: int, m: int, capacity: int) -> list[list[int]]:
    """By rank, rows for each place of the blocks that it sends, in any order, or none; not all rows are sent."""
    result = []
    for _ in range(world):
        places = draw.permutation(world * capacity)[
            : draw.integers(1, min(m, world * capacity) + 1)
        ]
        rows = np.full(world * capacity, -1)
        rows[places] = draw.permutation(m)[: len(places)]
        result.append(rows.tolist())
    return result


def routed_error(rows: Any, result: Result) -> float:
    """Of all rows that are sent, relative to the largest element; rows that are not sent have to be undefined."""
    errors = []
    for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
        pairs = zip(inputs["a"], inputs["b"], strict=True)
        products = [a.astype(np.float64) @ b.astype(np.float64).T for a, b in pairs]
        for rank, found in enumerate(outputs["received"]):
            blocks = np.split(np.array(rows), len(rows), axis=1)[rank]
            right = np.concatenate(
                [
                    np.where(b[:, None] < 0, np.nan, p[b])
                    for b, p in zip(blocks, products, strict=True)
                ]
            )
            assert np.array_equal(np.isnan(found), np.isnan(right))
            errors.append(np.nanmax(np.abs(found - right), initial=0) / np.abs(products).max())
    return float(np.max(errors))


def _add_named(plan: Any, kind: str, c: Any) -> None:
    """The collective of a template, with a realization of its own."""
    ranks = range(plan.world_size)
    made = [plan.produce(c[:], rank=rank) for rank in ranks]
    if kind == "all_to_all":
        received = plan.buffer("received", c.shape, c.dtype)
        plan.all_to_all(c, received, after=made, realization="nccl")
        parts = [received[:]] * len(ranks)
    elif kind == "all_reduce":
        plan.all_reduce(c, after=made, realization="nccl")
        parts = [c[:]] * len(ranks)
    else:
        plan.reduce_scatter(c, after=made, realization="nccl")
        parts = shard(c, 0, len(ranks))
    for rank in ranks:
        plan.output(parts[rank], rank=rank)


def expected(kind: str, inputs: Any, rank: int) -> Any:
    """What a rank gets, in float64."""
    pairs = zip(inputs["a"], inputs["b"], strict=True)
    products = [a.astype(np.float64) @ b.astype(np.float64).T for a, b in pairs]
    rows = -(-len(products[0]) // len(products))
    mine = slice(rank * rows, (rank + 1) * rows)
    if kind == "all_to_all":
        return np.concatenate([product[mine] for product in products])
    return sum(products) if kind == "all_reduce" else sum(products)[mine]


def largest_error(kind: str, result: Result) -> float:
    """Of all outputs, relative to the largest element; not a number if one is none."""
    errors = []
    for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
        (found,) = (values for name, values in outputs.items() if name in ("c", "received"))
        for rank, values in enumerate(found):
            right = expected(kind, inputs, rank)
            assert values.shape == right.shape
            if not right.size:
                continue
            errors.append(np.abs(values - right).max() / np.abs(right).max())
    return float(np.max(errors))
