"""A rank is killed amid calls: the other gets an error in time, and goes on with a new process in its place.

    python test/gpu/recovery.py [--where gpus | one-gpu | cpu] [--kill RANK] [--limit SECONDS] [--out FILE]

Two processes make calls. One is sent SIGKILL; another is started for it, and both make the group again. Printed, and
written as JSON with `--out`: seconds from the kill to the error of the rank that is left, and from there to the first
right result, step by step; most of it is what a process needs to start. Ends with 1 if there is no error within the
limit, or a wrong result.

The store of the process groups is that of the process that starts the others, as with torchrun. `one-gpu` has both
processes on one GPU, with gloo for NCCL, which refuses that. `cpu` has calls that are exchanges in the store, without
programs: it tries what is here, and the agreement of ranks.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python"), str(HERE.parents[1])]

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from recovery_calls import Exchanges, Gathers  # noqa: E402

from syncopate.errors import SyncopateError  # noqa: E402

WORLD = 2
CALLS_BEFORE, CALLS_AFTER = 5, 20
"""Batches of calls: at least so many before the kill, and so many by the new group."""

SLACK_S = 1.0
"""For the host, beyond the limits of waits: an error is raised when a thread gets to run."""

PATIENCE = datetime.timedelta(minutes=2)
"""For processes to start."""


class Watch:
    """Notes in the store when something has happened; processes of one host have the same clock."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def note(self, what: str, said: str = "") -> None:
        """It has happened now."""
        self._store.set(f"watch/{what}", json.dumps([time.monotonic(), said]))

    def read(self, what: str) -> tuple[float, str]:
        """When it has happened, and what was said.

        Raises:
            RuntimeError: Nothing has within two minutes.
        """
        self._store.wait([f"watch/{what}"], PATIENCE)
        at, said = json.loads(self._store.get(f"watch/{what}"))
        return at, said


@contextmanager
def joined(store: Any, turn: int, options: argparse.Namespace) -> Iterator[Any]:
    """The calls of a group that is made for this turn, and left behind them."""
    on_gpus = options.where == "gpus"
    dist.init_process_group(
        "nccl" if on_gpus else "gloo",
        store=dist.PrefixStore(f"group-{turn}", store),
        rank=options.rank,
        world_size=WORLD,
    )
    if options.where == "cpu":
        calls: Any = Exchanges(options.limit)
    else:
        # So that there is a communicator that loses a rank.
        dist.all_reduce(torch.zeros(1, device="cuda"))
        calls = Gathers(options.realization, options.limit)
    try:
        yield calls
    finally:
        calls.close()
        if on_gpus and turn == 0:
            # Communicators of NCCL end together, which they cannot without the rank that is gone.
            dist.group.WORLD.abort()
        dist.destroy_process_group()


def call_until_error(store: Any, watch: Watch, options: argparse.Namespace) -> None:
    """Makes calls of the first group, which end when the other rank is killed, and leaves it."""
    with joined(store, 0, options) as calls:
        try:
            while True:
                calls.run()
                store.add("batches", 1)
        except SyncopateError as error:
            watch.note("error", f"{type(error).__name__}: {error}")
    watch.note("left")


def work(options: argparse.Namespace) -> None:
    """A rank: calls until an error if it has been here from the start, then those of the new group."""
    if options.where != "cpu":
        torch.cuda.set_device(options.rank if options.where == "gpus" else 0)
        Gathers.warm_up()
    store = dist.TCPStore("localhost", options.port, is_master=False, timeout=PATIENCE)
    watch = Watch(store)
    if options.turn == 0:
        call_until_error(store, watch, options)
    else:
        watch.note("started")
    with joined(store, 1, options) as calls:
        watch.note(f"joined-{options.rank}")
        calls.run()
        watch.note(f"right-{options.rank}")
        for _ in range(CALLS_AFTER):
            calls.run()


def start(options: argparse.Namespace, port: int, rank: int, turn: int) -> subprocess.Popen[bytes]:
    """A process for a rank of the group of this turn."""
    given = [f"--{name}={getattr(options, name)}" for name in ("where", "limit", "realization")]
    place = [f"--port={port}", f"--rank={rank}", f"--turn={turn}"]
    environment = dict(os.environ)
    if options.where == "one-gpu":
        environment["TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES"] = "1"
    return subprocess.Popen([sys.executable, __file__, *given, *place], env=environment)


def wait_for_calls(store: Any, each: list[subprocess.Popen[bytes]]) -> None:
    """Until all make calls.

    Raises:
        RuntimeError: A process has ended, or they take two minutes.
    """
    deadline = time.monotonic() + PATIENCE.total_seconds()
    while store.add("batches", 0) < CALLS_BEFORE * WORLD:
        if time.monotonic() > deadline or any(one.poll() is not None for one in each):
            raise RuntimeError("the ranks have not come to make calls")
        time.sleep(0.01)


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Starts, kills and measures; the report."""
    store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False, timeout=PATIENCE)
    watch, killed = Watch(store), options.kill
    each = [start(options, store.port, rank, 0) for rank in range(WORLD)]
    try:
        wait_for_calls(store, each)
        each[killed].send_signal(signal.SIGKILL)
        begin = time.monotonic()
        each[killed].wait()
        each[killed] = start(options, store.port, killed, 1)
        error, said = watch.read("error")
        # In the order in which they happen, as a rule.
        marks = ("left", "started", "joined-0", "joined-1", "right-0", "right-1")
        after = {mark: watch.read(mark)[0] - error for mark in marks}
        status = [one.wait(PATIENCE.total_seconds()) for one in each]
    finally:
        for one in each:
            one.kill()
            one.wait()
    return {
        "where": options.where,
        "device": "cpu" if options.where == "cpu" else torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "realization": None if options.where == "cpu" else options.realization,
        "killed": killed,
        "limit_s": options.limit,
        "error": said,
        "error_s": error - begin,
        "recovery_s": max(after["right-0"], after["right-1"]),
        "after_error_s": after,
        "status": status,
    }


def latest_error_s(options: argparse.Namespace) -> float:
    """When there has to be an error: a side stream gets a limit of its own, after that of the kernel."""
    limits = 2 if options.realization == "copy_engine" else 1
    return limits * float(options.limit) + SLACK_S


def read_options() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    places = ("gpus", "one-gpu", "cpu")
    parser.add_argument("--where", choices=places, default="gpus", help="where the ranks are")
    parser.add_argument("--kill", type=int, choices=range(WORLD), default=1, help="this rank")
    parser.add_argument("--limit", type=float, default=2.0, help="seconds that a wait may take")
    kinds = ("ldst_colocated", "copy_engine")
    parser.add_argument("--realization", choices=kinds, default=kinds[0], help="of the calls")
    parser.add_argument("--out", type=Path, help="a file for the report, in JSON")
    for name in ("port", "rank", "turn"):
        parser.add_argument(f"--{name}", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    """Returns the exit status."""
    options = read_options()
    if options.rank is not None:
        work(options)
        return 0
    report = run(options)
    if options.out:
        options.out.write_text(json.dumps(report, indent=1) + "\n")
    print(f"rank {1 - options.kill}: {report['error']}")
    print(f"{report['error_s']:.2f} s from the kill to the error")
    print(f"{report['recovery_s']:.2f} s from there to right results on both ranks; of these")
    for mark, seconds in report["after_error_s"].items():
        print(f"    {mark}: {seconds:.2f} s")
    return int(any(report["status"]) or report["error_s"] > latest_error_s(options))


if __name__ == "__main__":
    sys.exit(main())
