"""The commands `syncopate cache …`: what was tuned, looked at, kept, and brought to other machines."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syncopate.errors import SyncopateError
from syncopate.outcome import Outcome, add_json

if TYPE_CHECKING:
    from syncopate.tune import Entry, TuningCache

__all__ = ["add_cache_command"]


def add_cache_command(commands: Any) -> None:
    """Adds the command to an argument parser's commands."""
    cache = commands.add_parser(
        "cache",
        help="list, show, export, import or remove what was tuned",
        description="Strategies that were chosen before, by the model or by measurement, each in a file.",
    )
    cache.set_defaults(run=lambda _: Outcome(cache.format_help()))
    actions = cache.add_subparsers(metavar="ACTION", title="actions")

    def add(name: str, run: Any, text: str) -> Any:
        action = actions.add_parser(name, help=text, description=f"{text[:1].upper()}{text[1:]}.")
        action.add_argument(
            "--folder",
            type=Path,
            help="another folder than that of the user's cache",
        )
        add_json(action)
        action.set_defaults(run=run)
        return action

    names: dict[str, Any] = {
        "nargs": "*",
        "metavar": "NAME",
        "help": "part of an entry's name; all entries if it is left out",
    }
    add("path", _path, "print the folder of the entries")
    add("list", _list, "list the entries: what for, what was chosen, and how").add_argument(
        "names", **names
    )
    add("show", _show, "show entries with all that was measured").add_argument("names", **names)
    export = add("export", _export, "write entries to one file, for other machines")
    export.add_argument("file", type=Path, help="the file to write")
    export.add_argument("names", **names)
    read = add("import", _import, "add the entries of an exported file")
    read.add_argument("file", type=Path, help="the file to read")
    read.add_argument("--replace", action="store_true", help="also where there is an entry already")
    remove = add("remove", _remove, "remove entries")
    remove.add_argument("names", nargs="*", metavar="NAME", help="part of an entry's name")
    remove.add_argument("--all", action="store_true", help="remove all")


def _open(arguments: argparse.Namespace) -> TuningCache:
    from syncopate.tune import TuningCache

    return TuningCache(arguments.folder)


def _find(cache: TuningCache, names: Sequence[str]) -> list[tuple[Path, Entry]]:
    """The entries whose names have one of these in them, or all if there are none.

    Raises:
        SyncopateError: A name is in none.
    """
    entries = list(cache.entries())
    for name in names:
        if not any(name in path.stem for path, _ in entries):
            raise SyncopateError(f"cache: no entry in {cache.folder} has {name!r} in its name")
    return [
        (path, entry)
        for path, entry in entries
        if not names or any(name in path.stem for name in names)
    ]


def _path(arguments: argparse.Namespace) -> Outcome:
    folder = str(_open(arguments).folder)
    return Outcome(folder, {"folder": folder})


def _list(arguments: argparse.Namespace) -> Outcome:
    found = _find(_open(arguments), arguments.names)
    lines = [f"{path.stem}: {entry.candidate.name}, {_origin(entry)}" for path, entry in found]
    return Outcome(
        "\n".join(lines), {"entries": {path.stem: e.candidate.name for path, e in found}}
    )


def _origin(entry: Entry) -> str:
    for one in entry.measured:
        if one.candidate == entry.candidate:
            return (
                f"measured {one.us:.1f} µs, {1 / one.share:.3f}x the speed of the default, the best of "
                f"{len(entry.measured)}"
            )
    return "by the model"


def _show(arguments: argparse.Namespace) -> Outcome:
    found = _find(_open(arguments), arguments.names)
    lines = [line for path, entry in found for line in _describe(path, entry)]
    return Outcome("\n".join(lines), {"entries": [entry.to_json() for _, entry in found]})


def _describe(path: Path, entry: Entry) -> Iterator[str]:
    yield str(path)
    key = entry.key
    subject = ", ".join(
        f"{name} {value}" for name, value in key.subject.items() if value is not None
    )
    yield f"  for {subject}, on {key.gpu}, {key.target}, syncopate {key.version}"
    yield f"  chosen: {entry.candidate.name}, {_origin(entry)}"
    for one in entry.measured:
        said = "" if one.predicted_us is None else f", predicted {one.predicted_us:.1f}"
        yield f"  {one.us:9.1f} µs ({one.share:.3f} of the default{said})  {one.candidate.name}"
    for name, value in entry.statistics.items():
        if isinstance(value, (int, float, str)):
            yield f"  {name}: {value}"


def _export(arguments: argparse.Namespace) -> Outcome:
    entries = _find(_open(arguments), arguments.names)
    data = {"entries": [entry.to_json() for _, entry in entries]}
    try:
        arguments.file.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    except (OSError, ValueError) as error:
        raise SyncopateError(f"file: cannot write {str(arguments.file)!r}: {error}") from None
    written = {"file": str(arguments.file), "count": len(entries)}
    return Outcome(f"{len(entries)} entries in {arguments.file}", written)


def _import(arguments: argparse.Namespace) -> Outcome:
    from syncopate.tune import Entry

    try:
        text = arguments.file.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise SyncopateError(f"file: cannot read {str(arguments.file)!r}: {error}") from None
    try:
        entries = [Entry.from_json(one) for one in json.loads(text)["entries"]]
    except (ValueError, KeyError, RecursionError, TypeError, SyncopateError) as error:
        raise SyncopateError(
            f"file: expects what `syncopate cache export` has written, but {str(arguments.file)!r} is something else "
            f"({type(error).__name__})"
        ) from None
    cache, added = _open(arguments), 0
    for entry in entries:
        if arguments.replace or not cache.path(entry.key).exists():
            cache.store(entry)
            added += 1
    left = len(entries) - added
    return Outcome(f"{added} entries added, {left} there already", {"added": added, "left": left})


def _remove(arguments: argparse.Namespace) -> Outcome:
    if bool(arguments.names) == arguments.all:
        raise SyncopateError("cache: expects names of entries to remove, or --all, and not both")
    if "" in arguments.names:
        raise SyncopateError(
            "cache: expects names of entries to remove, but got an empty one, which all have in theirs; say --all"
        )
    names = [path.stem for path in _open(arguments).remove(*arguments.names)]
    return Outcome("\n".join([*names, f"{len(names)} entries removed"]), {"removed": names})
