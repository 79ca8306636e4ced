"""The command `syncopate`: a demonstration, and the way from a shell to the compiler."""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from syncopate.cache_cli import add_cache_command
from syncopate.choices import RANGES, Algorithm, Direction, Realization, TileOrder, names_of
from syncopate.cli_arguments import PLAN_FILE, number, write_out
from syncopate.doctor_cli import add_doctor_command
from syncopate.errors import SyncopateError
from syncopate.import_cli import add_import_commands
from syncopate.outcome import (
    ExitCode,
    Outcome,
    add_json,
    end_in_order,
    print_error,
    print_outcome,
    show_step,
)
from syncopate.show.views import View
from syncopate.synthesis_cli import add_synthesis_commands
from syncopate.timeline_cli import add_timeline_command
from syncopate.workload_cli import add_workload_commands

_OPTIONS = (
    "choices that go before the plan's strategy, with spaces between: "
    f"algorithm={'|'.join(names_of(Algorithm))} direction={'|'.join(names_of(Direction))} splits=N "
    f"realization={'|'.join(names_of(Realization))} order={'|'.join(names_of(TileOrder))} group_m=N "
    "pause=NS comm_ctas=N (default: none)"
)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the console script `syncopate`; returns the exit code, one of `ExitCode`."""
    words = list(sys.argv[1:] if argv is None else argv)
    return end_in_order(lambda: _run(words))


def _run(words: list[str]) -> int:
    # Options of syncopate-opt are none of ours, which argparse would insist on.
    if words[:1] == ["opt"]:
        return _opt(words[1:])
    parser = make_parser()
    arguments = parser.parse_args(words)
    if arguments.run is None:
        parser.print_help()
        return int(ExitCode.DONE)
    as_json = bool(getattr(arguments, "json", False))
    try:
        # Progress of a command is no part of the object that it prints.
        with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
            outcome: Outcome = arguments.run(arguments)
        return print_outcome(arguments.command, outcome, as_json=as_json)
    except SyncopateError as error:
        return print_error(arguments.command, error, as_json=as_json)


def make_parser() -> argparse.ArgumentParser:
    """The parser of the command, for what documents and completes it."""
    from syncopate import __version__

    parser = argparse.ArgumentParser(
        prog="syncopate",
        description="Compiles a local Triton kernel and a chunk plan into one fused kernel.",
        epilog="`syncopate COMMAND --help` lists what a command takes.",
    )
    parser.add_argument("--version", action="version", version=f"syncopate {__version__}")
    parser.set_defaults(run=None)
    commands = parser.add_subparsers(metavar="COMMAND", title="commands", dest="command")

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
        type=number(RANGES["splits"][-1]),
        default=1,
        metavar="N",
        help="pieces per transfer, up to 4096 (default: %(default)s)",
    )
    _add_seeds(demo)
    add_json(demo)
    demo.set_defaults(run=_demo)

    commands.add_parser(
        "opt",
        help="run syncopate-opt, the passes one by one, with the arguments that follow",
        add_help=False,
    )
    explain = commands.add_parser(
        "explain",
        help="say what each rank does in a plan",
        description="Says in words what each rank computes, copies and waits for. Lowers the plan with "
        "syncopate-plan-pipeline first.",
    )
    show = commands.add_parser(
        "show",
        help="draw a plan: transfers by rank and time, what comes after what, or its schedule",
        description="Draws a plan as SVG, or as a page of HTML with all pictures and a table. Collectives are "
        "decomposed, and transfers split, as the plan's strategy says. Only view schedule needs a kernel.",
    )
    check = commands.add_parser(
        "check",
        help="simulate a plan on the CPU",
        description="Lowers the plan, fuses it with a kernel that reads and writes what its footprints say, "
        "simulates all ranks in several interleavings, and looks for races, for deadlocks, and for tiles and buffers "
        "that do not hold what the plan brings there.",
    )
    for command, run in ((explain, _explain), (show, _show), (check, _check)):
        command.add_argument(
            "file", help=f"{PLAN_FILE}; to be scheduled, it has a kernel with footprints"
        )
        command.add_argument("--options", default="", metavar="WORDS", help=_OPTIONS)
        add_json(command)
        command.set_defaults(run=run)
    show.add_argument(
        "--view",
        choices=names_of(View),
        default=View.RANKS.value,
        help="what an SVG file shows (default: %(default)s)",
    )
    show.add_argument(
        "--fabric",
        metavar="FABRIC",
        help="links that times are for, as `syncopate synthesize` takes them (default: equal links to one switch)",
    )
    show.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="the picture, or the page if its name ends in .html (default: plan.svg)",
    )
    _add_seeds(check)
    add_import_commands(commands)
    add_synthesis_commands(commands)
    add_workload_commands(commands)
    add_cache_command(commands)
    add_doctor_command(commands)
    add_timeline_command(commands, _OPTIONS)
    completion = commands.add_parser(
        "completion",
        help="print a script that completes these commands in a shell",
        description="Prints a script for a shell to load, which completes commands and their options.",
    )
    completion.add_argument("shell", choices=("bash", "zsh", "tcsh"))
    completion.set_defaults(run=_complete)
    return parser


def _add_seeds(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--seeds",
        type=number(10**6),
        default=5,
        metavar="N",
        help="interleavings to simulate (default: %(default)s)",
    )


def _demo(arguments: argparse.Namespace) -> Outcome:
    from syncopate.demo import Choices, run_demo

    choices = Choices(
        arguments.algorithm, arguments.direction, arguments.realization, arguments.splits
    )
    right = run_demo(arguments.out, choices, seeds=arguments.seeds) == 0
    return Outcome("", {"folder": str(arguments.out)}, ExitCode.DONE if right else ExitCode.WRONG)


def _complete(arguments: argparse.Namespace) -> Outcome:
    try:
        import shtab
    except ImportError:
        raise SyncopateError(
            "completion: needs the package shtab; pip install 'syncopate-compiler[completion]'"
        ) from None
    return Outcome(shtab.complete(make_parser(), arguments.shell))


def _opt(words: list[str]) -> int:
    from syncopate._tools import find_tool

    try:
        code = subprocess.run([find_tool("syncopate-opt"), *words], check=False).returncode
    except OSError as error:
        print(f"syncopate: {error}", file=sys.stderr)
        return int(ExitCode.REFUSED)
    # As a shell says it where a signal has ended the tool.
    return code if code >= 0 else 128 - code


def _explain(arguments: argparse.Namespace) -> Outcome:
    from syncopate.plan.plan_file import schedule_plan
    from syncopate.show import describe_schedule

    text, file = _read(arguments)
    schedule = schedule_plan(text, arguments.options, file=file)
    tables = [
        {
            name: {"columns": list(table.columns), "rows": table.values.tolist()}
            for name, table in schedule.rank_tables(rank).items()
        }
        for rank in range(schedule.world_size)
    ]
    words = describe_schedule(schedule)
    return Outcome(words, {"name": schedule.name, "words": words, "tables": tables})


def _show(arguments: argparse.Namespace) -> Outcome:
    from syncopate.model.fabric_file import find_fabric
    from syncopate.show.plan_show import PlanShow

    text, file = _read(arguments)
    fabric = None
    if arguments.fabric is not None:
        from syncopate.show.plan_transfers import read_transfers

        ranks = read_transfers(text, arguments.options, file=file).ranks
        fabric = find_fabric(arguments.fabric, ranks)
    shown = PlanShow(text, arguments.options, file=file, fabric=fabric)
    out: Path | None = arguments.out
    if out is None and arguments.json:
        return Outcome("", shown.to_json())
    out = out or Path("plan.svg")
    page = out.suffix in (".html", ".htm")
    made = write_out(out, shown.write_page() if page else shown.draw(View(arguments.view)))
    return Outcome(str(out), {**made.data, **(shown.to_json() if arguments.json else {})})


def _check(arguments: argparse.Namespace) -> Outcome:
    from syncopate.sim.check import check_plan

    text, file = _read(arguments)
    report = check_plan(
        text, arguments.options, file=file, seeds=arguments.seeds, progress=show_step
    )
    return Outcome(str(report), report.to_json(), ExitCode.DONE if report.ok else ExitCode.WRONG)


def _read(arguments: argparse.Namespace) -> tuple[str, str]:
    """The text of the plan and the name of its file, after a look at the options."""
    from syncopate.plan.plan_file import check_options
    from syncopate.plan.plan_source import read_plan_text

    check_options(arguments.options)
    return read_plan_text(arguments.file)


if __name__ == "__main__":
    sys.exit(main())
