"""Runs cases in forked processes with limits, so that a crash ends one case and nothing else."""

from __future__ import annotations

import collections
import json
import mmap
import os
import re
import resource
import select
import signal
import struct
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

__all__ = ["Report", "Wrong", "mark", "run_cases"]

SECONDS = 10.0
"""What a case may take of a CPU; a few times as much if it waits for others, or for ever."""
BYTES = 2 << 30
BATCH = 1000
_SLOT = struct.Struct("qdd8s")
"""The case at hand, when it began, by the clock and by what its process had taken of a CPU, and what it is doing."""
_slot = mmap.mmap(-1, _SLOT.size)

_TELLING = ("ERROR", "terminate", "error:", "Assertion")

KNOWN = {
    # `"x.y"() {a = array<index: 1>} : () -> ()`: a dense array of what has no width.
    "array of index": ("parse", re.compile(r"array<(?!i\d|f\d|bf16)"), ""),
    # `"x.y"(%0#2147483648) : (i32) -> ()`: as many forward references are made.
    "number of a result": ("parse", re.compile(r"%\w+#\d{8,}"), ""),
    # `scf.for` without arguments of its region.
    "loop without arguments": ("parse", re.compile(r"scf\.(for|while)"), "drop_front"),
    # An operation used before a region that is isolated from above defines it, and a syntax error behind.
    "use of an erased value": ("parse", re.compile(""), "operation destroyed but still has uses"),
}
"""Crashes of MLIR itself, reported for mlir-opt as well: what was being done, the input, the last message."""


def mark(phase: str) -> None:
    """Notes what a case is doing, for when it ends the process."""
    *case, _ = _SLOT.unpack(_slot[:])
    _slot[:] = _SLOT.pack(*case, phase.encode()[:8])


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
    slowest_case: str = ""


def _mapped_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
        return int(file.read().split()[0]) * resource.getpagesize()


def _work(kind: str, seeds: range, run: Callable[[str, int], str], out: int, errors: int) -> None:
    """The child: runs cases and writes one line for each."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(errors, 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limit = _mapped_bytes() + BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for seed in seeds:
        begin = time.monotonic()
        _slot[:] = _SLOT.pack(seed, begin, time.process_time(), b"")
        try:
            line = ["ok", run(kind, seed)]
        except BaseException as error:
            trace = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{os.path.basename(trace.filename)}:{trace.lineno}"  # noqa: PTH119
            line = ["wrong", f"{type(error).__name__} at {where}: {str(error)[:2000]}"]
        line.append(time.monotonic() - begin)
        os.write(out, json.dumps([seed, *line]).encode() + b"\n")


def _is_late(child: int) -> bool:
    """Whether the case at hand of a process takes too long."""
    _, begin, spent, _ = _SLOT.unpack(_slot[:])
    with open(f"/proc/{child}/stat", encoding="ascii") as file:  # noqa: PTH123
        ticks = file.read().rpartition(")")[2].split()[11:13]
    spends = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK") - spent
    return spends > SECONDS or time.monotonic() - begin > 6 * SECONDS


def _lines(source: int, child: int) -> Iterator[list[object]]:
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
        elif _is_late(child):
            os.kill(child, signal.SIGKILL)


def _end_of(errors: int) -> str:
    """The last message that the native code printed."""
    os.lseek(errors, 0, os.SEEK_SET)
    lines = os.read(errors, 1 << 16).replace(b"\0", b"").decode(errors="replace").splitlines()
    told = [line for line in lines if any(word in line for word in _TELLING)]
    return told[-1][:300] if told else ""


def run_cases(
    kind: str,
    seeds: range,
    run: Callable[[str, int], str],
    report: Report,
    find_input: Callable[[str, int], object] = lambda _kind, _seed: "",
) -> None:
    """Runs cases of one kind, in a new process after each crash and each `BATCH` cases.

    Args:
        kind: Their kind.
        seeds: Their seeds.
        run: Runs one case and returns its outcome.
        report: Where to note what happens.
        find_input: Gives the input of a case, to know crashes of MLIR itself by.
    """
    next_seed = seeds.start
    errors = os.memfd_create("errors")
    while next_seed < seeds.stop:
        batch = range(next_seed, min(next_seed + BATCH, seeds.stop))
        source, out = os.pipe()
        os.ftruncate(errors, 0)
        _slot[:] = _SLOT.pack(next_seed, time.monotonic(), 0.0, b"")
        child = os.fork()
        if child == 0:
            os.close(source)
            try:
                _work(kind, batch, run, out, errors)
            finally:
                os._exit(0)
        os.close(out)
        for seed, verdict, what, seconds in _lines(source, child):
            next_seed = int(seed) + 1
            report.counts[f"{kind}: {what if verdict == 'ok' else 'wrong'}"] += 1
            if verdict != "ok":
                report.wrong.append(Wrong(kind, int(seed), str(what)))
            if seconds > report.slowest:
                report.slowest, report.slowest_case = seconds, f"{kind}:{seed}"
        os.close(source)
        # A process that has ended, by itself or not, is known until it is waited for.
        late = next_seed < batch.stop and _is_late(child)
        _, status = os.waitpid(child, 0)
        if next_seed < batch.stop:
            seed, *_, phase = _SLOT.unpack(_slot[:])
            name = (
                signal.Signals(os.WTERMSIG(status)).name
                if os.WIFSIGNALED(status)
                else f"exit {status}"
            )
            message = _end_of(errors)
            what = (
                f"takes more than {SECONDS:.0f} s"
                if late
                else f"ends the process: {name} {message}"
            )
            known = (
                ""
                if late
                else _find_known(phase.strip(b"\0").decode(), str(find_input(kind, seed)), message)
            )
            report.counts[f"{kind}: {'MLIR, ' + known if known else 'wrong'}"] += 1
            if not known:
                report.wrong.append(Wrong(kind, seed, what))
            next_seed = seed + 1
    os.close(errors)


def _find_known(phase: str, text: str, message: str) -> str:
    for name, (when, pattern, told) in KNOWN.items():
        if phase == when and pattern.search(text) and told in message:
            return name
    return ""
