"""Pictures of results, as SVG. They are made of the JSON alone, and need matplotlib."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["draw_sensitivity"]

LABELS = {
    "splits": "pieces of each transfer",
    "comm_ctas": "CTAs that move data, or multiprocessors left to NCCL",
    "order": "tile order",
}
MARKS = "os^vDPX*<>p"


def draw_sensitivity(path: Path) -> int:
    """Draws each workload and axis of a document of benchmark/sensitivity.py; returns the exit status.

    Args:
        path: The document. Pictures go into `sensitivity/` beside it.

    Raises:
        SystemExit: There is no matplotlib.
    """
    document = json.loads(path.read_text(encoding="utf-8"))
    folder = path.parent / "sensitivity"
    folder.mkdir(exist_ok=True)
    where = document["meta"].get("times", document["meta"]["gpu"])
    for row in document["rows"]:
        for axis in LABELS:
            points = [one for one in row["points"] if one["axis"] == axis]
            if points:
                target = (
                    folder / f"{path.stem.removeprefix('sensitivity-')}-{row['kind']}-{axis}.svg"
                )
                _draw(target, row, points, axis, where)
                print(f"wrote {target}")
    return 0


def _draw(
    target: Path,
    row: Mapping[str, Any],
    points: Sequence[Mapping[str, Any]],
    axis: str,
    where: str,
) -> None:
    try:
        import matplotlib
    except ImportError:
        raise SystemExit("--plot: needs matplotlib; pip install matplotlib") from None
    matplotlib.use("svg")
    # The same document is to give the same file, with text that can be searched.
    matplotlib.rcParams.update({"svg.hashsalt": "syncopate", "svg.fonttype": "none"})
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    places = list(dict.fromkeys(one["at"] for one in points))
    places = places if axis == "order" else sorted(places)
    for number, series in enumerate(dict.fromkeys(one["series"] for one in points)):
        some = sorted(
            (places.index(one["at"]), one["us"]) for one in points if one["series"] == series
        )
        style = "" if axis == "order" else "-"
        axes.plot(*zip(*some, strict=True), MARKS[number % len(MARKS)] + style, label=series)
    axes.axhline(row["cublas_nccl_us"], color="0.3", linestyle="--", label="cuBLAS and NCCL")
    axes.axhline(row["gemm_us"], color="0.6", linestyle=":", label="GEMM alone")
    axes.set_xticks(range(len(places)), list(map(str, places)))
    axes.set_xlabel(LABELS[axis])
    axes.set_ylabel("µs")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:.0f}")
    axes.yaxis.set_minor_formatter("{x:.0f}")
    shape = ", ".join(map(str, row["shape"]))
    title = [f"{row['kind']}, M, N, K {shape}", *textwrap.wrap(where, 64)]
    axes.set_title("\n".join(title), fontsize=9)
    figure.legend(loc="outside right upper", fontsize=8)
    figure.savefig(target, metadata={"Date": None})
    pyplot.close(figure)
