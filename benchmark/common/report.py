"""The JSON and the table of a run. Every suite writes rows of the same form."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any


@dataclass
class Row:
    """One variant on one shape. Times are microseconds, of the slowest rank, medians.

    Attributes:
        variant: Realization, direction and splits of the transfers between ranks, and what is not as by default.
        default: Whether that is the default strategy.
        us: The variant, from plain tensors (or a symmetric input, if it is zero-copy) to a usable output.
        gemm_us: The GEMM alone, the best of cuBLAS and our kernel.
        local_gemm_us: Our kernel alone, under plain Triton; None where it was not measured.
        comm_us: NCCL's collective alone.
        link_us: The bytes that a rank receives, at the link peak of this run.
        baselines: By name; None where one does not run.
        speedup: Best baseline / us.
        efficiency: max(gemm_us, link_us) / us.
        rel_err: Largest relative error over the checked calls, over the ranks.
        spread: Relative difference of one version measured twice in this comparison.
        host_us: Host time to enqueue a call.
        predicted_us: What the cost model said of it before; None where it says nothing.
    """

    suite: str
    workload: str
    world_size: int
    dtype: str
    M: int
    N: int
    K: int
    variant: str
    realization: str
    direction: str
    splits: int
    default: bool
    us: float
    gemm_us: float
    local_gemm_us: float | None
    comm_us: float
    link_us: float
    baselines: dict[str, float | None]
    rel_err: float
    calls_checked: int
    spread: float
    host_us: float
    predicted_us: float | None = None
    speedup: float = field(init=False)
    efficiency: float = field(init=False)

    def __post_init__(self) -> None:
        self.speedup = min(us for us in self.baselines.values() if us is not None) / self.us
        self.efficiency = max(self.gemm_us, self.link_us) / self.us

    @property
    def shape(self) -> tuple[int, int, int]:
        """M, N, K."""
        return self.M, self.N, self.K

    @property
    def verdict(self) -> str:
        """Win, tie (within the spread) or loss against the best baseline."""
        if abs(self.speedup - 1) <= self.spread:
            return "tie"
        return "win" if self.speedup > 1 else "loss"


def describe_run(world_size: int, commit: str = "") -> dict[str, str]:
    """Hardware, versions, commit and command of this run; where its results went is left out."""
    words = list(sys.argv)
    for option in ("--out", "--commit"):
        if option in words:
            del words[words.index(option) : words.index(option) + 2]
    import torch
    import triton

    return {
        "gpu": torch.cuda.get_device_name(),
        "driver": _output(
            "nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"
        ).split("\n")[0],
        "cuda": str(torch.version.cuda),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "commit": commit or _output("git", "rev-parse", "HEAD"),
        "command": " ".join(["torchrun", "--nproc-per-node", str(world_size), *words]),
        "date": datetime.now(timezone.utc).date().isoformat(),
    }


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def file_stem(suite: str, world_size: int, gpu: str) -> str:
    """Name of the result files: `<suite>-w<world>-<gpu>`."""
    return f"{suite}-w{world_size}-{gpu.lower().replace('nvidia', '').strip().replace(' ', '-')}"


def write_json(path: Path, meta: Mapping[str, Any], rows: Sequence[Row]) -> None:
    """Writes `{"meta": …, "rows": […]}`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {"meta": dict(meta), "rows": [round_numbers(asdict(row)) for row in rows]}
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def write_table(path: Path, meta: Mapping[str, Any], rows: Sequence[Row]) -> None:
    """Writes the table as Markdown."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(format_table(meta, rows), encoding="utf-8")


_COLUMNS = (
    "variant",
    "µs",
    "/ GEMM",
    "speed-up",
    "efficiency",
    "rel. error",
    "host µs",
    "predicted",
    "",
)


def format_table(meta: Mapping[str, Any], rows: Sequence[Row]) -> str:
    """One table for each shape, all variants, losses included."""
    facts = ", ".join(
        f"{name} {value}"
        for name, value in meta.items()
        if isinstance(value, str) and name != "command"
    )
    lines = [
        f"# {rows[0].suite}, {rows[0].world_size} ranks" if rows else "# no rows",
        "",
        facts,
        "",
    ]
    if "command" in meta:
        lines += [f"    {meta['command']}", ""]
    lines += [
        "Times in µs, medians of interleaved calls, slowest rank, from plain tensors unless zero-copy. Efficiency is "
        "max(GEMM alone, bytes at link peak) / ours. A tie is within the spread of one version measured twice. A "
        "variant is a realization, a direction, and the pieces that each rank's part is moved in. Predicted is by "
        "how much more the cost model said.",
    ]
    shapes = list(dict.fromkeys(row.shape for row in rows))
    for shape in shapes:
        chosen = [row for row in rows if row.shape == shape]
        first = chosen[0]
        baselines = {name: us for row in chosen for name, us in row.baselines.items()}
        named = ", ".join(f"{name} {format_us(us)}" for name, us in baselines.items())
        lines += [
            "",
            f"## {first.workload}: M {shape[0]}, N {shape[1]}, K {shape[2]} ({first.dtype}, one rank's)",
            "",
            f"GEMM alone {format_us(first.gemm_us)} (the local kernel, unfused: {format_us(first.local_gemm_us)}), "
            f"NCCL alone {format_us(first.comm_us)}, "
            f"link {format_us(first.link_us)}; baselines: {named}; spread {100 * first.spread:.1f} %",
            "",
            f"| {' | '.join(_COLUMNS)} |",
            "|---" * len(_COLUMNS) + "|",
        ]
        for row in sorted(chosen, key=lambda row: row.us):
            cells = [row.variant + (" (default)" if row.default else ""), format_us(row.us)]
            cells += [f"{row.us / row.gemm_us:.3f}", f"{row.speedup:.2f}x", f"{row.efficiency:.2f}"]
            cells += [f"{row.rel_err:.1e}", f"{row.host_us:.0f}"]
            predicted = row.predicted_us
            cells += ["-" if predicted is None else f"{predicted / row.us - 1:+.1%}", row.verdict]
            lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def format_us(value: float | None) -> str:
    """Microseconds for a table."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def round_numbers(value: Any) -> Any:
    """Plain data with five digits of each number that is no integer."""
    if isinstance(value, dict):
        return {name: round_numbers(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [round_numbers(item) for item in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value
