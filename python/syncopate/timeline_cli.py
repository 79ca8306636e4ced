"""The command `syncopate timeline`: what a call did, or would do, as a page, a trace, a picture and in words."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syncopate.cli_arguments import write_out
from syncopate.outcome import Outcome, add_json

if TYPE_CHECKING:
    from syncopate.profile import Run

__all__ = ["add_timeline_command"]

_MOST_US = 1e9


def add_timeline_command(commands: Any, options: str) -> None:
    """Adds the command to an argument parser's commands.

    Args:
        commands: Where to.
        options: What is said of the pipeline's options.
    """
    timeline = commands.add_parser(
        "timeline",
        help="show what a profiled call did, or what a plan would do by the cost model",
        description="Writes a page that shows what each role does when, and says where the time goes and what to try. "
        "A measurement and a plan, one behind the other, are shown on one scale.",
    )
    timeline.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="runs that Profile.save has written, .json, or a plan with a kernel, .mlir or .py, for the model to "
        "predict",
    )
    timeline.add_argument(
        "--machine",
        default="h200-w2",
        metavar="NAME",
        help="for plans: a preset, or a file of syncopate.model.measure (default: %(default)s)",
    )
    timeline.add_argument(
        "--tile-us",
        type=_time,
        default=20.0,
        metavar="US",
        help="for plans: microseconds of a tile, which only its kernel's code would say (default: %(default)s)",
    )
    timeline.add_argument("--options", default="", metavar="WORDS", help=f"for plans: {options}")
    timeline.add_argument(
        "--out",
        type=Path,
        default=Path("timeline.html"),
        metavar="FILE",
        help="the page (default: %(default)s)",
    )
    timeline.add_argument(
        "--trace", type=Path, metavar="FILE", help="also a trace for Perfetto or chrome://tracing"
    )
    timeline.add_argument(
        "--picture", type=Path, metavar="FILE", help="also a picture of the page, .png, by Chromium"
    )
    add_json(timeline)
    timeline.set_defaults(run=_timeline)


def _time(word: str) -> float:
    try:
        us = float(word)
    except ValueError:
        us = math.nan
    if not 0 < us <= _MOST_US:
        raise argparse.ArgumentTypeError(
            f"expects a number of µs in (0, {_MOST_US:.0e}], but got {word!r}"
        )
    return us


def _timeline(arguments: argparse.Namespace) -> Outcome:
    from syncopate.profile import describe_run, to_chrome_trace
    from syncopate.show.screenshot import take_picture
    from syncopate.show.viewer import draw_runs

    runs = [run for file in arguments.files for run in _read(file, arguments)]
    write_out(arguments.out, draw_runs(runs))
    if arguments.trace is not None:
        write_out(arguments.trace, to_chrome_trace(runs), argument="--trace")
    if arguments.picture is not None:
        take_picture(arguments.out, arguments.picture)
    words = [describe_run(run, *_others(runs, run)) for run in runs]
    made = {
        name: str(file)
        for name in ("out", "trace", "picture")
        if (file := getattr(arguments, name)) is not None
    }
    text = "\n\n".join([*words, "\n".join(made.values())])
    return Outcome(text, {"files": made, "words": words})


def _others(runs: Sequence[Run], run: Run) -> list[Run]:
    return [other for other in runs if other is not run][:1]


def _read(source: str, arguments: argparse.Namespace) -> list[Run]:
    from syncopate.model import KernelCost, open_machine, predict
    from syncopate.plan.plan_file import check_options, schedule_plan
    from syncopate.plan.plan_source import read_plan_text
    from syncopate.profile import load_runs, predicted_run

    check_options(arguments.options)
    text, file = read_plan_text(source)
    if text.lstrip().startswith("{"):
        return load_runs(text, file)
    schedule = schedule_plan(text, arguments.options, file=file)
    cost = KernelCost(arguments.tile_us)
    return [predicted_run(schedule, predict(schedule, cost, open_machine(arguments.machine)))]
