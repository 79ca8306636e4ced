"""What a GEMM workload gives, by torch alone: random operands of every rank, and the result of one in float32.

Operands follow from the rank, so each rank can make those of all others, and needs no communication for a reference.
"""

from __future__ import annotations

from typing import Any

import torch

from syncopate.runtime.tensors import torch_dtype
from syncopate.workloads.gemm import GemmKind, GemmWorkload

__all__ = ["draw_factor", "draw_input", "draw_weight", "multiply"]


def draw_input(workload: GemmWorkload, rank: int, seed: int, device: Any) -> torch.Tensor:
    """What a rank passes as `a`: its rows of A if they are gathered, else all of its A."""
    if workload.kind is GemmKind.AG_GEMM:
        return _draw((workload.m, workload.k), seed, workload, device)[_block(workload, rank)]
    return _draw((workload.m, workload.k), seed + 1 + rank, workload, device)


def draw_weight(workload: GemmWorkload, rank: int, seed: int, device: Any) -> torch.Tensor:
    """What a rank passes as `b`, with rows as far apart as the workload says."""
    rows, columns = workload.weight_shape
    values = _draw((rows, columns), ~(seed + rank) & 0x7FFFFFFF, workload, device)
    pitch = workload.weight_pitch or columns
    if pitch == columns:
        return values
    memory = values.new_zeros((rows, pitch))
    memory[:, :columns] = values
    return memory[:, :columns]


def draw_factor(workload: GemmWorkload, rank: int, seed: int, device: Any) -> torch.Tensor:
    """The A that a rank's GEMM multiplies: what it passes, or what has moved before."""
    kind, block = GemmKind(workload.kind), _block(workload, rank)
    if kind is GemmKind.AG_GEMM:
        return _draw((workload.m, workload.k), seed, workload, device)
    if kind is GemmKind.A2A_GEMM:
        ranks = range(workload.world_size)
        return torch.cat([draw_input(workload, of, seed, device)[block] for of in ranks])
    return draw_input(workload, rank, seed, device)


def multiply(
    workload: GemmWorkload, rank: int, seed: int, device: Any, *, weight_seed: int | None = None
) -> torch.Tensor:
    """What a call gives a rank, in float32, but for A.

    Args:
        workload: The workload.
        rank: The rank.
        seed: Of the operands.
        device: Where.
        weight_seed: Of B, if it was drawn with another.
    """
    seed_of_b = seed if weight_seed is None else weight_seed
    kind, block = GemmKind(workload.kind), _block(workload, rank)
    ranks = range(workload.world_size)

    def a(of: int) -> torch.Tensor:
        return draw_input(workload, of, seed, device).float()

    def b(of: int) -> torch.Tensor:
        weight = draw_weight(workload, of, seed_of_b, device).float()
        return weight if workload.transpose_b else weight.T

    if kind.is_before:
        return draw_factor(workload, rank, seed, device).float() @ b(rank)
    if kind is GemmKind.GEMM_A2A:
        return torch.cat([a(of)[block] @ b(of) for of in ranks])
    rows = block if kind is GemmKind.GEMM_RS else slice(None)
    total = a(0)[rows] @ b(0)
    for of in ranks[1:]:
        total += a(of)[rows] @ b(of)
    return total


def _block(workload: GemmWorkload, rank: int) -> slice:
    rows = -(-workload.m // workload.world_size)
    return slice(rank * rows, min((rank + 1) * rows, workload.m))


def _draw(shape: tuple[int, int], seed: int, workload: GemmWorkload, device: Any) -> torch.Tensor:
    generator = torch.Generator(device).manual_seed(seed)
    values = torch.randn(shape, generator=generator, device=device)
    return values.to(torch_dtype(workload.dtype))
