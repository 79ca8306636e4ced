"""The commands `syncopate import` and `syncopate export`: plans from other systems, and for them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from syncopate.cli_arguments import PLAN_FILE, shape, write_out
from syncopate.importers.names import Format, Source
from syncopate.outcome import Outcome, add_json

__all__ = ["add_import_commands"]


def add_import_commands(commands: Any) -> None:
    """Adds the commands to an argument parser's commands."""
    importer = commands.add_parser(
        "import",
        help="make a plan in .mlir of a file of another system",
        description="Writes what a file moves as a plan in chunk IR (docs/importers.md). A file that says step by step "
        "what moves is proved to be the collective that it says it is.",
        epilog="; ".join(f"{form.value}: {form.summary}" for form in Format) + ".",
    )
    importer.add_argument("file", type=Path, help="the file")
    importer.add_argument(
        "--from",
        dest="form",
        choices=[form.value for form in Format],
        required=True,
        help="its format",
    )
    importer.add_argument(
        "--shape",
        type=shape,
        metavar="MxN",
        help="shape of what is gathered, reduced or exchanged by steps; its first dimension is cut (default: 8 rows of "
        "64 elements for each chunk)",
    )
    importer.add_argument(
        "--dtype", help="element type of what steps move, as MLIR spells it (default: f32)"
    )
    importer.add_argument(
        "--source",
        choices=[source.value for source in Source],
        help="whether ranks bring along what it starts with, or tiles compute it (default: tiles if a product in the "
        "file computes it, else inputs)",
    )
    importer.add_argument(
        "--line",
        type=int,
        help="where something moves, if it does at several lines of a file without steps",
    )
    importer.add_argument(
        "--kernel",
        action="store_true",
        help="add a kernel without code, as `syncopate check` and `explain` need one",
    )
    _add_out(importer)
    importer.set_defaults(run=_import)

    exporter = commands.add_parser(
        "export",
        help="write a plan as a file of MSCCL or MSCCL++",
        description="Decomposes the collective of a plan as its strategy says, or takes the transfers that "
        "claim to be one, and writes them for another system's runtime (docs/importers.md).",
    )
    exporter.add_argument("file", help=PLAN_FILE)
    exporter.add_argument(
        "--to",
        dest="form",
        choices=[form.value for form in Format if form.is_written],
        required=True,
        help="the format",
    )
    exporter.add_argument(
        "--collective",
        help="all_gather, all_reduce, reduce_scatter or all_to_all: what a plan is that has no collective and claims "
        "nothing; proved (default: what the plan has, or claims)",
    )
    exporter.add_argument(
        "--result",
        default="output",
        metavar="BUFFER",
        help="where such a plan leaves the result (default: %(default)s)",
    )
    _add_out(exporter)
    exporter.set_defaults(run=_export)


def _add_out(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--out", type=Path, metavar="FILE", help="where to write it (default: standard output)"
    )
    add_json(command)


def _import(arguments: argparse.Namespace) -> Outcome:
    from syncopate.importers.files import import_plan

    imported = import_plan(
        arguments.file,
        arguments.form,
        shape=arguments.shape,
        dtype=arguments.dtype,
        source=None if arguments.source is None else Source(arguments.source),
        kernel=arguments.kernel,
        line=arguments.line,
    )
    return write_out(arguments.out, imported.plan.text_with_locations)


def _export(arguments: argparse.Namespace) -> Outcome:
    from syncopate.importers.files import export_plan
    from syncopate.plan.plan_source import read_plan_text

    plan, file = read_plan_text(arguments.file)
    text = export_plan(
        plan,
        arguments.form,
        file=file,
        collective=arguments.collective,
        result=arguments.result,
    )
    return write_out(arguments.out, text)
