"""The table of benchmark/flashoverlap.py."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmark.common.partitions import spell_groups
from benchmark.common.report import format_us
from benchmark.common.study import format_head, format_table, spell

__all__ = ["count_one_wave", "make_table"]

_NOTE = (
    "Times in µs, medians of interleaved calls, slowest rank; 3x1+2x4 are three groups of one wave, and two of four. "
    "The bound is the paper's: the GEMM and the transfer of its last wave, or a wave and the whole transfer, whichever "
    "is longer, by the best GEMM and by NCCL with as many CTAs as it likes, both measured in this run. *Best found* is "
    "the best of the partitions that were tried, few calls of each, and the best of these measured again. *Closed "
    "form* is the paper's Algorithm 1 on the GEMM and NCCL of this run: the partition that it chooses, found by "
    "dynamic programming, what that takes, best found / that, and by how much the prediction is off. *Tables* is the "
    "same for the simulation."
)
_PAPER = "the paper: best at 4 % of its shapes, and 17.34 % slower than the best on average"


def make_table(document: Mapping[str, Any]) -> str:
    """The document as Markdown."""
    rows = document["rows"]
    lines = format_head("Waves in groups, sent by library calls", document, _NOTE)
    columns = [
        "", "M, N, K", "cuBLAS, then NCCL", "bound", "best found", "groups", "speed-up", "of the bound",
        "over best baseline", "CTAs, slots, tiles", "tried",
    ]  # fmt: skip
    lines += format_table(columns, [_row(row) for row in rows])
    lines += ["", "## What was predicted"]
    columns = [
        "", "M, N, K", "closed form", "µs", "of best", "error", "mean error of all tried", "ms",
        "pruned enumeration, of best", "ms", "tables", "of best", "error", "ms",
    ]  # fmt: skip
    lines += format_table(columns, [_prediction(row) for row in rows])
    lines += [*_summary(rows), *_one_wave(document["one_wave"])]
    return "\n".join(lines) + "\n"


def count_one_wave(rows: Sequence[Mapping[str, Any]]) -> tuple[int, int, float]:
    """At how many shapes groups of one wave were the best, of how many, and what they lose on average over all."""
    known = [row for row in rows if row["one_wave_us"] and row["waves"] > 1]
    best = sum(set(row["best"]) == {1} for row in known)
    losses = [row["one_wave_us"] / row["best_us"] - 1 for row in known]
    return best, len(known), statistics.fmean(losses) if losses else 0.0


def _name(row: Mapping[str, Any]) -> list[str]:
    return [row["kind"], spell(row["shape"], ", ")]


def _row(row: Mapping[str, Any]) -> list[str]:
    found, baseline = row.get("found"), row["cublas_nccl_us"]
    if not found:
        return [*_name(row), format_us(baseline), *["-"] * 8]
    others = [row[name] for name in ("cublas_nccl_us", "split_streams_us", "async_tp_us")]
    best = min(us for us in others if us is not None)
    return [
        *_name(row),
        format_us(baseline),
        format_us(row["bound_us"]),
        format_us(found["us"]),
        spell_groups(found["waves"]),
        f"{baseline / found['us']:.2f}x",
        f"{row['bound_us'] / found['us']:.2f}",
        f"{best / found['us']:.2f}x",
        f"{row['comm_ctas']}, {row['slots']}, {row['tiles']}",
        f"{row['partitions']} of 2^{row['waves'] - 1}",
    ]


def _prediction(row: Mapping[str, Any]) -> list[str]:
    if not row.get("found"):
        return [*_name(row), *["-"] * 12]
    best = row["found"]["us"]
    closed, errors = row["closed"], [abs(said / us - 1) for _, us, said in row["tried"]]
    cells = [*_name(row), spell_groups(closed["waves"]), format_us(closed["us"])]
    cells += [_ratio(best, closed["us"]), _error(closed)]
    cells += [f"{statistics.fmean(errors):.1%}" if errors else "-", f"{row['search_ms']:.2f}"]
    published = row["published"]
    cells += (
        [_ratio(best, published["us"]), f"{row['published_ms']:.1f}"] if published else ["-"] * 2
    )
    tables = row["tables"]
    if tables is None:
        return [*cells, *["-"] * 4]
    cells += [spell_groups(tables["waves"]), _ratio(best, tables["us"]), _error(tables)]
    return [*cells, f"{row['tables_ms']:.0f}"]


def _ratio(best: float, us: float | None) -> str:
    return f"{best / us:.3f}" if us else "-"


def _error(choice: Mapping[str, Any]) -> str:
    return f"{choice['predicted_us'] / choice['us'] - 1:+.1%}" if choice["us"] else "-"


def _summary(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    known = [row for row in rows if row.get("found")]
    if not known:
        return []
    speed = statistics.geometric_mean(row["cublas_nccl_us"] / row["found"]["us"] for row in known)
    bound = [row["bound_us"] / row["found"]["us"] for row in known]
    return [
        "",
        f"Over {len(known)} rows: geometric mean of the speed-up {speed:.2f}x, of the bound {min(bound):.2f} to "
        f"{max(bound):.2f}.",
    ]


def _one_wave(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return []
    best, shapes, loss = count_one_wave(rows)
    lines = [
        "",
        "## Groups of one wave",
        "",
        f"Of {shapes} shapes of {rows[0]['kind']} with two waves or more, groups of one wave are the best at {best} "
        f"({best / max(shapes, 1):.0%}); on average over all they take {loss:.1%} longer than the best of the "
        f"partitions that were tried ({_PAPER}).",
    ]
    columns = ["M, N, K", "waves", "tried", "one wave each", "best", "µs", "loss"]
    return lines + format_table(
        columns,
        [
            [
                spell(row["shape"], ", "),
                row["waves"],
                row["partitions"],
                format_us(row["one_wave_us"]),
                spell_groups(row["best"]),
                format_us(row["best_us"]),
                f"{row['one_wave_us'] / row['best_us'] - 1:.1%}" if row["one_wave_us"] else "-",
            ]
            for row in rows
            if row["best"]
        ],
    )
