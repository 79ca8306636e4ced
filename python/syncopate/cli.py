"""The command `syncopate`: a demonstration, and the way from a shell to the compiler."""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from syncopate.errors import InternalError, SyncopateError

if TYPE_CHECKING:
    from syncopate.plan import Schedule


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the console script `syncopate`; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    # Options of syncopate-opt are none of ours, which argparse would insist on.
    if words[:1] == ["opt"]:
        return _opt(words[1:])
    arguments = _parser().parse_args(words)
    try:
        code: int = arguments.run(arguments)
    except SyncopateError as error:
        print(f"syncopate: {error}", file=sys.stderr)
        return 1
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="syncopate",
        description="Compiles a local Triton kernel and a chunk plan into one fused kernel.",
    )
    commands = parser.add_subparsers(required=True, metavar="command")

    demo = commands.add_parser(
        "demo",
        help="compile all-gather + GEMM, run or check it, and save every stage",
        description="Compiles all-gather + GEMM for sm_90 and saves every stage. With two or more "
        "GPUs it runs there beside torch; otherwise numpy executes the schedule of four ranks.",
    )
    demo.add_argument("--out", type=Path, default=Path("syncopate-demo"), metavar="FOLDER")
    demo.add_argument(
        "--realization",
        choices=("ldst_colocated", "copy_engine"),
        default="ldst_colocated",
        help="who moves the data (default: %(default)s)",
    )
    demo.add_argument(
        "--algorithm",
        choices=("direct_push", "direct_pull", "ring_push", "ring_pull"),
        default="direct_push",
        help="how the all-gather is decomposed (default: %(default)s)",
    )
    demo.add_argument("--splits", type=int, default=1, help="pieces per transfer (default: 1)")
    demo.add_argument(
        "--seeds", type=_positive, default=5, help="interleavings to check (default: 5)"
    )
    demo.set_defaults(run=_demo)

    commands.add_parser("opt", help="run syncopate-opt with the arguments that follow")
    for name, words in (
        ("explain", "say what each rank does in a plan in .mlir"),
        ("draw", "draw the schedule of a plan in .mlir"),
        ("check", "execute the schedule of a plan in .mlir with numpy"),
    ):
        command = commands.add_parser(
            name, help=words, description="Lowers a plan with syncopate-plan-pipeline first."
        )
        command.add_argument("file", type=Path, help="module with a plan and a kernel binding")
        command.add_argument("--options", default="", help='such as "splits=2 order=arrival"')
        command.set_defaults(run={"explain": _explain, "draw": _draw, "check": _check}[name])
        if name == "draw":
            command.add_argument("--out", type=Path, default=Path("schedule.svg"))
        if name == "check":
            command.add_argument(
                "--seeds", type=_positive, default=5, help="interleavings to check (default: 5)"
            )
    return parser


def _positive(word: str) -> int:
    number = int(word)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expects at least 1, but got {number}")
    return number


def _demo(arguments: argparse.Namespace) -> int:
    from syncopate.demo import Choices, run_demo

    if arguments.splits < 1:
        raise SyncopateError(f"--splits: expects at least 1, but got {arguments.splits}")
    choices = Choices(arguments.algorithm, arguments.realization, arguments.splits)
    return run_demo(arguments.out, choices, seeds=arguments.seeds)


def _opt(words: list[str]) -> int:
    from syncopate._tools import find_tool

    return subprocess.run([find_tool("syncopate-opt"), *words], check=False).returncode


def _schedule(arguments: argparse.Namespace) -> Schedule:
    from syncopate.show.plan_file import schedule_plan

    try:
        text = arguments.file.read_text()
    except OSError as error:
        raise SyncopateError(f"file: cannot read {arguments.file}: {error.strerror}") from None
    return schedule_plan(text, arguments.options)


def _explain(arguments: argparse.Namespace) -> int:
    from syncopate.show import describe_schedule

    print(describe_schedule(_schedule(arguments)))
    return 0


def _draw(arguments: argparse.Namespace) -> int:
    from syncopate.show import draw_schedule

    schedule = _schedule(arguments)
    title = f"{schedule.name} on {schedule.world_size} ranks"
    arguments.out.write_text(draw_schedule(schedule, title=title))
    print(arguments.out)
    return 0


def _check(arguments: argparse.Namespace) -> int:
    from syncopate.sim import Reads, execute_tables

    schedule = _schedule(arguments)
    reads = Reads.of(schedule)
    runs = [
        # Every other interleaving with some agents much slower than others.
        execute_tables(schedule, reads, seed=seed, skew=bool(seed % 2))
        for seed in range(arguments.seeds)
    ]
    if any(run.max_error for run in runs):
        raise InternalError(f"plan {schedule.name}: a tile is in no rank's order")
    print(
        f"{len(runs)} interleavings of {runs[0].calls} calls on {schedule.world_size} ranks: every tile of "
        f"{math.prod(schedule.tiles)} found what the plan brings there"
    )
    return 0
