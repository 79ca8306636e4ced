"""Programs of kernels that store their tiles in several ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import producer_kernels as kernels

import syncopate
from syncopate import Pointer, Tensor
from syncopate.plan.templates import reduce_scatter_tiles

__all__ = ["Producer"]

BM, BN, BK = 32, 64, 16


class Producer:
    """A kernel whose tiles compute parts of a sum over the ranks; each rank gets a block of the rows.

    Attributes:
        program: The program.
        inputs: Shape of each input of a rank, all of them f16.
    """

    def __init__(
        self,
        kernel: Any,
        dtype: str = "bf16",
        *,
        world: int = 2,
        stages: int = 3,
        **values: Any,
    ):
        m, n, k = 64 * world, 80, 48
        plan = syncopate.Plan("sum", [world])
        c = plan.buffer("c", (m, n), dtype)
        reduce_scatter_tiles(plan, c)
        tiles = (m // BM, -(-n // BN))
        ctas = tiles[0] * tiles[1] if kernel is kernels.one_tile else 3
        self.inputs = {"a": (m, k), "b": (n, k)}
        if kernel is kernels.copy_in_loop:
            self.inputs = {"a": (m, n)}
        tensors = {name: Tensor(name, shape, "f16") for name, shape in self.inputs.items()}
        bind = {
            **{f"{name}_ptr": Pointer(tensor) for name, tensor in tensors.items()},
            "c_ptr": Pointer(c),
            "M": m,
            "N": n,
            "K": k,
            "BM": BM,
            "BN": BN,
            "BK": BK,
            "CTAS": ctas,
            **values,
        }
        names = [parameter.name for parameter in kernel.params]
        self.program = syncopate.compile(
            kernel,
            plan,
            bind={name: bind[name] for name in names},
            tiles=tiles,
            ctas=ctas,
            options={"num_warps": 4, "num_stages": stages},
        )

    def check(self, tolerance: float) -> None:
        """Simulates calls on random data, against NumPy in float64."""
        for seed in range(3):
            result = self.program.simulate(calls=2, seed=seed)
            assert result.verdict.ok, result.verdict
            for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
                assert self.error(inputs, outputs["c"]) < tolerance

    @staticmethod
    def error(inputs: Mapping[str, Sequence[Any]], outputs: Sequence[Any]) -> float:
        """How far the blocks of all ranks are from the sum, relative to its largest element."""
        parts = [np.asarray(a, np.float64) for a in inputs["a"]]
        if "b" in inputs:
            factors = [np.asarray(b, np.float64).T for b in inputs["b"]]
            parts = [a @ b for a, b in zip(parts, factors, strict=True)]
        want = sum(parts)
        got = np.concatenate([np.asarray(block, np.float64) for block in outputs])
        return float(np.abs(got - want).max() / np.abs(want).max())
