"""GEMMs of every element type, with operands in either layout, with a bias and an activation, in programs."""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sim_compile import compile_program

import syncopate
from syncopate.choices import Combine
from syncopate.kernels import (
    Activation,
    GemmConfig,
    Precision,
    bind_gemm,
    bind_gemm_pointers,
    gemm,
    gemm_pointers,
)
from syncopate.plan.templates import all_reduce_tiles, reduce_scatter_tiles

__all__ = ["GEMMS", "GemmCase", "Program"]

TINY = GemmConfig(block_m=32, block_n=32, block_k=32, num_warps=4, num_ctas=2)


class Program(enum.Enum):
    """What surrounds the GEMM."""

    AG = "ag"
    """A is gathered."""
    RS = "rs"
    """C is a part of a sum of which each rank gets a block of rows."""
    AR = "ar"
    """C is a part of a sum."""
    A2A = "a2a"
    """Block j of C's rows goes to rank j."""


@dataclass(frozen=True)
class GemmCase:
    """One program.

    Attributes:
        shape: M, N and K of a rank.
        tolerance: Largest error, relative to the largest element, that the types explain.
        pointers: Whether the kernel is `gemm_pointers`.
    """

    program: Program
    dtype: str = "bf16"
    out_dtype: str = "bf16"
    world: int = 2
    shape: tuple[int, int, int] = (128, 48, 48)
    transpose_a: bool = False
    transpose_b: bool = False
    bias: bool = False
    activation: Activation | None = None
    precision: Precision = Precision.TF32
    combine: Combine = Combine.TILES
    direction: str = "push"
    realization: str = "ldst_colocated"
    target: str = "sm_90"
    tolerance: float = 1e-2
    pointers: bool = True
    config: GemmConfig = TINY

    @property
    def name(self) -> str:
        """What tells it from the others."""
        parts = [self.program.value, self.dtype, self.out_dtype, f"w{self.world}"]
        parts += ["x".join(map(str, self.shape)), self.realization, self.target]
        parts += ["pointers" if self.pointers else "descriptors", self.combine.value]
        parts += ["At"] if self.transpose_a else []
        parts += ["Bt"] if self.transpose_b else []
        parts += ["bias"] if self.bias else []
        parts += [self.activation.value] if self.activation else []
        parts += [self.precision.value] if self.dtype == "f32" else []
        return "-".join(parts)

    @functools.cache  # noqa: B019
    def build(self) -> Any:
        """Compiles it, once."""
        m, n, k = self.shape
        plan = syncopate.Plan("gemm", [self.world])
        dedicated = self.realization == "ldst_dedicated" or self.target != "sm_90"
        strategy = syncopate.Strategy(
            direction=self.direction,
            realization=self.realization,
            splits=0 if self.program in (Program.AG, Program.A2A) else 2,
            comm_ctas=2,
            combine=self.combine,
            reducing="ldst_dedicated" if dedicated else "ldst_colocated",
        )
        shape, axis = ((k, m), 1) if self.transpose_a else ((m, k), 0)
        a: Any = syncopate.Tensor("a", shape, self.dtype)
        c = None
        if self.program is Program.AG:
            a = plan.buffer("a", shape, self.dtype, shard_axis=axis)
            plan.all_gather(a, axis=axis)
        else:
            c = plan.buffer("c", (m, n), self.out_dtype)
        if self.program is Program.A2A:
            made = [plan.produce(c[:], rank=rank) for rank in range(self.world)]
            rows = -(-m // self.world)
            arrived = plan.buffer("arrived", (rows * self.world, n), self.out_dtype)
            plan.all_to_all(c, arrived, after=made)
            for rank in range(self.world):
                plan.output(arrived[:], rank=rank)
        elif c is not None:
            add = reduce_scatter_tiles if self.program is Program.RS else all_reduce_tiles
            add(plan, c, strategy)
        bind = bind_gemm_pointers if self.pointers else bind_gemm
        return compile_program(
            gemm_pointers if self.pointers else gemm,
            plan,
            **bind(
                a,
                n,
                self.config,
                c=c,
                out_dtype=self.out_dtype,
                transpose_a=self.transpose_a,
                transpose_b=self.transpose_b,
                bias=self.bias,
                activation=self.activation,
                precision=self.precision,
            ),
            strategy=strategy,
            target=self.target,
        )

    def expected(self, inputs: Mapping[str, Any]) -> list[Any]:
        """By rank, what a call gives, in float64."""
        a = [self._wide(x).T if self.transpose_a else self._wide(x) for x in inputs["a"]]
        b = [self._wide(x) if self.transpose_b else self._wide(x).T for x in inputs["b"]]
        if self.program is Program.AG:
            a = [np.concatenate(a)] * self.world
        c = [
            self._finish(x @ y, inputs, rank) for rank, (x, y) in enumerate(zip(a, b, strict=True))
        ]
        if self.program is Program.AG:
            return c
        rows = -(-self.shape[0] // self.world)
        blocks = [slice(rank * rows, (rank + 1) * rows) for rank in range(self.world)]
        if self.program is Program.A2A:
            return [np.concatenate([part[block] for part in c]) for block in blocks]
        total = sum(c)
        return (
            [total[block] for block in blocks]
            if self.program is Program.RS
            else [total] * self.world
        )

    def error(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> float:
        """How far outputs are from that, relative to the largest element."""
        found = outputs["arrived" if self.program is Program.A2A else "c"]
        # NumPy's maximum is NaN if an output holds one.
        errors = [
            np.abs(self._wide(out)[: len(right)] - right).max() / np.abs(right).max()
            for right, out in zip(self.expected(inputs), found, strict=True)
        ]
        return float(np.max(errors))

    @staticmethod
    def _wide(x: Any) -> Any:
        return np.asarray(x, np.float64)

    def _finish(self, c: Any, inputs: Mapping[str, Any], rank: int) -> Any:
        if self.bias:
            c = c + self._wide(inputs["bias"][rank])
        if self.activation is Activation.RELU:
            return np.maximum(c, 0)
        if self.activation is Activation.GELU:
            return c * np.vectorize(lambda x: 0.5 * math.erfc(-x / math.sqrt(2)))(c)
        if self.activation is Activation.SILU:
            return c / (1 + np.exp(-c))
        return c


_AG, _RS, _AR, _A2A = Program
_RELU, _GELU, _SILU = Activation
_DEDICATED, _ENGINE = "ldst_dedicated", "copy_engine"
GEMMS: tuple[GemmCase, ...] = (
    # Tiles that add by pointers, on targets without TMA as well; blocks of rows that are no whole tiles.
    GemmCase(_RS),
    GemmCase(_AR, world=3, shape=(192, 50, 41)),
    GemmCase(_RS, world=3, shape=(192, 50, 41), realization=_ENGINE, target="sm_80"),
    GemmCase(_AR, realization=_DEDICATED, target="sm_80"),
    GemmCase(_RS, realization=_DEDICATED, direction="pull", target="sm_89"),
    GemmCase(_RS, world=3, shape=(100, 50, 41), combine=Combine.ROLE, direction="pull"),
    GemmCase(_AR, shape=(75, 50, 41), combine=Combine.ROLE, realization=_ENGINE, target="sm_80"),
    GemmCase(_RS, realization="tma_colocated"),
    GemmCase(_AR, world=3, shape=(192, 48, 48), realization="tma_dedicated"),
    # Element types.
    GemmCase(_RS, "f16", "f16", tolerance=2e-3),
    GemmCase(_AR, "f16", "f16", world=3, shape=(192, 50, 41), realization=_ENGINE, tolerance=2e-3),
    GemmCase(_RS, "f8E4M3FN", "bf16", world=3, shape=(192, 50, 41)),
    GemmCase(_AR, "f8E5M2", "f16", tolerance=2e-3),
    GemmCase(_RS, "f8E4M3FN", "bf16", target="sm_89", realization=_ENGINE, transpose_a=True),
    GemmCase(_AR, "f8E4M3FN", "bf16", pointers=False, shape=(128, 48, 80)),
    GemmCase(_RS, "f32", "f32", precision=Precision.IEEE, tolerance=1e-6),
    GemmCase(_RS, "f32", "f32", world=3, shape=(192, 50, 41), tolerance=1e-6),
    GemmCase(_AR, "f32", "f32", target="sm_80", realization=_ENGINE, tolerance=1e-6),
    GemmCase(_AR, "f32", "f32", pointers=False, shape=(128, 52, 44), tolerance=1e-6),
    GemmCase(_RS, "bf16", "f8E5M2", tolerance=0.2),
    # Layouts of the operands.
    GemmCase(_AG, world=3, shape=(100, 50, 41), transpose_a=True),
    GemmCase(_AG, world=2, shape=(96, 40, 56), transpose_a=True, transpose_b=True, pointers=False),
    GemmCase(_RS, world=3, shape=(192, 50, 41), transpose_b=True),
    GemmCase(_AR, shape=(128, 50, 41), transpose_a=True),
    GemmCase(_RS, shape=(128, 56, 40), transpose_a=True, transpose_b=True, pointers=False),
    GemmCase(_RS, "f8E4M3FN", "bf16", transpose_b=True, shape=(128, 50, 41)),
    GemmCase(
        _RS, "f32", "f32", shape=(128, 50, 41), transpose_a=True, transpose_b=True, tolerance=1e-6
    ),
    # Bias and activation.
    GemmCase(_AG, world=3, shape=(100, 50, 41), bias=True, activation=_RELU),
    GemmCase(_AG, world=3, shape=(104, 56, 40), bias=True, activation=_GELU, pointers=False),
    GemmCase(_AG, "f16", "f16", shape=(75, 50, 41), activation=_SILU, tolerance=2e-3),
    GemmCase(_A2A, world=3, shape=(96, 50, 41), bias=True, activation=_SILU),
    GemmCase(_A2A, shape=(96, 56, 40), bias=True, activation=_RELU, pointers=False),
    GemmCase(_A2A, "f32", "f32", shape=(74, 50, 41), activation=_GELU, tolerance=1e-6),
    GemmCase(_A2A, shape=(96, 50, 41), bias=True, target="sm_80", realization=_DEDICATED),
)
"""GEMMs as parts of programs. M, N and K are rarely multiples of anything."""
