"""The commands `syncopate synthesize` and `syncopate fabric`: plans that are looked for, and the links for which."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from syncopate.cli_arguments import number, shape, write_out
from syncopate.outcome import Outcome, add_json

__all__ = ["add_synthesis_commands"]

_FABRIC = "a JSON file of links, a machine of the cost model such as h100-w8-predicted, or detect"


def add_synthesis_commands(commands: Any) -> None:
    """Adds the commands to an argument parser's commands."""
    search = commands.add_parser(
        "synthesize",
        help="look for the schedule of a collective that takes least on some links",
        description="Looks for the transfers that bring a collective about in the least time on the links of a "
        "machine, proves them, and writes them as a plan in chunk IR (docs/synthesis.md).",
    )
    search.add_argument(
        "collective",
        choices=["all_gather", "all_reduce", "all_to_all", "broadcast", "reduce_scatter"],
    )
    _add_fabric(search, "--fabric", required=True)
    search.add_argument(
        "--shape",
        type=shape,
        default=(8192, 4096),
        metavar="MxN",
        help="shape of what is gathered, reduced, exchanged or broadcast (default: 8192x4096)",
    )
    search.add_argument(
        "--dtype", default="bf16", help="element type as MLIR spells it (default: %(default)s)"
    )
    for option, most, default, words in (
        ("--chunks", 4096, 1, "pieces of each rank's block, or of all of a broadcast"),
        (
            "--tries",
            10_000,
            8,
            "schedules that the greedy matcher makes, of which the best is taken",
        ),
    ):
        search.add_argument(
            option,
            type=number(most),
            default=default,
            metavar="N",
            help=f"{words} (default: %(default)s)",
        )
    search.add_argument("--seed", type=int, default=0, help="of the greedy matcher (default: 0)")
    search.add_argument("--root", type=int, default=0, help="of a broadcast (default: 0)")
    search.add_argument(
        "--method",
        choices=["greedy", "milp"],
        default="greedy",
        help="milp proves that no other takes fewer steps, for a few ranks, with scipy (default: %(default)s)",
    )
    search.add_argument(
        "--limit", type=float, default=20.0, metavar="S", help="seconds for milp (default: 20)"
    )
    search.add_argument(
        "--source",
        choices=["inputs", "tiles"],
        default="inputs",
        help="whether ranks bring along what it starts with, or tiles compute it (default: %(default)s)",
    )
    search.add_argument(
        "--kernel",
        action="store_true",
        help="add a kernel without code, as `syncopate check` and `explain` need one",
    )
    add_json(search)
    search.add_argument(
        "--out", type=Path, metavar="FILE", help="where to write it (default: standard output)"
    )
    search.set_defaults(run=_synthesize)

    fabric = commands.add_parser(
        "fabric",
        help="print the links of a machine as JSON, to be edited and given to synthesize",
        description="Prints the links between ranks: of a machine of the cost model, or of this one.",
    )
    _add_fabric(fabric, "name", nargs="?", default="detect")
    fabric.add_argument(
        "--out", type=Path, metavar="FILE", help="where to write it (default: standard output)"
    )
    add_json(fabric)
    fabric.set_defaults(run=_fabric)


def _add_fabric(command: argparse.ArgumentParser, name: str, **options: Any) -> None:
    command.add_argument(name, metavar="FABRIC", help=_FABRIC, **options)
    command.add_argument(
        "--ranks", type=number(4096), metavar="N", help="ranks, which a machine leaves open"
    )


def _synthesize(arguments: argparse.Namespace) -> Outcome:
    import math

    from syncopate.dtypes import DTYPES
    from syncopate.errors import SyncopateError
    from syncopate.importers.names import Source
    from syncopate.model.fabric_file import find_fabric
    from syncopate.synthesis import synthesize

    if arguments.dtype not in DTYPES:
        raise SyncopateError(
            f"dtype: expects one of {', '.join(DTYPES)}, but got {arguments.dtype!r:.60}"
        )
    found = synthesize(
        arguments.collective,
        find_fabric(arguments.fabric, arguments.ranks),
        math.prod(arguments.shape) * DTYPES[arguments.dtype].nbytes,
        chunks=arguments.chunks,
        method=arguments.method,
        seed=arguments.seed,
        tries=arguments.tries,
        limit_s=arguments.limit,
        root=arguments.root,
    )
    report = {
        "collective": arguments.collective,
        "fabric": found.fabric.name,
        "ranks": found.fabric.ranks,
        "moves": len(found.steps.moves),
        "us": round(found.us, 3),
        "bound_us": round(found.bound_us, 3),
        "is_optimal": found.is_optimal,
    }
    source = Source(arguments.source)
    emitted = found.emit(arguments.shape, arguments.dtype, source=source, kernel=arguments.kernel)
    text = emitted.plan.text_with_locations
    print(
        f"{report['moves']} transfers, {found.us:.1f} µs on {found.fabric.name} by latencies and rates of links alone; "
        f"no schedule takes less than {found.bound_us:.1f} µs"
        + (", and none fewer steps" if found.is_optimal else ""),
        file=sys.stderr,
    )
    return write_out(arguments.out, text, report)


def _fabric(arguments: argparse.Namespace) -> Outcome:
    from syncopate.model.fabric_file import find_fabric

    fabric = find_fabric(arguments.name, arguments.ranks)
    return write_out(arguments.out, str(fabric), fabric.to_json())
