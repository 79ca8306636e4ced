"""Tokens a second of a small Llama-like model: plain torch with NCCL, AsyncTP, and fused operators.

    python benchmark/llama.py [--ranks 2] [--parts train,compiled,serve] [--budget 540]

Each part is a run of examples/torch_llama.py by torchrun: training, the same with all ways compiled by torch, and
serving, with a CUDA graph for a token. Writes `<out>/llama-w<ranks>-<gpu>.json` and `.md`, after every part. Exits with
1 if losses or logits differ by more than the element type's error, or a part failed. `--dry-run` needs no GPU: a
smaller model by gloo, in float32, whose results are checked and whose times mean nothing; it writes if `--out` is
given.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmark.common import report
from benchmark.common.study import format_head, format_json, format_table, remake

ROOT = Path(__file__).resolve().parent.parent

PARTS = {
    "train": ("Training", ["train"]),
    "compiled": ("Training, compiled by torch", ["train", "--compile"]),
    "serve": ("Serving", ["serve", "--graph"]),
}
"""Titles, and arguments of the example."""

_NOTE = (
    "*train*: a step forward and backward with AdamW. *serve*: prompts up to their logits, and tokens of answers, one "
    "of each sequence at a time. Medians of the slowest rank; factors are over plain. Errors are the largest from "
    "plain: of a loss, relative, and of the norm of logits. *Same* is how often the likeliest token is that of plain. "
    "AsyncTP is always compiled; where torch has fused nothing, it is plain, compiled. fused_sums computes sums of "
    "single tokens by `matmul_all_reduce` too."
)
_DRY_NOTE = "By gloo on CPUs, in float32: **times mean nothing here**, results were checked. "


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the parts and writes; returns the exit status."""
    options = parse(arguments)
    if options.table:
        return remake(options.table, make_table)
    document = begin(options)
    started = time.monotonic()
    for part in options.parts:
        left = options.budget - (time.monotonic() - started)
        if left <= 0:
            break
        made, problem = run_part(part, options, left)
        document["missing"].remove(part)
        if problem:
            document["wrong"].append(f"{part}: {problem}")
        if made:
            document["runs"][part] = made
            document["rows"] += [
                {"part": part, "way": way, **row} for way, row in made.pop("ways").items()
            ]
        document["seconds"] = time.monotonic() - started
        write(document, options)
    return int(bool(document["wrong"] or not document["rows"]))


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=2, help="processes, each with its own GPU")
    parser.add_argument("--parts", type=read_parts, default=list(PARTS), help="comma-separated")
    parser.add_argument(
        "--budget", type=float, default=math.inf, help="seconds; a part that takes longer is ended"
    )
    parser.add_argument("--dry-run", action="store_true", help="no GPU; files if --out is given")
    parser.add_argument("--table", type=Path, help="make the table of this JSON again, and end")
    parser.add_argument("--commit", default="", help="the commit, where git cannot tell")
    parser.add_argument("--out", type=Path, help="folder of the files; by default docs/results")
    return parser.parse_args(arguments)


def read_parts(text: str) -> list[str]:
    """Names of parts."""
    parts = text.split(",")
    if unknown := [part for part in parts if part not in PARTS]:
        raise argparse.ArgumentTypeError(f"expects some of {', '.join(PARTS)}, but got {unknown}")
    return parts


def begin(options: argparse.Namespace) -> dict[str, Any]:
    """A document without rows."""
    meta = {"gpu": "dry", "command": ""}
    if not options.dry_run:
        meta = report.describe_run(options.ranks, options.commit)
    command = f"python benchmark/llama.py --ranks {options.ranks} --parts {','.join(options.parts)}"
    meta["command"] = command + (" --dry-run" if options.dry_run else "")
    return {
        "meta": meta, "seconds": 0.0, "missing": list(options.parts), "wrong": [], "runs": {}, "rows": [],
    }  # fmt: skip


def run_part(
    part: str, options: argparse.Namespace, limit_s: float
) -> tuple[dict[str, Any] | None, str]:
    """What the example has reported, if it came so far, and what went wrong."""
    given = [each for each in PARTS[part][1] if not (options.dry_run and each == "--graph")]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "report.json"
        example = [f"--nproc-per-node={options.ranks}", "examples/torch_llama.py"]
        environment = dict(os.environ)
        if options.dry_run:
            environment["CUDA_VISIBLE_DEVICES"] = ""
        ran = subprocess.Popen(
            [*launcher, *example, *given, "--out", str(out)], cwd=ROOT, env=environment
        )
        problem = ""
        try:
            if status := ran.wait(None if math.isinf(limit_s) else limit_s):
                problem = f"ended with {status}"
        except subprocess.TimeoutExpired:
            problem = f"was ended after {limit_s:.0f} s"
            # The launcher ends its processes when it is told to end, not when it is killed.
            ran.terminate()
            ran.wait()
        return (json.loads(out.read_text()) if out.exists() else None), problem


def write(document: Mapping[str, Any], options: argparse.Namespace) -> None:
    """Writes both files, or prints the table of a dry run without a folder."""
    document = report.round_numbers(dict(document))
    if options.dry_run and options.out is None:
        if not document["missing"]:
            print(make_table(document), flush=True)
        return
    folder = options.out or ROOT / "docs" / "results"
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / report.file_stem("llama", options.ranks, document["meta"]["gpu"])
    stem.with_suffix(".json").write_text(format_json(document), encoding="utf-8")
    stem.with_suffix(".md").write_text(make_table(document), encoding="utf-8")
    print(f"wrote {stem}.json and .md", flush=True)


def make_table(document: Mapping[str, Any]) -> str:
    """The document as Markdown."""
    note = (_DRY_NOTE if document["meta"]["gpu"] == "dry" else "") + _NOTE
    lines = format_head("Tokens a second of a small Llama-like model", document, note)
    for part, run in document["runs"].items():
        rows = [row for row in document["rows"] if row["part"] == part]
        sizes = ", ".join(f"{name} {size}" for name, size in run["sizes"].items())
        lines += ["", f"## {PARTS[part][0]}", "", f"{run['ranks']} ranks, {run['dtype']}: {sizes}"]
        lines += make_serving(rows) if part == "serve" else make_training(rows)
    return "\n".join(lines) + "\n"


def make_training(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The lines of a part that trains."""
    columns = [
        "",
        "tokens/s",
        "over plain",
        "ms for a step",
        "last loss",
        "error",
        "fused by torch",
    ]
    name, first = "tokens_per_second", rows[0]
    cells = [
        [
            row["way"],
            f"{row[name]:.0f}",
            f"{row[name] / first[name]:.2f}",
            f"{row['ms_per_step']:.2f}",
            f"{row['losses'][-1]:.4f}",
            f"{row['largest_loss_error']:.1e}",
            row.get("fused_by_torch", ""),
        ]
        for row in rows
    ]
    return format_table(columns, cells)


def make_serving(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The lines of a part that serves."""
    columns = [
        "",
        "prompt tokens/s",
        "over plain",
        "answer tokens/s",
        "over plain",
        "error",
        "same",
    ]
    names, first = ("prompt_tokens_per_second", "answer_tokens_per_second"), rows[0]
    cells = [
        [
            row["way"],
            *(
                text
                for name in names
                for text in (f"{row[name]:.0f}", f"{row[name] / first[name]:.2f}")
            ),
            f"{row['largest_logits_error']:.1e}",
            f"{row['same_likeliest_token']:.3f}",
        ]
        for row in rows
    ]
    return format_table(columns, cells)


if __name__ == "__main__":
    sys.exit(main())
