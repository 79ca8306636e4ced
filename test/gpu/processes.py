"""Checks with one process per GPU: how tests start their scripts, and how these run them."""

from __future__ import annotations

import faulthandler
import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

__all__ = ["expect_all_pass", "run_checks"]


def expect_all_pass(script: str, *options: str, limit_s: float = 600) -> None:
    """Runs a script of this folder on two GPUs; fails if one of its checks does, or if it has none."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    run = subprocess.run(
        [*command, str(Path(__file__).parent / script), *options],
        capture_output=True,
        text=True,
        timeout=limit_s,
    )
    lines = [line for line in run.stdout.splitlines() if line.startswith(("FAIL", "PASS"))]
    assert run.returncode == 0, run.stdout + run.stderr
    assert lines and not [line for line in lines if line.startswith("FAIL")]


def run_checks(
    checks: Iterable[tuple[str, Callable[[Any], None]]], group: Any, only: str, limit_s: float
) -> int:
    """Runs checks in this process, which holds one rank of a group, and prints a line for each.

    Args:
        checks: Their names, and what raises if one fails.
        group: The group.
        only: Others than those whose names contain this are left out.
        limit_s: Seconds for each check; one that takes longer ends the process, and torchrun the others.

    Returns:
        How many failed.
    """
    passed = failed = 0
    for name, check in checks:
        if only not in name:
            continue
        start = time.monotonic()
        alarm = threading.Timer(limit_s, _give_up, (name, group.rank))
        alarm.daemon = True
        alarm.start()
        try:
            check(group)
            outcome = "PASS"
            passed += 1
        except Exception:
            outcome = "FAIL"
            failed += 1
            traceback.print_exc()
        alarm.cancel()
        if group.rank == 0:
            print(f"{outcome} {name} ({time.monotonic() - start:.1f} s)", flush=True)
    if group.rank == 0:
        print(f"{passed} passed, {failed} failed", flush=True)
    return failed


def _give_up(name: str, rank: int) -> None:
    print(f"FAIL {name}: rank {rank} hangs", flush=True)
    faulthandler.dump_traceback(all_threads=True)
    os._exit(1)
