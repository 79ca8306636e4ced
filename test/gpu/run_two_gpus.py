"""Starts the checks with one process per GPU:

    torchrun --nproc-per-node 2 test/gpu/run_two_gpus.py [--calls | --torch | --tune | --sequences | --lifetime]
        [--only TEXT] [--limit SECONDS]

Prints a line per check, PASS or FAIL, and `N passed, N failed` at the end. A check that does not end within its limit
ends the run.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python"), str(HERE.parents[1])]


def main() -> int:
    """Runs the checks and returns the exit status."""
    # Importing these may start CUDA, which reads the environment set above.
    import library_calls
    import lifetime
    import sequences
    import torch
    import torch.distributed as dist
    import torch_ops
    import tuned
    import two_gpus
    from processes import run_checks

    from syncopate.runtime import ProcessGroup

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--calls", action="store_true", help="the checks of library calls instead")
    what.add_argument("--torch", action="store_true", help="the checks of syncopate.torch instead")
    what.add_argument("--tune", action="store_true", help="the checks of the tuner instead")
    what.add_argument("--sequences", action="store_true", help="those of attention instead")
    what.add_argument("--lifetime", action="store_true", help="those of memory and groups instead")
    parser.add_argument("--only", default="", help="run the checks whose name contains this")
    parser.add_argument("--limit", type=float, default=60, help="seconds for each check")
    options = parser.parse_args()

    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    group = ProcessGroup()
    checks = two_gpus.checks
    if options.calls:
        checks = library_calls.call_checks
    elif options.torch:
        checks = torch_ops.torch_checks
    elif options.tune:
        checks = tuned.tune_checks
    elif options.sequences:
        checks = sequences.sequence_checks
    elif options.lifetime:
        checks = lifetime.lifetime_checks
    failed = run_checks(checks(), group, options.only, options.limit)
    dist.destroy_process_group()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
