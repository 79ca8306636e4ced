# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""What the link between the ranks can do at best, measured in the same run as everything else."""

from __future__ import annotations

import functools

import torch
import triton
import triton.language as tl

from syncopate.runtime import ProcessGroup, cuda
from syncopate.runtime.session import Session
from syncopate.runtime.timing import Candidate

BYTES = 256 << 20


@triton.jit
def _copy(src, dst, count, BLOCK: tl.constexpr):
    src = src.to(tl.pointer_type(tl.int32))
    dst = dst.to(tl.pointer_type(tl.int32))
    for start in range(tl.program_id(0) * BLOCK, count, tl.num_programs(0) * BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(dst + at, tl.load(src + at))


def measure_link(session: Session, rounds: int = 7) -> dict[str, float]:
    """Bytes per second into each rank while all ranks receive, by method; the best of them is the link peak.

    Copies of 256 MiB between neighbours in both directions at once: pulled and pushed by the copy engine, pulled and
    pushed by SMs.
    """
    group = ProcessGroup()
    memory = group.allocate(2 * BYTES)
    mine, peer = (
        memory.addresses[session.rank],
        memory.addresses[(session.rank + 1) % session.world_size],
    )
    local = memory.tensors[session.rank]
    # The first half is only read, the second only written.
    pairs = {"pull": (peer, mine + BYTES), "push": (mine, peer + BYTES)}

    def engine(src: int, dst: int, _set: int) -> torch.Tensor:
        cuda.call("cuMemcpyAsync", dst, src, BYTES, torch.cuda.current_stream().cuda_stream)
        return local

    def sms(src: int, dst: int, _set: int) -> torch.Tensor:
        _copy[(264,)](src, dst, BYTES // 4, BLOCK=4096, num_warps=8)
        return local

    candidates = [
        Candidate(f"{name}_{direction}", functools.partial(copy, *pair))
        for name, copy in (("engine", engine), ("sm", sms))
        for direction, pair in pairs.items()
    ]
    session.compare(candidates, rounds, 1)
    return {candidate.name: BYTES / candidate.us * 1e6 for candidate in candidates}
