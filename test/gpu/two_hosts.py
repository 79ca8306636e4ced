"""Plans in two levels, on processes that NCCL takes for several hosts: no peer access, no shared memory between them.

    torchrun --nproc-per-node 2 test/gpu/two_hosts.py [--places 1] [--only TEXT] [--limit SECONDS]

Each host has `--places` of the processes; with 2 of 4 GPUs, their transfers within a host are real ones. Symmetric
memory is that of a host only, so that whatever reached for another host's would fail. NCCL uses sockets on loopback,
which is slow: this checks results, calls in a CUDA graph among them, and measures nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python"), str(HERE.parents[1])]


def isolate(places: int) -> None:
    """Makes NCCL take this process for one of a host of so many; before CUDA and NCCL start."""
    host = int(os.environ["RANK"]) // places
    os.environ.update(
        NCCL_HOSTID=f"host-{host}",
        NCCL_P2P_DISABLE="1",
        NCCL_SHM_DISABLE="1",
        NCCL_IB_DISABLE="1",
        NCCL_NVLS_ENABLE="0",
        NCCL_MNNVL_ENABLE="0",
        NCCL_CUMEM_HOST_ENABLE="0",
        NCCL_SOCKET_IFNAME="lo",
    )
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")


def main() -> int:
    """Runs the checks and returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--places", type=int, default=1, help="processes of a host")
    parser.add_argument("--only", default="", help="run the checks whose name contains this")
    parser.add_argument("--limit", type=float, default=90, help="seconds for each check")
    options = parser.parse_args()
    isolate(options.places)

    # Importing these may start CUDA, which reads the environment set above.
    import torch
    import torch.distributed as dist
    from processes import run_checks

    from syncopate.runtime import ProcessGroup

    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    world, node = dist.get_world_size(), None
    for first in range(0, world, options.places):
        members = list(range(first, first + options.places))
        made = dist.new_group(members)
        if dist.get_rank() in members:
            node = made
    group = ProcessGroup(node=node)
    mesh = [world // options.places, options.places]
    failed = run_checks(checks(mesh), group, options.only, options.limit)
    group.close()
    dist.destroy_process_group()
    return 1 if failed else 0


def checks(mesh: list[int]) -> Iterator[tuple[str, Callable[[Any], None]]]:
    """Every check with its name."""
    from levels import KINDS, run

    for kind in KINDS:
        for realization in ("ldst_colocated", "tma_colocated", "copy_engine"):
            if mesh[-1] == 1 and realization != "ldst_colocated":
                continue
            for captured in (False, True):
                name = f"{kind}, {realization} within nodes{', in a graph' if captured else ''}"
                yield (
                    name,
                    partial(run, kind=kind, mesh=mesh, realization=realization, captured=captured),
                )


if __name__ == "__main__":
    sys.exit(main())
