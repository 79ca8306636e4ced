"""Which copies run on a copy engine: `python test/gpu/probe_engine.py`, on one or two GPUs.

A kernel that fills every SM spins until the host lets it go. A copy enqueued behind it that completes in the meantime
used no SM. The runtime relies on the lines marked with *.
"""

from __future__ import annotations

import ctypes
import os
import time

os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")

import torch
import triton
import triton.language as tl

from syncopate.runtime import cuda


@triton.jit
def spin(flag, limit, SHARED: tl.constexpr):
    # The large tile keeps other CTAs off the SM by its registers; the time limit keeps a failed probe from hanging.
    start = tl.inline_asm_elementwise(
        "mov.u64 $0, %globaltimer;", "=l", [], dtype=tl.int64, is_pure=False, pack=1
    )
    go = tl.atomic_add(flag, 0, sem="acquire", scope="sys")
    while go == 0:
        go = tl.atomic_add(flag, 0, sem="acquire", scope="sys")
        now = tl.inline_asm_elementwise(
            "mov.u64 $0, %globaltimer;", "=l", [], dtype=tl.int64, is_pure=False, pack=1
        )
        go = (
            tl.atomic_max(flag, tl.where(now - start > limit, 1, 0), sem="relaxed", scope="sys")
            | go
        )


def completes(enqueue) -> tuple[bool, float]:
    """Whether what `enqueue(stream)` puts on a stream finishes while the GPU is full."""
    flag = torch.zeros(1, dtype=torch.int32, device="cuda")
    main, side, rescue = (cuda.create_stream() for _ in range(3))
    event = cuda.create_event()
    torch.cuda.synchronize()
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    with torch.cuda.stream(torch.cuda.ExternalStream(main)):
        # 64 warps of 1024 threads on each SM leave no room for another block.
        spin[(2 * sms,)](flag, 2_000_000_000, SHARED=0, num_warps=32)
    time.sleep(0.05)
    start = time.monotonic()
    enqueue(side)
    cuda.call("cuEventRecord", event, side)
    done = False
    while not done and time.monotonic() - start < 0.5:
        done = cuda.event_done(event)
    took = time.monotonic() - start
    cuda.call("cuStreamWriteValue32_v2", rescue, flag.data_ptr(), 1, 0)
    torch.cuda.synchronize()
    return done, took


def main() -> None:
    """Prints a line per kind of copy."""
    size = 64 << 20
    a = torch.zeros(size, dtype=torch.uint8, device="cuda")
    b = torch.zeros(size, dtype=torch.uint8, device="cuda")
    pinned = torch.zeros(size, dtype=torch.uint8, pin_memory=True)
    call = cuda.call
    wide = cuda.describe_copy(b.data_ptr(), a.data_ptr(), 1024, 1000, 2048, 2048)
    spin[(1,)](torch.ones(1, dtype=torch.int32, device="cuda"), 1, SHARED=0, num_warps=32)
    probes = {
        "* 4 bytes device to host": lambda s: call(
            "cuMemcpyDtoHAsync_v2", pinned.data_ptr(), a.data_ptr(), 4, s
        ),
        "* 4 bytes host to device": lambda s: call(
            "cuMemcpyHtoDAsync_v2", a.data_ptr(), pinned.data_ptr(), 4, s
        ),
        "  4 bytes within a GPU": lambda s: call("cuMemcpyAsync", b.data_ptr(), a.data_ptr(), 4, s),
        "  64 MiB within a GPU": lambda s: call(
            "cuMemcpyAsync", b.data_ptr(), a.data_ptr(), size, s
        ),
        "  2-d within a GPU": lambda s: call("cuMemcpy2DAsync_v2", ctypes.byref(wide), s),
        "* stream write": lambda s: call("cuStreamWriteValue32_v2", s, b.data_ptr(), 7, 0),
    }
    if torch.cuda.device_count() > 1:
        far = torch.zeros(size, dtype=torch.uint8, device="cuda:1")
        far.copy_(a)
        a.copy_(far)
        torch.cuda.synchronize(1)
        pull = cuda.describe_copy(b.data_ptr(), far.data_ptr(), 1024, 1000, 2048, 2048)
        probes |= {
            "* 64 MiB to a peer": lambda s: call(
                "cuMemcpyAsync", far.data_ptr(), a.data_ptr(), size, s
            ),
            "* 64 MiB from a peer": lambda s: call(
                "cuMemcpyAsync", a.data_ptr(), far.data_ptr(), size, s
            ),
            "* 4 bytes to a peer": lambda s: call(
                "cuMemcpyAsync", far.data_ptr(), a.data_ptr(), 4, s
            ),
            "* 2-d from a peer": lambda s: call("cuMemcpy2DAsync_v2", ctypes.byref(pull), s),
            "  4 bytes host to a peer": lambda s: call(
                "cuMemcpyHtoDAsync_v2", far.data_ptr(), pinned.data_ptr(), 4, s
            ),
        }
    for name, enqueue in probes.items():
        done, took = completes(enqueue)
        print(f"{name:28} {'engine' if done else 'NEEDS AN SM'} ({took * 1e3:.2f} ms)", flush=True)


if __name__ == "__main__":
    main()
