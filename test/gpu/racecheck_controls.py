"""What compute-sanitizer's racecheck says of two kernels of Triton alone, with nothing of this project in them.

    compute-sanitizer --tool racecheck python test/gpu/racecheck_controls.py barriers|records

`barriers` has warps that do nothing beside warps that pass barriers of their own. `records` hands numbers from one
group of warps to the other through shared memory, ordered by mbarriers: wait until it is empty, store, barrier, arrive;
and wait until it is full, load, barrier, arrive. Both are right, and racecheck reports both (docs/checks.md).
"""

from __future__ import annotations

import sys

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier

CTAS = 4
SLOTS = gl.constexpr(4)


@gluon.jit
def _pass_barriers(out, turns):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
    at = out + gl.program_id(0) * 128 + gl.arange(0, 128, layout=layout)
    x = gl.load(at)
    for _ in range(turns):
        x += 1
        gl.thread_barrier()
    gl.store(at, x)


@gluon.jit
def _do_nothing(out, turns):
    pass


@gluon.jit
def _barriers(out, turns):
    gl.warp_specialize([(_pass_barriers, (out, turns)), (_do_nothing, (out, turns))], [4], [24])


@gluon.jit
def _give(out, turns, records, full, empty):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
    for turn in range(turns):
        slot, phase = turn % SLOTS, (turn // SLOTS) & 1
        mbarrier.wait(empty.index(slot), phase ^ 1)
        records.index(slot).store(gl.full([1], turn, gl.int32, layout))
        gl.thread_barrier()
        mbarrier.arrive(full.index(slot))


@gluon.jit
def _take(out, turns, records, full, empty):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
    total = 0
    for turn in range(turns):
        slot, phase = turn % SLOTS, (turn // SLOTS) & 1
        mbarrier.wait(full.index(slot), phase)
        total += gl.max(records.index(slot).load(layout), axis=0)
        gl.thread_barrier()
        mbarrier.arrive(empty.index(slot))
    gl.store(out + gl.program_id(0) * 128, total)


@gluon.jit
def _records(out, turns):
    layout: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, order=[0])
    records = gl.allocate_shared_memory(gl.int32, [SLOTS, 1], layout)
    full = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(SLOTS):
        mbarrier.init(full.index(slot), count=1)
        mbarrier.init(empty.index(slot), count=1)
    gl.thread_barrier()
    shared = (out, turns, records, full, empty)
    gl.warp_specialize([(_give, shared), (_take, shared)], [4], [24])


def main(kernel: str) -> None:
    """Runs one of the kernels, and checks what it computes."""
    turns = 25
    out = torch.zeros((CTAS, 128), dtype=torch.int32, device="cuda")
    {"barriers": _barriers, "records": _records}[kernel][(CTAS,)](out, turns, num_warps=4)
    expected = turns if kernel == "barriers" else sum(range(turns))
    assert (out[:, 0] == expected).all(), out[:, 0].tolist()


if __name__ == "__main__":
    main(sys.argv[1])
