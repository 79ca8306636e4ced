"""The tables of benchmark/entwine.py."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from benchmark.common.report import format_us
from benchmark.common.study import format_head, format_table, spell

__all__ = ["make_table"]

_NOTE = (
    "GEMM + reduce-scatter. Times in µs, medians of interleaved calls, slowest rank. *Fixed*: 8 multiprocessors that "
    "move data, and the tiles that are the default; of loads and stores and TMA the better one. *Joint*: realization, "
    "multiprocessors and tiles chosen together with the order, by measuring all, few calls of each; the best of them "
    "measured again. *By role*: the same where a role adds the parts of a sum, and no tile waits for others' parts. "
    "*Best of all* may use no multiprocessors of its own. Orders that give all ranks the same tiles one after another "
    "are named as alike: their times differ by noise alone."
)
_EVENNESS = (
    "Bytes that tiles have computed for each peer, over time, of the rank that does it least evenly. *Spread*: by how "
    "much the share that is ready for one peer is ahead of that for another, averaged over the tiles' time. "
    "*Unsteadiness*: how far the share that is ready for all peers together is from the share of time that has passed, "
    "at most. Tables are those that run; when tiles end is what the model says of the machine that is named."
)

_READY = (
    "When what a rank computes for others is ready, in µs from the start of a call, with copy engines that push each "
    "transfer in 16 pieces: events on their stream, behind the wait for a piece's tiles. *Unsteadiness* as below, over "
    "the time of the call."
)


def make_table(document: Mapping[str, Any]) -> str:
    """The document as Markdown."""
    rows = document["rows"]
    lines = format_head("Tile order and multiprocessors, chosen together", document, _NOTE)
    columns = ["shape", "M, N, K", "order", "fixed", "by", "joint", "by", "fixed / joint"]
    columns += [
        "cuBLAS, then NCCL / joint",
        "arrival / this, joint",
        "joint by role",
        "arrival / this, by role",
    ]
    lines += format_table(columns, [cells for row in rows for cells in _orders(row)])
    lines += ["", *dict.fromkeys(line for row in rows for line in _alike(row))]
    lines += ["", "## The best of all"]
    columns = [
        "shape",
        "cuBLAS, then NCCL",
        "best baseline",
        "best",
        "by",
        "speed-up",
        "over best baseline",
        "tried",
    ]
    lines += format_table(columns, [_best(row) for row in rows])
    lines += _summary(rows)
    ready = [(row["name"], one) for row in rows for one in row["ready"]]
    if ready:
        lines += ["", "## How evenly, measured", "", _READY]
        columns = [
            "shape",
            "who adds",
            "order",
            "rank",
            "first ready",
            "half ready",
            "all ready",
            "call",
            "unsteadiness",
        ]
        lines += format_table(columns, [line for name, one in ready for line in _ready(name, one)])
    if document["evenness"]:
        lines += ["", "## How evenly, in the model", "", _EVENNESS]
        columns = ["shape", "ranks", "order", "spread", "unsteadiness", "predicted µs", "machine"]
        lines += format_table(columns, [_even(one) for one in document["evenness"]])
    return "\n".join(lines) + "\n"


def _orders(row: Mapping[str, Any]) -> Iterator[list[str]]:
    for order in row["joint"]:
        joint, fixed, role = (row[what].get(order) for what in ("joint", "fixed", "role"))
        yield [
            row["name"],
            spell(row["shape"], ", "),
            order,
            format_us(fixed["us"]) if fixed else "-",
            fixed["realization"] if fixed else "-",
            format_us(joint["us"]),
            f"{joint['realization']}, {joint['comm_ctas']} CTAs, {joint['tiles']}",
            f"{fixed['us'] / joint['us']:.3f}" if fixed else "-",
            f"{row['cublas_nccl_us'] / joint['us']:.2f}x",
            _against(row["joint"], order),
            f"{format_us(role['us'])}, {role['comm_ctas']} CTAs, {role['tiles']}" if role else "-",
            _against(row["role"], order),
        ]


def _against(chosen: Mapping[str, Any], order: str) -> str:
    if "arrival" not in chosen or order not in chosen:
        return "-"
    return f"{chosen['arrival']['us'] / chosen[order]['us']:.3f}"


def _alike(row: Mapping[str, Any]) -> Iterator[str]:
    for who, groups in row["alike"].items():
        for orders in groups:
            if len(orders) > 1:
                yield f"* On {row['ranks']} ranks, if {who} add: {', '.join(orders)} are alike."


def _best(row: Mapping[str, Any]) -> list[str]:
    best, baseline = row["best"], row["cublas_nccl_us"]
    cells = [row["name"], format_us(baseline), format_us(row["best_baseline_us"])]
    if best:
        cells += [
            format_us(best["us"]),
            f"{best['variant']}, {best['tiles']}",
            f"{baseline / best['us']:.2f}x",
        ]
        cells.append(f"{row['best_baseline_us'] / best['us']:.2f}x")
    else:
        cells += ["-"] * 4
    return [*cells, f"{len(row['tried'])} of {row['of']}"]


def _summary(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Geometric means over the shapes that have what is compared."""

    def mean(pairs: Iterable[tuple[float, float]]) -> str:
        ratios = [before / after for before, after in pairs]
        if not ratios:
            return "-"
        return f"{statistics.geometric_mean(ratios):.3f}x over {len(ratios)} shapes"

    def of(what: str, order: str) -> list[tuple[float, Mapping[str, Any]]]:
        return [(row[what][order]["us"], row) for row in rows if order in row[what]]

    lines = ["", "Geometric means:", ""]
    for what in ("fixed", "joint"):
        for order in ("arrival", "grouped", "paced"):
            pairs = [(row["cublas_nccl_us"], us) for us, row in of(what, order)]
            lines.append(f"* cuBLAS, then NCCL / {order}, {what}: {mean(pairs)}")
    for order in ("arrival", "grouped"):
        for what in ("fixed", "joint"):
            pairs = [
                (row[what][order]["us"], us) for us, row in of(what, "paced") if order in row[what]
            ]
            lines.append(f"* {order} / paced, {what}: {mean(pairs)}")
    pairs = [
        (row["fixed"]["paced"]["us"], us)
        for us, row in of("joint", "paced")
        if "paced" in row["fixed"]
    ]
    lines.append(f"* fixed / joint, paced: {mean(pairs)}")
    best = [row for row in rows if row["best"]]
    for name, what in (
        ("cublas_nccl_us", "cuBLAS, then NCCL"),
        ("best_baseline_us", "best baseline"),
    ):
        lines.append(
            f"* {what} / best of all: {mean((row[name], row['best']['us']) for row in best)}"
        )
    return lines


def _ready(name: str, one: Mapping[str, Any]) -> Iterator[list[Any]]:
    for rank in one["ranks"]:
        pieces = sorted(zip(rank["times_us"], rank["nbytes"], strict=True))
        if not pieces:
            continue
        whole, so_far, half = sum(rank["nbytes"]), 0, 0.0
        for time, nbytes in pieces:
            so_far += nbytes
            if 2 * so_far >= whole:
                half = time
                break
        times = [pieces[0][0], half, pieces[-1][0], rank["us"]]
        yield [
            name,
            one["adds"],
            one["order"],
            rank["rank"],
            *map(format_us, times),
            f"{rank['unsteadiness']:.3f}",
        ]


def _even(one: Mapping[str, Any]) -> list[str]:
    return [
        one["name"],
        one["ranks"],
        one["order"],
        f"{one['spread']:.3f}",
        f"{one['unsteadiness']:.3f}",
        format_us(one["predicted_us"]),
        one["machine"],
    ]
