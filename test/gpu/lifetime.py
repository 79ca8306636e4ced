"""Checks of how long things last, with one process per GPU: memory, programs, and a process group that is made anew."""

from __future__ import annotations

import datetime
import gc
import random
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from two_gpus import ODD, expect_none, gather

from syncopate.abi import Realization
from syncopate.errors import DeviceWaitTimeout
from syncopate.runtime import ProcessGroup, load

KINDS = (Realization.LDST_COLOCATED, Realization.COPY_ENGINE)


def many_programs(group: ProcessGroup) -> None:
    """Programs come and go, closed or forgotten at other times on each rank, and keep to a few times what is loaded."""
    rank, draw = group.rank, random.Random(group.rank)
    shapes = [(rows, columns) for rows in (64, 520, 4096) for columns in (128, 1000)]
    live: list[Any] = []
    for turn in range(60):
        shape, kind = shapes[turn % len(shapes)], KINDS[turn % 2]
        work = gather("push" if turn % 3 else "pull", kind, shape, num_ctas=60)(group)
        live.append((work, load(work.program, group)))
        wrong = []
        # All ranks still have the last one; which others are left differs.
        work, loaded = live[-1]
        for call in range(4):
            whole, out = work.random(10 * turn + call), work.poisoned()
            loaded(a=work.shard(whole, rank), out=out)
            wrong.append(work.wrong(out, whole, rank))
        loaded.synchronize()
        expect_none(wrong, f"calls of program {turn}")
        while len(live) > draw.randrange(1, 5):
            _, chosen = live.pop(draw.randrange(len(live) - 1))
            if draw.random() < 0.7:
                chosen.close()
            del chosen
    live.clear()
    # The last one has two names.
    del loaded
    gc.collect()
    work = gather("push", KINDS[0], ODD, num_ctas=60)(group)
    with load(work.program, group) as last:
        assert group.memory.used <= 2 * last.workspace_bytes, group.memory
        assert group.memory.reserved <= 20 * 2 * 4096 * 1000, group.memory


def other_streams(group: ProcessGroup) -> None:
    """Calls of one program go from stream to stream."""
    for kind in KINDS:
        work = gather("push", kind, ODD)(group)
        streams = [torch.cuda.Stream() for _ in range(3)]
        wrong, rank = [], group.rank
        with load(work.program, group) as loaded:
            for call in range(120):
                stream = streams[call % 3]
                with torch.cuda.stream(stream):
                    whole, out = work.random(call), work.poisoned()
                    loaded(a=work.shard(whole, rank), out=out)
                    wrong.append(work.wrong(out, whole, rank))
            torch.cuda.synchronize()
            loaded.synchronize()
        expect_none(wrong, f"calls by {kind.name}")


def group_made_anew(group: ProcessGroup) -> None:
    """After a rank has made no call, both leave the group, make another one, and go on; the last check."""
    rank, world = group.rank, group.world_size
    address, port = "localhost", 0
    if rank == 0:
        with socket.socket() as free:
            free.bind(("", 0))
            port = free.getsockname()[1]
    port = group.agreement.exchange("a port", port)[0]
    for kind in KINDS:
        work = gather("push", kind, ODD, timeout_ns=500_000_000)(group)
        loaded = load(work.program, group)
        if rank == 0:
            loaded(a=work.shard(work.random(0), rank), **work.tensors(rank))
            torch.cuda.synchronize()
            try:
                loaded.synchronize()
                raise AssertionError("no time limit was reached")
            except DeviceWaitTimeout:
                pass
        begin = time.monotonic()
        loaded.close()
        del loaded, group
        dist.destroy_process_group()
        gc.collect()
        minutes = datetime.timedelta(minutes=1)
        store = dist.TCPStore(address, port, world, rank == 0, timeout=minutes)
        device = torch.device("cuda", torch.cuda.current_device())
        dist.init_process_group("nccl", store=store, rank=rank, world_size=world, device_id=device)
        group = ProcessGroup()
        again = gather("push", kind, ODD)(group)
        wrong = []
        with load(again.program, group) as loaded:
            if rank == 0:
                print(f"    loaded again after {time.monotonic() - begin:.1f} s", flush=True)
            for call in range(50):
                whole, out = again.random(call), again.poisoned()
                loaded(a=again.shard(whole, rank), out=out)
                wrong.append(again.wrong(out, whole, rank))
            loaded.synchronize()
        expect_none(wrong, "calls of the new group")
        port = group.agreement.exchange("a port", port + 1)[0]


def lifetime_checks() -> Iterator[tuple[str, Callable[[ProcessGroup], None]]]:
    """Every check with its name."""
    yield "many programs", many_programs
    yield "other streams", other_streams
    yield "group made anew", group_made_anew
