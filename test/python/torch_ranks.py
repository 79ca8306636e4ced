"""Runs functions on two processes of torch.distributed with gloo, and tells how each of them has ended."""

from __future__ import annotations

import json
import os
import tempfile
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

WORLD = 2


def run_on_ranks(checks: Mapping[str, Callable[[], None]]) -> dict[str, list[str]]:
    """What went wrong on each rank, empty where nothing did, by the names of the checks.

    Ranks go on together after a failure only if it was one on all of them: others end in a time-out of gloo.
    """
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(_run, (dict(checks), folder), nprocs=WORLD, start_method="spawn")
        each = [json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in range(WORLD)]
    return {name: [results[name] for results in each] for name in checks}


def _run(rank: int, checks: Mapping[str, Callable[[], None]], folder: str) -> None:
    os.environ["SYNCOPATE_TORCH_FALLBACK"] = "1"
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=WORLD
    )
    results = {}
    for name, check in checks.items():
        torch.manual_seed(1000 * len(results) + rank)
        try:
            check()
            results[name] = ""
        except Exception:
            results[name] = traceback.format_exc()
        dist.barrier()
    (Path(folder) / f"{rank}.json").write_text(json.dumps(results))
    dist.destroy_process_group()
