"""The command `syncopate`: a demonstration, and the way from a shell to the compiler."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from syncopate.errors import SyncopateError


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the console script `syncopate`; returns the exit code."""
    arguments = _parser().parse_args(argv)
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
    demo.add_argument("--seeds", type=int, default=5, help="interleavings to check (default: 5)")
    demo.set_defaults(run=_demo)

    opt = commands.add_parser(
        "opt", help="run syncopate-opt with the arguments that follow", add_help=False
    )
    opt.add_argument("arguments", nargs=argparse.REMAINDER)
    opt.set_defaults(run=_opt)

    explain = commands.add_parser(
        "explain",
        help="lower a plan in .mlir and say what each rank does",
        description="Lowers a plan with syncopate-plan-pipeline and prints its schedule in words.",
    )
    explain.add_argument("file", type=Path)
    explain.set_defaults(run=_explain)
    return parser


def _demo(arguments: argparse.Namespace) -> int:
    from syncopate.demo import Choices, run_demo

    if arguments.splits < 1:
        raise SyncopateError(f"--splits: expects at least 1, but got {arguments.splits}")
    choices = Choices(arguments.algorithm, arguments.realization, arguments.splits)
    return run_demo(arguments.out, choices, seeds=arguments.seeds)


def _opt(arguments: argparse.Namespace) -> int:
    from syncopate._tools import find_tool

    tool = find_tool("syncopate-opt")
    return subprocess.run([tool, *arguments.arguments], check=False).returncode


def _explain(arguments: argparse.Namespace) -> int:
    from syncopate.show.words import describe_plan_file

    print(describe_plan_file(arguments.file))
    return 0
