"""Reads the tables of docs/results back: measured times by shape and variant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmark.common.programs import AUTO, Way, read_way

from syncopate import Strategy
from syncopate.tune import Candidate
from syncopate.workloads import GemmKind

__all__ = ["Measured", "read_table"]

_SHAPE = re.compile(r"^### (?:(?P<name>[^:]+): )?M (\d+), N (\d+), K (\d+)")
_ALONE = re.compile(r"^GEMM alone ([\d.]+) \(the local kernel, unfused: ([\d.]+)\)")
_LINK = re.compile(r"NCCL alone ([\d.]+), link ([\d.]+)")


@dataclass(frozen=True)
class Measured:
    """One row of a table. Times are microseconds.

    Attributes:
        workload: The suite.
        name: Of the shape.
        shape: M, N and K of one rank's GEMM.
        way: How it ran.
        us: The measured time.
        local_us: The local kernel alone.
        nccl_us: NCCL's collective alone.
        link_us: The bytes that a rank receives, at the peak of the link.
    """

    workload: GemmKind
    name: str
    shape: tuple[int, int, int]
    way: Way
    us: float
    local_us: float
    nccl_us: float
    link_us: float


def read_table(path: Path) -> Iterator[Measured]:
    """The rows of a file, in their order."""
    workload, name, shape = GemmKind.AG_GEMM, "", (0, 0, 0)
    local = nccl = link = 0.0
    columns: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            workload = GemmKind(line[3:].strip())
        elif match := _SHAPE.match(line):
            shape = (int(match[2]), int(match[3]), int(match[4]))
            name = match["name"] or "x".join(map(str, shape))
        elif match := _ALONE.match(line):
            local = float(match[2])
            other = _LINK.search(line)
            assert other is not None, line
            nccl, link = float(other[1]), float(other[2])
        elif line.startswith(("| variant", "| realization")):
            columns = [cell.strip() for cell in line.strip("|").split("|")]
        elif line.startswith("| ") and columns:
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            row = dict(zip(columns, cells, strict=False))
            # Tiles of what a tuner has chosen are not those of the other rows.
            if "µs" in row and not row.get("variant", "").startswith(AUTO):
                us = float(row["µs"])
                yield Measured(workload, name, shape, _way(row), us, local, nccl, link)


def _way(row: dict[str, str]) -> Way:
    if "variant" not in row:
        strategy = Strategy(
            realization=row["realization"],
            direction=row["direction"],
            splits=int(row["splits"]),
            pause=int(row["pause"]),
            comm_ctas=8,
        )
        return Way(Candidate(strategy), zero_copy=row["input"] == "zero_copy")
    return read_way(row["variant"].removesuffix(" (default)"))
