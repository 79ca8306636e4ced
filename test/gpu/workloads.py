"""What the GPU checks run: programs together with the data that they take and the results that are right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from gather import CASES, gather_program

from syncopate.abi import Realization

TOLERANCE = 1e-2


def random_matrix(shape: tuple[int, int], seed: int) -> torch.Tensor:
    """The same random matrix in every process."""
    generator = torch.Generator("cuda").manual_seed(seed)
    return torch.randn(shape, generator=generator, device="cuda").bfloat16()


def poisoned(shape: tuple[int, int]) -> torch.Tensor:
    """An output that no right result equals."""
    return torch.full(shape, float("nan"), dtype=torch.bfloat16, device="cuda")


@dataclass(frozen=True)
class Workload:
    """A program, and what a call of it should give.

    Attributes:
        name: For messages.
        program: The program.
        shape: Of the gathered input.
        out_shape: Of a rank's output.
        tensors: The further tensors of a call on a rank.
        expect: The right output of a rank for a gathered input.
        tolerance: Largest relative error, 0 for equality.
        output: The keyword of the output.
    """

    name: str
    program: Any
    shape: tuple[int, int]
    out_shape: tuple[int, int]
    tensors: Callable[[int], dict[str, torch.Tensor]]
    expect: Callable[[torch.Tensor, int], torch.Tensor]
    tolerance: float
    output: str

    def shard(self, whole: torch.Tensor, rank: int) -> torch.Tensor:
        """A rank's rows of the gathered input, as a tensor of its own."""
        region = self.program.buffers[0].inputs[rank][0]
        return whole[region.offsets[0] : region.offsets[0] + region.sizes[0]].clone()

    def wrong(self, out: torch.Tensor, whole: torch.Tensor, rank: int) -> torch.Tensor:
        """A device boolean: whether an output is wrong. A NaN is."""
        right = self.expect(whole, rank)
        if self.tolerance == 0:
            return (out != right).any()
        error = (out.float() - right).norm() / right.norm()
        return ~(error < self.tolerance)

    def random(self, seed: int) -> torch.Tensor:
        """A gathered input."""
        return random_matrix(self.shape, seed)

    def poisoned(self) -> torch.Tensor:
        """An output to pass to a call."""
        return poisoned(self.out_shape)


def gather_workload(
    world: int,
    algorithm: str,
    realization: Realization,
    shape: tuple[int, int],
    num_ctas: int,
    **options: Any,
) -> Workload:
    """A gather by a kernel written by hand."""
    program = gather_program(world, algorithm, realization, shape, num_ctas=num_ctas, **options)
    return Workload(
        program.name, program, shape, shape, lambda rank: {}, lambda whole, rank: whole, 0.0, "out"
    )


def gemm_workload(
    world: int,
    algorithm: str,
    realization: str,
    size: tuple[int, int, int],
    num_ctas: int,
    *,
    splits: int = 1,
) -> Workload:
    """A compiled AG-GEMM with small tiles."""
    from benchmark.common.programs import tensor_names

    from syncopate import Strategy
    from syncopate.kernels import GemmConfig
    from syncopate.workloads import GemmWorkload

    m, n, k = size
    name, direction = algorithm.split()
    dedicated = realization.endswith("_dedicated")
    # CTAs of a launch that carry out transfers are among those that there are room for.
    comm_ctas = min(8, num_ctas // 2)
    program = GemmWorkload("ag_gemm", *size, world).compile(
        Strategy(
            algorithm=name,
            direction=direction,
            realization=realization,
            splits=splits,
            pause=0,
            comm_ctas=comm_ctas,
        ),
        config=GemmConfig(block_n=128, num_ctas=num_ctas - comm_ctas * dedicated),
        timeout=20.0,
    )
    _, weight, output = tensor_names(program)
    weights = {rank: random_matrix((n, k), 7000 + rank) for rank in range(world)}
    return Workload(
        f"gemm_{algorithm.replace(' ', '_')}_{realization}_{splits}_{m}x{n}x{k}",
        program,
        (m, k),
        (m, n),
        lambda rank: {weight: weights[rank]},
        lambda whole, rank: whole.float() @ weights[rank].float().T,
        TOLERANCE,
        output,
    )


def mixed_workload(
    world: int, algorithm: str, mix: tuple[str, ...], size: tuple[int, int, int], num_ctas: int
) -> Workload:
    """An AG-GEMM whose transfers have these realizations in turn."""
    from mixed_plans import gather_by

    import syncopate
    from syncopate.kernels import GemmConfig, gemm_pointers
    from syncopate.kernels.bind import bind_gemm_pointers

    m, n, k = size
    plan = syncopate.Plan("mixed", [world])
    a = plan.buffer("a", (m, k), "bf16", shard_axis=0)
    gather_by(plan, a, algorithm, mix)
    comm_ctas = min(4, num_ctas // 2)
    config = GemmConfig(block_n=128, num_ctas=num_ctas - comm_ctas)
    program = syncopate.compile(
        gemm_pointers,
        plan,
        **bind_gemm_pointers(a, n, config),
        strategy=syncopate.Strategy(comm_ctas=comm_ctas),
        timeout=20.0,
    )
    weights = {rank: random_matrix((n, k), 7000 + rank) for rank in range(world)}
    return Workload(
        f"mixed_{algorithm}_{'+'.join(mix)}",
        program,
        (m, k),
        (m, n),
        lambda rank: {"b": weights[rank]},
        lambda whole, rank: whole.float() @ weights[rank].float().T,
        TOLERANCE,
        "c",
    )


MIXED_CASES = [
    ("direct push", ("ldst_dedicated", "ldst_colocated", "copy_engine")),
    ("direct pull", ("copy_engine", "ldst_dedicated", "ldst_colocated")),
    ("ring pull", ("ldst_dedicated", "ldst_colocated")),
    ("ring push", ("copy_engine", "ldst_dedicated")),
    ("direct push", ("tma_colocated", "ldst_colocated")),
    ("direct pull", ("tma_dedicated", "tma_colocated", "copy_engine")),
    ("ring pull", ("ldst_dedicated", "tma_dedicated")),
]
"""(algorithm, realizations in turn)."""

GATHER_SHAPES = [(512, 256), (509, 250)]
"""Even, and odd in every respect: rows that the ranks do not divide and that are not 16 bytes."""

GATHER_CASES = CASES

GEMM_CASES = [
    ("direct push", "ldst_colocated", 1),
    ("direct pull", "ldst_colocated", 2),
    ("ring push", "ldst_colocated", 1),
    ("ring pull", "ldst_colocated", 1),
    ("direct push", "copy_engine", 2),
    ("direct pull", "copy_engine", 1),
    ("ring push", "copy_engine", 1),
    ("ring pull", "copy_engine", 2),
    ("direct push", "ldst_dedicated", 2),
    ("direct pull", "ldst_dedicated", 1),
    ("ring push", "ldst_dedicated", 1),
    ("ring pull", "ldst_dedicated", 2),
    ("direct push", "tma_colocated", 2),
    ("direct pull", "tma_colocated", 1),
    ("ring push", "tma_colocated", 1),
    ("ring pull", "tma_colocated", 2),
    ("direct push", "tma_dedicated", 2),
    ("direct pull", "tma_dedicated", 1),
    ("ring push", "tma_dedicated", 1),
    ("ring pull", "tma_dedicated", 2),
]
"""(algorithm with its direction, realization, splits)."""

GEMM_SIZES = [(1024, 512, 512), (1016, 520, 264), (1016, 510, 250)]
"""Even; ragged but with 16-byte rows; without."""


def gemm_sizes(*realizations: str) -> list[tuple[int, int, int]]:
    """The sizes that can be computed with these realizations: TMA needs rows of A of a multiple of 16 bytes."""
    tma = any(name.startswith("tma") for name in realizations)
    return [size for size in GEMM_SIZES if not tma or 2 * size[2] % 16 == 0]
