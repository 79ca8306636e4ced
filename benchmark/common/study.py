"""What every study does: its options, its ranks, its time, and its files.

A study writes one document, `{"meta": …, "missing": …, "wrong": …, "rows": …}` and what else it has, as JSON, and a
table that is made of the document alone, so that the table can be made again on another machine. It writes after every
part, so that a run that is cut short leaves what it has, and says what is missing.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmark.common import report
from benchmark.common.bench import Bench
from benchmark.common.dry_bench import DryBench
from benchmark.common.forecast import add_dry_run, describe_dry_run, find_dry_machine

from syncopate import GemmWorkload
from syncopate.model import Machine, find_machine

if TYPE_CHECKING:
    from syncopate.runtime.session import Session

__all__ = ["Study", "format_head", "format_table", "make_parser", "remake", "spell"]

Document = Mapping[str, Any]


def make_parser(description: str, out: str = "docs/results") -> argparse.ArgumentParser:
    """A command line with the options that all studies have."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--budget", type=float, default=math.inf, help="seconds; what is not begun then is missing"
    )
    parser.add_argument("--rounds", type=int, default=15, help="timed rounds of reported figures")
    parser.add_argument("--calls", type=int, default=30, help="checked calls of reported programs")
    parser.add_argument("--few", type=int, default=3, help="timed calls of what is tried only")
    add_dry_run(
        parser,
        "all but the GPUs: times are predictions, and files are written only if --out is given",
    )
    parser.add_argument(
        "--table", type=Path, help="make the table of this JSON again, and nothing else"
    )
    parser.add_argument("--commit", default="", help="the commit, where git cannot tell")
    parser.add_argument("--out", type=Path, help=f"folder of the files; by default {out}")
    parser.set_defaults(folder=Path(out))
    return parser


class Study:
    """One run.

    Attributes:
        name: For its files.
        options: The command line.
        machine: What the cost model knows of the machine at hand.
        session: The ranks; None in a dry run.
        rank: This one.
        world_size: Number of ranks.
    """

    def __init__(
        self, name: str, options: argparse.Namespace, table: Callable[[Document], str]
    ) -> None:
        """Joins the other ranks, unless it is dry.

        Args:
            name: Of the study.
            options: What `make_parser` has parsed.
            table: Makes the table of the document.
        """
        self.name, self.options, self._table = name, options, table
        self.session: Session | None = None
        self.rank, self.world_size = 0, int(options.ranks)
        self._started = time.monotonic()
        self._wrong: list[str] = []
        self._unwritten: Document | None = None
        if options.dry_run:
            self.machine: Machine = find_dry_machine(options)
            self.meta: dict[str, Any] = dict(describe_dry_run(self.machine))
            return
        from benchmark.common.gpu_bench import Ranks

        from syncopate.runtime.session import Session as GpuSession

        self._ranks = Ranks(GpuSession())
        self.session = session = self._ranks.session
        self.rank, self.world_size = session.rank, session.world_size
        self.meta = dict(report.describe_run(session.world_size, options.commit))
        self.machine = find_machine(self.meta["gpu"], session.world_size)
        self.meta["model"] = self.machine.label

    def bench(self, workload: GemmWorkload) -> Bench:
        """A workload on the GPUs, or on the model of them."""
        if self.session is None:
            return DryBench(workload, self.machine)
        from benchmark.common.gpu_bench import GpuBench

        return GpuBench(self._ranks, workload)

    @property
    def elapsed(self) -> float:
        """Seconds since the start, of the rank that started first."""
        seconds = time.monotonic() - self._started
        return seconds if self.session is None else self.session.maximum([seconds])[0]

    def over(self) -> bool:
        """Whether the budget is spent. The same on all ranks."""
        return self.elapsed > float(self.options.budget)

    def until(self, seconds: float) -> Callable[[], bool]:
        """Asks whether so many seconds have passed from now on, or the budget is spent."""
        end = min(self.elapsed + seconds, self.options.budget)
        return lambda: self.elapsed > end

    def share(self, parts: int) -> float:
        """Seconds for each of so many parts that are still to come."""
        left: float = self.options.budget - self.elapsed
        return max(left, 0.0) / max(parts, 1)

    def note_wrong(self, name: str, wrong: Iterable[str]) -> None:
        """Keeps what of a workload was wrong, for the document and the exit status."""
        self._wrong += [f"{name}: {what}" for what in wrong]

    def say(self, text: str) -> None:
        """Prints on rank 0, with the time."""
        seconds = time.monotonic() - self._started
        if self.rank == 0:
            print(f"[{seconds:6.1f} s] {text}", flush=True)

    def write(self, rows: Sequence[Document], missing: Iterable[str], **more: Any) -> None:
        """Writes the document and its table on rank 0; where no file is wanted, `close` prints the last table."""
        if self.rank:
            return
        document = report.round_numbers(
            {
                "meta": self.meta, "seconds": time.monotonic() - self._started, "missing": list(missing),
                "wrong": self._wrong, "rows": list(rows), **more,
            }
        )  # fmt: skip
        options = self.options
        self._unwritten = document
        if options.dry_run and options.out is None:
            return
        folder = options.out or options.folder
        folder.mkdir(parents=True, exist_ok=True)
        stem = folder / report.file_stem(self.name, self.world_size, self.meta["gpu"])
        stem.with_suffix(".json").write_text(format_json(document), encoding="utf-8")
        stem.with_suffix(".md").write_text(self._table(document), encoding="utf-8")
        self._unwritten = None
        print(f"wrote {stem}.json and .md", flush=True)

    def close(self) -> int:
        """Leaves the ranks; returns the exit status: 1 if a result was wrong."""
        if self._unwritten is not None:
            print(self._table(self._unwritten), flush=True)
        for what in self._wrong:
            self.say(f"WRONG {what}")
        if self.session is not None:
            self._ranks.close()
        return int(bool(self._wrong))


def format_json(document: Document) -> str:
    """As JSON with lists of numbers and words on one line each."""
    text = json.dumps(document, indent=1, ensure_ascii=False)
    flat = re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", lambda found: f"[{' '.join(found[1].split())}]", text)
    # Where a word had brackets or more than one blank, it stays as it was.
    return (flat if json.loads(flat) == json.loads(text) else text) + "\n"


def remake(path: Path, table: Callable[[Document], str]) -> int:
    """Makes the table of a document again, beside it; returns the exit status."""
    document = json.loads(path.read_text(encoding="utf-8"))
    path.with_suffix(".md").write_text(table(document), encoding="utf-8")
    return 0


def spell(numbers: Iterable[int], between: str = "x") -> str:
    """A shape, or groups of waves, for tables and messages."""
    return between.join(map(str, numbers))


def format_head(title: str, document: Document, note: str) -> list[str]:
    """The lines with which a table begins: hardware, versions, command, and what is missing or wrong."""
    meta = document["meta"]
    facts = ", ".join(f"{name} {value}" for name, value in meta.items() if name != "command")
    lines = [f"# {title}", "", facts, "", f"    {meta['command']}", "", note]
    for name, what in (
        ("missing", "Missing, for want of time if nothing else is said"),
        ("wrong", "Wrong, and left out"),
    ):
        if document[name]:
            lines += ["", f"**{what}:** {'; '.join(document[name])}."]
    return lines


def format_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """A table in Markdown."""
    lines = ["", f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    return lines + [f"| {' | '.join(map(str, row))} |" for row in rows]
