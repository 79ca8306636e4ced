"""Keys and values of ranks that have several blocks of a sequence, brought to where they belong in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from syncopate.runtime.tensors import check_tensor

if TYPE_CHECKING:
    from syncopate.runtime import LoadedProgram
    from syncopate.workloads.attention import AttentionWorkload

__all__ = ["write_blocks"]


def write_blocks(
    loaded: LoadedProgram,
    workload: AttentionWorkload,
    keys: Mapping[str, Sequence[torch.Tensor]],
) -> None:
    """Writes the blocks of each local rank into the program's buffers.

    Args:
        loaded: The program, whose buffers have a row for each element of the sequence.
        workload: Who has which of them.
        keys: By the name of a buffer, a tensor of each local rank, [shards.rows, batch · kv_heads · head_dim].

    Raises:
        SyncopateError: A tensor has another shape or type, or is elsewhere; nothing was written.
        DeviceWaitTimeout: An earlier call did not complete.
    """
    shards, group = workload.shards, loaded.group
    loaded.check()
    shape = (shards.rows, workload.row[1])
    for name, each in keys.items():
        for rank, tensor in zip(group.local_ranks, each, strict=True):
            check_tensor(name, tensor, shape, workload.dtype, group.device(rank))
    loaded.acquire()
    for name, each in keys.items():
        for rank, tensor in zip(group.local_ranks, each, strict=True):
            memory = loaded.buffer(name, rank)
            for number, (begin, end) in enumerate(shards.ranges(rank)):
                row = number * shards.block
                memory[begin:end].copy_(tensor[row : row + end - begin])
