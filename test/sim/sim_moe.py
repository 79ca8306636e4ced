"""Programs that dispatch tokens to experts, multiply them there and bring them back, and routings that they stand."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sim_compile import compile_program

import syncopate
from syncopate.choices import Combine, Realization
from syncopate.kernels import (
    GemmConfig,
    bind_combine_rows,
    bind_grouped_gemm,
    combine_rows,
    grouped_gemm,
)
from syncopate.plan.tokens import RoutingShape, combine_tokens, dispatch_tokens
from syncopate.runtime.routing import RoutedTokens, route_tokens
from syncopate.sim.simulate import Result, simulate

__all__ = ["COMBINES", "MOE", "ROUTINGS", "CombineCase", "MoeCase", "check_combine", "check_moe"]

LDST = Realization.LDST_COLOCATED
Generator = np.random.Generator


@dataclass(frozen=True)
class MoeCase:
    """One program.

    Attributes:
        shape: Sizes of the routing.
        n: Columns of each expert's output.
        width: Elements of a token.
        realization: Of the transfers.
        direction: Who carries them out.
        ctas: CTAs that compute.
        tolerance: Largest relative error that rounding to the output's type explains.
    """

    shape: RoutingShape
    n: int = 64
    width: int = 64
    realization: Realization = LDST
    direction: str = "push"
    ctas: int = 2
    dtype: str = "bf16"
    tolerance: float = 1e-2

    @property
    def name(self) -> str:
        """What tells it from the others."""
        shape = self.shape
        sizes = f"{shape.tokens}x{shape.top_k}of{shape.experts}-{shape.splits}"
        return f"w{shape.world_size}-{sizes}-n{self.n}-k{self.width}-{self.direction}-{self.realization.value}"

    def build(self) -> Any:
        """The program."""
        return _build(self)


@functools.cache
def _build(case: MoeCase) -> Any:
    plan = syncopate.Plan("moe", [case.shape.world_size])
    strategy = syncopate.Strategy(
        direction=case.direction, realization=case.realization, comm_ctas=2
    )
    dispatch = dispatch_tokens(plan, case.shape, case.width, case.dtype, strategy=strategy)
    config = GemmConfig(
        block_m=case.shape.block_m, block_n=64, block_k=32, num_warps=4, num_ctas=case.ctas
    )
    return compile_program(
        grouped_gemm,
        plan,
        **bind_grouped_gemm(dispatch, case.shape, case.n, config),
    )


def _random(case: RoutingShape, generator: Generator) -> Any:
    """Distinct experts of each token, as a router gives them."""
    scores = generator.random((case.world_size, case.tokens, case.experts))
    return np.argsort(scores, -1)[..., : case.top_k]


def _all_to_one(case: RoutingShape, generator: Generator) -> Any:
    """All tokens choose one expert, as often as they can."""
    expert = generator.integers(case.experts)
    return np.full((case.world_size, case.tokens, case.top_k), expert)


def _one_rank(case: RoutingShape, generator: Generator) -> Any:
    """All tokens choose experts of one rank; the others have nothing to compute."""
    rank, local = generator.integers(case.world_size), case.experts // case.world_size
    return generator.integers(rank * local, (rank + 1) * local, _random(case, generator).shape)


def _nobody(case: RoutingShape, generator: Generator) -> Any:
    """No token chooses any expert."""
    return np.full((case.world_size, case.tokens, case.top_k), -1)


def _few_experts(case: RoutingShape, generator: Generator) -> Any:
    """Every other expert is chosen by nobody, and some tokens choose nothing."""
    choices = _random(case, generator) // 2 * 2
    choices[:, generator.random(case.tokens) < 0.3] = -1
    return choices


def _last_tokens(case: RoutingShape, generator: Generator) -> Any:
    """Only the last token of one rank chooses experts."""
    choices = _nobody(case, generator)
    choices[generator.integers(case.world_size), -1] = _random(case, generator)[0, 0]
    return choices


ROUTINGS: Mapping[str, Callable[[RoutingShape, Generator], Any]] = {
    "random": _random,
    "all to one expert": _all_to_one,
    "one rank": _one_rank,
    "nobody": _nobody,
    "few experts": _few_experts,
    "last tokens": _last_tokens,
}

MOE = [
    MoeCase(RoutingShape(2, 24, 2, 4, block_m=16)),
    MoeCase(RoutingShape(2, 21, 2, 4, block_m=16, splits=2), n=72, width=72),
    MoeCase(RoutingShape(3, 11, 2, 6, block_m=16, splits=3), n=40, width=40, ctas=3),
    MoeCase(
        RoutingShape(2, 21, 2, 4, block_m=16, splits=2), realization=Realization.LDST_DEDICATED
    ),
    MoeCase(RoutingShape(2, 21, 2, 4, block_m=16, splits=2), realization=Realization.TMA_COLOCATED),
    MoeCase(RoutingShape(3, 9, 1, 3, block_m=16), realization=Realization.TMA_DEDICATED),
    MoeCase(RoutingShape(2, 21, 2, 4, block_m=16, splits=2), realization=Realization.NCCL),
    MoeCase(RoutingShape(3, 11, 2, 6, block_m=16, splits=2), n=40, width=40, direction="pull"),
]


@dataclass(frozen=True)
class MoeCall:
    """What one call takes, and what is right."""

    inputs: Mapping[str, list[Any]]
    routed: list[RoutedTokens]
    expected: list[Any]


def make_call(case: MoeCase, choices: Any, generator: Generator) -> MoeCall:
    """Draws tokens and weights, and computes by token and expert what the program computes by blocks."""
    shape = case.shape
    ranks = range(shape.world_size)
    routed = [route_tokens(torch.from_numpy(choices.astype(np.int64)), r, shape) for r in ranks]
    rows = shape.experts_per_rank * case.n
    tokens = [_rounded(generator, (shape.tokens, case.width)) for _ in ranks]
    weights = [_rounded(generator, (rows, case.width)) for _ in ranks]
    inputs = {
        "tokens": tokens,
        "tokens_sends": [x[r.send_rows.numpy()] for x, r in zip(tokens, routed, strict=True)],
        "tokens_words": [r.words.numpy() for r in routed],
        "rows": [r.rows.numpy() for r in routed],
        "experts": [r.experts.numpy() for r in routed],
        "used": [r.used.numpy() for r in routed],
        "b": weights,
    }
    # Rows that no choice stands at are zeros in a block that is used, and nothing at all in others.
    expected = [np.full((shape.blocks * shape.block_m, case.n), np.nan) for _ in ranks]
    for rank in ranks:
        used = routed[rank].experts.numpy() >= 0
        expected[rank][np.repeat(used, shape.block_m)] = 0
    everyone = np.concatenate(tokens).astype(np.float64)
    for token, experts in enumerate(choices.reshape(shape.rows, shape.top_k)):
        for number, expert in enumerate(experts):
            if expert < 0:
                continue
            rank, local = divmod(int(expert), shape.experts_per_rank)
            place = routed[rank].places.reshape(shape.rows, shape.top_k)[token, number]
            weight = weights[rank][local * case.n : (local + 1) * case.n].astype(np.float64)
            expected[rank][place] = everyone[token] @ weight.T
    return MoeCall(inputs, routed, expected)


def _rounded(generator: Generator, shape: tuple[int, int]) -> Any:
    values = torch.from_numpy(generator.standard_normal(shape, np.float32))
    return values.bfloat16().float().numpy()


def check_moe(case: MoeCase, names: list[str], seed: int, **options: Any) -> Result:
    """Calls one program with one routing after another.

    Raises:
        AssertionError: Something was found, or a result is wrong.
    """
    generator = np.random.default_rng(seed)
    calls = [make_call(case, ROUTINGS[name](case.shape, generator), generator) for name in names]
    result = simulate(
        case.build(), [call.inputs for call in calls], seed=seed, partial=["c"], **options
    )
    assert result.verdict.ok, f"{case.name}, seed {seed}: {result.verdict}"
    assert len(result.outputs) == len(calls)
    for name, call, outputs in zip(names, calls, result.outputs, strict=True):
        for rank, (out, right) in enumerate(zip(outputs["c"], call.expected, strict=True)):
            where = f"{case.name}, seed {seed}, {name}, rank {rank}"
            used = ~np.isnan(right)
            scale = max(np.linalg.norm(right[used]), 1e-30)
            error = np.linalg.norm(out.astype(np.float64)[used] - right[used])
            assert error <= case.tolerance * scale, f"{where}: {error / scale}"
            # Blocks of no expert are left as they were: poisoned.
            assert np.isnan(out[~used]).all(), where
    return result


@dataclass(frozen=True)
class CombineCase:
    """One program that brings together what experts have computed.

    Attributes:
        shape: Sizes of the routing.
        n: Columns of what an expert computes.
        combine: Who adds the parts of ranks.
        realization: Of the transfers between ranks.
        tolerance: As for `MoeCase`; parts are rounded before they are added.
    """

    shape: RoutingShape
    combine: Combine = Combine.TILES
    n: int = 64
    splits: int = 1
    realization: Realization = LDST
    tolerance: float = 2e-2

    @property
    def name(self) -> str:
        """What tells it from the others."""
        shape = self.shape
        how = f"{self.combine.value}-{self.splits}-{self.realization.value}"
        return f"w{shape.world_size}-{shape.tokens}x{shape.top_k}of{shape.experts}-n{self.n}-{how}"

    def build(self) -> Any:
        """The program."""
        return _build_combine(self)


@functools.cache
def _build_combine(case: CombineCase) -> Any:
    plan = syncopate.Plan("combine", [case.shape.world_size])
    strategy = syncopate.Strategy(
        realization=case.realization, splits=case.splits, combine=case.combine
    )
    combined = combine_tokens(plan, case.shape, case.n, "bf16", strategy=strategy)
    config = GemmConfig(block_m=8, block_n=64, num_warps=4, num_ctas=2)
    return compile_program(combine_rows, plan, **bind_combine_rows(combined, case.shape, config))


COMBINES = [
    CombineCase(RoutingShape(2, 24, 2, 4, block_m=16)),
    CombineCase(RoutingShape(2, 16, 4, 6, block_m=8), splits=2, n=72),
    CombineCase(RoutingShape(3, 11, 3, 6, block_m=16), Combine.ROLE, n=40),
    CombineCase(RoutingShape(3, 8, 2, 3, block_m=8), realization=Realization.COPY_ENGINE),
]


def check_combine(case: CombineCase, names: list[str], seed: int, **options: Any) -> None:
    """Calls one program with one routing after another.

    Raises:
        AssertionError: Something was found, or a result is wrong.
    """
    generator = np.random.default_rng(seed)
    shape, inputs, expected = case.shape, [], []
    for name in names:
        choices = torch.from_numpy(ROUTINGS[name](shape, generator).astype(np.int64))
        routed = [route_tokens(choices, rank, shape) for rank in range(shape.world_size)]
        weights = generator.random((shape.world_size, shape.tokens, shape.top_k), np.float32)
        total = np.zeros((shape.rows, case.n))
        made = []
        for one in routed:
            y = _rounded(generator, (shape.blocks * shape.block_m, case.n))
            # What no choice stands at was never computed, and must not be read.
            y[(one.rows < 0).numpy()] = np.nan
            places = one.places.numpy().reshape(shape.rows, shape.top_k)
            for token, number in np.argwhere(places >= 0):
                weight = weights.reshape(shape.rows, shape.top_k)[token, number]
                total[token] += np.float64(weight) * y[places[token, number]]
            made.append(y)
        inputs.append(
            {
                "y": made,
                "places": [one.places.numpy() for one in routed],
                "weights": [weights] * shape.world_size,
            }
        )
        expected.append(total.reshape(shape.world_size, shape.tokens, case.n))
    result = simulate(case.build(), inputs, seed=seed, **options)
    assert result.verdict.ok, f"{case.name}, seed {seed}: {result.verdict}"
    for name, outputs, right in zip(names, result.outputs, expected, strict=True):
        for rank, out in enumerate(outputs["combined"]):
            error = np.linalg.norm(out.astype(np.float64) - right[rank])
            where = f"{case.name}, seed {seed}, {name}, rank {rank}: {error}"
            assert error <= case.tolerance * np.linalg.norm(right[rank]), where
