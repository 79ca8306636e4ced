"""What an unfinished tuning has measured, so that one that is interrupted goes on where it was.

A file of lines in JSON. Before a candidate runs, a line says so: one that has begun twice and ended neither time, since
the process died of it or was killed, is not tried again.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from syncopate.bridge.cache import write_whole
from syncopate.errors import SyncopateError
from syncopate.tune.cache import Measured
from syncopate.tune.space import Candidate

__all__ = ["Journal", "read_journal"]

MOST_BEGINNINGS: Final = 2


class Journal:
    """The results of a tuning by candidate, and the file that one rank keeps of them.

    Attributes:
        measured: What was measured.
        failed: What was dropped, and why.
    """

    def __init__(self, path: Path | None, header: str, lines: Sequence[Mapping[str, Any]]) -> None:
        """Takes over what there is.

        Args:
            path: The file; None on ranks that do not write.
            header: What it holds for.
            lines: What stands in it, as `read_journal` gives it.
        """
        self._path = path
        self.measured: dict[Candidate, Measured] = {}
        self.failed: dict[Candidate, str] = {}
        begun: dict[Candidate, int] = {}
        for line in lines:
            with contextlib.suppress(SyncopateError, KeyError):
                candidate = Candidate.from_json(line)
                if "us" in line:
                    self.measured[candidate] = Measured.from_json(line)
                elif "failed" in line:
                    self.failed[candidate] = str(line["failed"])
                else:
                    begun[candidate] = begun.get(candidate, 0) + 1
        for candidate, times in begun.items():
            if times >= MOST_BEGINNINGS and candidate not in self.measured:
                self.failed.setdefault(candidate, f"did not end, {times} times")
        # One that goes on is not written anew: another tuning may be adding to it.
        if path is not None and not lines:
            with contextlib.suppress(OSError):
                write_whole(path, f"{header}\n")

    def begin(self, candidate: Candidate) -> None:
        """Notes that a candidate is about to run."""
        self._add({**candidate.to_json(), "begun": True})

    def add(self, measured: Measured) -> None:
        """Notes what was measured."""
        self.measured[measured.candidate] = measured
        self._add(measured.to_json())

    def fail(self, candidate: Candidate, why: str) -> None:
        """Notes that a candidate is dropped."""
        self.failed[candidate] = why
        self._add({**candidate.to_json(), "failed": why})

    def remove(self) -> None:
        """Takes the file away."""
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)

    def _add(self, line: Mapping[str, Any]) -> None:
        """Adds a line, which is on disk before it returns."""
        if self._path is None:
            return
        with contextlib.suppress(OSError), self._path.open("a", encoding="utf-8") as file:
            # Whatever was cut off stays a line of its own.
            file.write(f"\n{json.dumps(line)}\n")
            file.flush()
            os.fsync(file.fileno())


def read_journal(path: Path, header: str) -> list[dict[str, Any]]:
    """The whole lines of a file; none if it is not there, or holds for something else."""
    try:
        first, *rest = path.read_text(encoding="utf-8").split("\n")
    except (OSError, ValueError):
        return []
    lines = []
    # What was cut off is no JSON, and neither is what is empty.
    for text in rest if first == header else ():
        with contextlib.suppress(ValueError):
            line = json.loads(text)
            if isinstance(line, dict):
                lines.append(line)
    return lines
