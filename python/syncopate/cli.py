"""The command `syncopate`: a demonstration, and the way from a shell to the compiler."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from syncopate.cache_cli import add_cache_command
from syncopate.choices import RANGES, Algorithm, Direction, Realization, TileOrder, names_of
from syncopate.errors import SyncopateError
from syncopate.import_cli import add_import_commands
from syncopate.timeline_cli import add_timeline_command

if TYPE_CHECKING:
    from syncopate.plan import Schedule

_PLAN = "a module in chunk IR with one plan, whose kernel has footprints (docs/plans.md)"
_OPTIONS = (
    "choices that go before the plan's strategy, with spaces between: "
    f"algorithm={'|'.join(names_of(Algorithm))} direction={'|'.join(names_of(Direction))} splits=N "
    f"realization={'|'.join(names_of(Realization))} order={'|'.join(names_of(TileOrder))} group_m=N "
    "pause=NS comm_ctas=N (default: none)"
)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the console script `syncopate`; returns the exit code: 0, 1 for an error, 2 for wrong usage."""
    words = list(sys.argv[1:] if argv is None else argv)
    # Options of syncopate-opt are none of ours, which argparse would insist on.
    if words[:1] == ["opt"]:
        return _opt(words[1:])
    parser = _parser()
    arguments = parser.parse_args(words)
    if arguments.run is None:
        parser.print_help()
        return 0
    try:
        code: int = arguments.run(arguments)
    except SyncopateError as error:
        print(f"syncopate: {error}", file=sys.stderr)
        return 1
    return code


def _parser() -> argparse.ArgumentParser:
    from syncopate import __version__

    parser = argparse.ArgumentParser(
        prog="syncopate",
        description="Compiles a local Triton kernel and a chunk plan into one fused kernel.",
        epilog="`syncopate COMMAND --help` lists what a command takes.",
    )
    parser.add_argument("--version", action="version", version=f"syncopate {__version__}")
    parser.set_defaults(run=None)
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")

    demo = commands.add_parser(
        "demo",
        help="compile all-gather + GEMM, run or check it, and save every stage",
        description="Compiles all-gather + GEMM for sm_90 and saves every stage. With two or more "
        "GPUs it runs there beside torch; otherwise the fused kernel of four ranks is simulated on the CPU.",
    )
    demo.add_argument(
        "--out",
        type=Path,
        default=Path("syncopate-demo"),
        metavar="FOLDER",
        help="where to save the stages; made if it is not there (default: %(default)s)",
    )
    demo.add_argument(
        "--realization",
        # Library calls take what tiles compute.
        choices=[name for name in names_of(Realization) if name != Realization.NCCL.value],
        default="ldst_colocated",
        help="who moves the data (default: %(default)s)",
    )
    demo.add_argument(
        "--algorithm",
        # The ranks are one node.
        choices=[name for name in names_of(Algorithm) if name != Algorithm.HIERARCHICAL.value],
        default="direct",
        help="between which ranks the all-gather's blocks travel (default: %(default)s)",
    )
    demo.add_argument(
        "--direction",
        choices=names_of(Direction),
        default="push",
        help="who carries the transfers out (default: %(default)s)",
    )
    demo.add_argument(
        "--splits",
        type=_number(RANGES["splits"][-1]),
        default=1,
        metavar="N",
        help="pieces per transfer, up to 4096 (default: %(default)s)",
    )
    _add_seeds(demo)
    demo.set_defaults(run=_demo)

    commands.add_parser(
        "opt",
        help="run syncopate-opt, the passes one by one, with the arguments that follow",
        add_help=False,
    )
    explain = commands.add_parser(
        "explain",
        help="say what each rank does in a plan in .mlir",
        description="Says in words what each rank computes, copies and waits for. Lowers the plan with "
        "syncopate-plan-pipeline first.",
    )
    draw = commands.add_parser(
        "draw",
        help="draw the schedule of a plan in .mlir",
        description="Draws the tiles, copies and waits of every rank as an SVG file. Lowers the plan with "
        "syncopate-plan-pipeline first.",
    )
    check = commands.add_parser(
        "check",
        help="simulate a plan in .mlir on the CPU",
        description="Lowers the plan, fuses it with a kernel that copies what its footprints say, simulates all ranks "
        "in several interleavings, and looks for races, for deadlocks, and for tiles that do not find what the plan "
        "brings there.",
    )
    for command, run in ((explain, _explain), (draw, _draw), (check, _check)):
        command.add_argument("file", type=Path, help=_PLAN)
        command.add_argument("--options", default="", metavar="WORDS", help=_OPTIONS)
        command.set_defaults(run=run)
    draw.add_argument(
        "--out",
        type=Path,
        default=Path("schedule.svg"),
        metavar="FILE",
        help="the picture (default: %(default)s)",
    )
    _add_seeds(check)
    add_import_commands(commands)
    add_cache_command(commands)
    add_timeline_command(commands, _OPTIONS)
    return parser


def _add_seeds(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--seeds",
        type=_number(10**6),
        default=5,
        metavar="N",
        help="interleavings to simulate (default: %(default)s)",
    )


def _number(most: int) -> Callable[[str], int]:
    def convert(word: str) -> int:
        if not word.isdecimal() or not 1 <= int(word[:20]) <= most:
            raise argparse.ArgumentTypeError(f"expects a number in [1, {most}], but got {word!r}")
        return int(word)

    return convert


def _demo(arguments: argparse.Namespace) -> int:
    from syncopate.demo import Choices, run_demo

    choices = Choices(
        arguments.algorithm, arguments.direction, arguments.realization, arguments.splits
    )
    return run_demo(arguments.out, choices, seeds=arguments.seeds)


def _opt(words: list[str]) -> int:
    from syncopate._tools import find_tool

    try:
        tool = find_tool("syncopate-opt")
    except FileNotFoundError as error:
        print(f"syncopate: {error}", file=sys.stderr)
        return 1
    return subprocess.run([tool, *words], check=False).returncode


def _read(arguments: argparse.Namespace) -> str:
    """The text of the plan, after a look at the options."""
    from syncopate.show.plan_file import check_options

    check_options(arguments.options)
    file: Path = arguments.file
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise SyncopateError(f"file: cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SyncopateError(f"file: {file} is no text; expects {_PLAN}") from None
    except ValueError as error:
        raise SyncopateError(f"file: cannot read {str(file)!r}: {error}") from None


def _schedule(arguments: argparse.Namespace) -> Schedule:
    from syncopate.show.plan_file import schedule_plan

    return schedule_plan(_read(arguments), arguments.options, file=str(arguments.file))


def _explain(arguments: argparse.Namespace) -> int:
    from syncopate.show import describe_schedule

    print(describe_schedule(_schedule(arguments)))
    return 0


def _draw(arguments: argparse.Namespace) -> int:
    from syncopate.show import draw_schedule

    schedule = _schedule(arguments)
    title = f"{schedule.name} on {schedule.world_size} ranks"
    try:
        arguments.out.write_text(draw_schedule(schedule, title=title), encoding="utf-8")
    except OSError as error:
        raise SyncopateError(f"--out: cannot write {arguments.out}: {error.strerror}") from None
    except ValueError as error:
        raise SyncopateError(f"--out: cannot write {str(arguments.out)!r}: {error}") from None
    print(arguments.out)
    return 0


def _check(arguments: argparse.Namespace) -> int:
    from syncopate.sim.check import check_plan

    text, file = _read(arguments), str(arguments.file)
    report = check_plan(text, arguments.options, file=file, seeds=arguments.seeds)
    print(report, file=sys.stdout if report.ok else sys.stderr)
    return 0 if report.ok else 1
