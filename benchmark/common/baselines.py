"""What people use today for all-gather + GEMM, each as good as it gets with public means."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
import torch.distributed as dist
from benchmark.common.data import GemmData
from benchmark.common.programs import choose_config, tma_can_address
from benchmark.common.session import Candidate

from syncopate.kernels import gemm, gemm_pointers

SPLITS = (1, 2, 4, 8)


def gemm_candidates(data: GemmData, out: torch.Tensor) -> list[Candidate]:
    """The GEMM alone on gathered data: cuBLAS, and our local kernel under plain Triton."""

    def cublas(i: int) -> torch.Tensor:
        return torch.mm(data.whole[i], data.weight.T, out=out)

    return [
        Candidate("gemm_cublas", cublas, poison=out),
        Candidate("gemm_triton", _local_kernel(data, out), poison=out),
    ]


def _local_kernel(data: GemmData, out: torch.Tensor) -> Callable[[int], torch.Tensor]:
    from triton.tools.tensor_descriptor import TensorDescriptor

    (m, k), n = data.whole[0].shape, data.weight.shape[0]
    config = choose_config(m, n, k)
    constants = {**config.constexprs(), **config.options()}
    grid = (config.num_ctas,)
    if tma_can_address(n, k):
        blocks = (
            (config.block_m, config.block_k),
            (config.block_n, config.block_k),
            (config.block_m, config.block_n),
        )
        inputs = [TensorDescriptor.from_tensor(whole, list(blocks[0])) for whole in data.whole]
        b = TensorDescriptor.from_tensor(data.weight, list(blocks[1]))
        c = TensorDescriptor.from_tensor(out, list(blocks[2]))

        def call(i: int) -> torch.Tensor:
            gemm[grid](inputs[i], b, c, m, n, k, **constants)
            return out
    else:

        def call(i: int) -> torch.Tensor:
            gemm_pointers[grid](data.whole[i], data.weight, out, m, n, k, k, k, n, **constants)
            return out

    return call


def all_gather_candidate(data: GemmData) -> Candidate:
    """The communication alone: NCCL."""
    gathered = torch.empty_like(data.whole[0])

    def call(i: int) -> torch.Tensor:
        dist.all_gather_into_tensor(gathered, data.shards[i])
        return gathered

    return Candidate("nccl_all_gather", call)


def cublas_nccl(data: GemmData, out: torch.Tensor, name: str = "cublas_nccl") -> Candidate:
    """First all communication, then the whole GEMM."""
    gathered = torch.empty_like(data.whole[0])

    def call(i: int) -> torch.Tensor:
        dist.all_gather_into_tensor(gathered, data.shards[i])
        return torch.mm(gathered, data.weight.T, out=out)

    return Candidate(name, call, poison=out)


def split_streams(
    data: GemmData, out: torch.Tensor, pieces: int, world_size: int, rank: int
) -> Candidate:
    """NCCL on a second stream in pieces; the own shard's GEMM runs meanwhile, then each piece's as it arrives."""
    rows, k = data.shards[0].shape
    bounds = [rows * p // pieces for p in range(pieces + 1)]
    gathered = [
        torch.empty((world_size, last - first, k), dtype=out.dtype, device="cuda")
        for first, last in _spans(bounds)
    ]
    side = torch.cuda.Stream(priority=-1)
    arrived = [torch.cuda.Event() for _ in gathered]
    start = torch.cuda.Event()
    by_rank = out.view(world_size, rows, -1)

    def call(i: int) -> torch.Tensor:
        start.record()
        with torch.cuda.stream(side):
            side.wait_event(start)
            for piece, (first, last), event in zip(gathered, _spans(bounds), arrived, strict=True):
                dist.all_gather_into_tensor(piece.view(-1, k), data.shards[i][first:last])
                event.record()
        torch.mm(data.shards[i], data.weight.T, out=by_rank[rank])
        for piece, (first, last), event in zip(gathered, _spans(bounds), arrived, strict=True):
            torch.cuda.current_stream().wait_event(event)
            for peer in range(world_size):
                if peer != rank:
                    torch.mm(piece[peer], data.weight.T, out=by_rank[peer, first:last])
        return out

    return Candidate(f"split_streams/{pieces}", call, poison=out)


def _spans(bounds: list[int]) -> list[tuple[int, int]]:
    return list(itertools.pairwise(bounds))


def async_tp(data: GemmData) -> Candidate:
    """AsyncTP, the fused operator of torch over symmetric memory."""
    from torch.distributed._symmetric_memory import enable_symm_mem_for_group

    name = dist.group.WORLD.group_name
    enable_symm_mem_for_group(name)
    weights = [data.weight.T]

    def call(i: int) -> torch.Tensor:
        _, outputs = torch.ops.symm_mem.fused_all_gather_matmul(
            data.shards[i], weights, 0, name, return_A=False
        )
        return outputs[0]

    # The first call allocates its workspace, and says whether the operator takes these shapes.
    call(0)
    return Candidate("async_tp", call)
