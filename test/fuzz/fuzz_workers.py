"""Runs cases in forked processes with limits, so that a crash ends one case and nothing else."""

from __future__ import annotations

import collections
import json
import mmap
import os
import resource
import select
import signal
import struct
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

__all__ = ["Report", "Wrong", "run_cases"]

SECONDS = 10.0
BYTES = 2 << 30
BATCH = 1000
_SLOT = struct.Struct("qd")


@dataclass(frozen=True)
class Wrong:
    """A case that went wrong: where, and how."""

    kind: str
    seed: int
    what: str


@dataclass
class Report:
    """Counts of outcomes, and what went wrong."""

    counts: collections.Counter[str] = field(default_factory=collections.Counter)
    wrong: list[Wrong] = field(default_factory=list)
    slowest: float = 0.0
    slowest_seed: int = 0


def _mapped_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
        return int(file.read().split()[0]) * resource.getpagesize()


def _work(kind: str, seeds: range, run: Callable[[str, int], str], out: int, slot: mmap.mmap) -> None:
    """The child: runs cases and writes one line for each."""
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limit = _mapped_bytes() + BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for seed in seeds:
        begin = time.monotonic()
        slot[:] = _SLOT.pack(seed, begin)
        try:
            line = ["ok", run(kind, seed)]
        except BaseException as error:
            trace = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{os.path.basename(trace.filename)}:{trace.lineno}"  # noqa: PTH119
            line = ["wrong", f"{type(error).__name__} at {where}: {str(error)[:2000]}"]
        line.append(time.monotonic() - begin)
        os.write(out, json.dumps([seed, *line]).encode() + b"\n")


def _lines(source: int, slot: mmap.mmap, child: int) -> Iterator[list[object]]:
    """What the child writes; kills it when a case takes too long."""
    rest = b""
    while True:
        ready, _, _ = select.select([source], [], [], 0.5)
        if ready:
            data = os.read(source, 1 << 16)
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                yield json.loads(line)
        elif time.monotonic() - _SLOT.unpack(slot[:])[1] > SECONDS:
            os.kill(child, signal.SIGKILL)


def run_cases(kind: str, seeds: range, run: Callable[[str, int], str], report: Report) -> None:
    """Runs cases of one kind, in a new process after each crash and each `BATCH` cases."""
    slot = mmap.mmap(-1, _SLOT.size)
    next_seed = seeds.start
    while next_seed < seeds.stop:
        batch = range(next_seed, min(next_seed + BATCH, seeds.stop))
        source, out = os.pipe()
        slot[:] = _SLOT.pack(next_seed, time.monotonic())
        child = os.fork()
        if child == 0:
            os.close(source)
            try:
                _work(kind, batch, run, out, slot)
            finally:
                os._exit(0)
        os.close(out)
        for seed, verdict, what, seconds in _lines(source, slot, child):
            next_seed = int(seed) + 1
            if verdict == "ok":
                report.counts[f"{kind}: {what}"] += 1
            else:
                report.counts[f"{kind}: wrong"] += 1
                report.wrong.append(Wrong(kind, int(seed), str(what)))
            if seconds > report.slowest:
                report.slowest, report.slowest_seed = seconds, int(seed)
        os.close(source)
        _, status = os.waitpid(child, 0)
        if next_seed < batch.stop:
            seed, begin = _SLOT.unpack(slot[:])
            name = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"exit {status}"
            late = time.monotonic() - begin > SECONDS
            what = f"takes more than {SECONDS:.0f} s" if late else f"ends the process: {name}"
            report.counts[f"{kind}: wrong"] += 1
            report.wrong.append(Wrong(kind, seed, what))
            next_seed = seed + 1
