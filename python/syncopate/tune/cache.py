"""What was chosen before: a JSON file for each thing that was tuned, which people can read, keep and ship.

A file's name says what it is for, and ends with a hash of its whole key, so that another version of the package, of the
form of the files, or of the GPU never finds it. What the model chose holds for one state of a machine's file; what was
measured holds whatever the model says.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from syncopate.bridge.cache import cache_folder, write_whole
from syncopate.errors import SyncopateError
from syncopate.tune.space import Candidate

__all__ = ["CACHE_FORMAT", "Entry", "Key", "Measured", "TuningCache"]

CACHE_FORMAT: Final = 2
"""Of the files. A file of another format is left alone."""

_KIND: Final = "tuning"


@dataclass(frozen=True)
class Key:
    """What something was tuned for.

    Attributes:
        subject: What it is, as plain data: of a workload its fields, of a plan with a kernel a hash of both.
        gpu: Name of the GPU as torch gives it, or of the machine, if there is none.
        target: What was compiled for, with its multiprocessors.
        version: Of the package.
    """

    subject: Mapping[str, Any]
    gpu: str
    target: str
    version: str

    @property
    def data(self) -> dict[str, Any]:
        """As plain data; all that the hash is of."""
        return {
            "format": CACHE_FORMAT,
            "subject": dict(self.subject),
            "gpu": self.gpu,
            "target": self.target,
            "version": self.version,
        }

    @property
    def stem(self) -> str:
        """Name of the file without its ending."""
        words = [str(value) for value in self.subject.values() if value is not None]
        text = "-".join([*words, self.gpu, self.target]).lower()
        digest = hashlib.sha256(json.dumps(self.data, sort_keys=True).encode()).hexdigest()
        return f"{re.sub('[^a-z0-9_]+', '-', text).strip('-')[:100]}-{digest[:12]}"


@dataclass(frozen=True)
class Measured:
    """One candidate that was measured.

    Attributes:
        candidate: The candidate.
        us: Microseconds of a call, of the slowest rank.
        default_us: The same of the default, whose calls were in turn with these.
        predicted_us: What the model said; None if it could not.
    """

    candidate: Candidate
    us: float
    default_us: float
    predicted_us: float | None = None

    @property
    def share(self) -> float:
        """The time as a share of the default's, which clocks that drift do not change."""
        return self.us / self.default_us

    def to_json(self) -> dict[str, Any]:
        """As plain data for a file."""
        data = {**self.candidate.to_json(), "us": self.us, "default_us": self.default_us}
        return data if self.predicted_us is None else {**data, "predicted_us": self.predicted_us}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Measured:
        """Reads what `to_json` gives.

        Raises:
            SyncopateError: It is malformed.
        """
        try:
            predicted = data.get("predicted_us")
            return Measured(
                Candidate.from_json(data),
                float(data["us"]),
                float(data["default_us"]),
                None if predicted is None else float(predicted),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise SyncopateError(f"measured candidate: malformed: {error!r}") from error


@dataclass(frozen=True)
class Entry:
    """What was chosen.

    Attributes:
        key: What for.
        candidate: What.
        machine: Hash of the machine by whose model it was chosen or searched for; empty if there was none.
        measured: All that was measured, best first; empty if the model alone has chosen.
        statistics: Numbers of the tuning, for people.
    """

    key: Key
    candidate: Candidate
    machine: str
    measured: tuple[Measured, ...]
    statistics: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """As plain data for a file."""
        return {
            **self.key.data,
            "machine": self.machine,
            "chosen": self.candidate.to_json(),
            "name": self.candidate.name,
            "measured": [one.to_json() for one in self.measured],
            "statistics": dict(self.statistics),
        }

    @staticmethod
    def from_json(data: Any) -> Entry:
        """Reads what `to_json` gives.

        Raises:
            SyncopateError: It is malformed, or has another format.
        """
        if not isinstance(data, dict) or data.get("format") != CACHE_FORMAT:
            raise SyncopateError(f"expects an entry of format {CACHE_FORMAT}")
        try:
            return Entry(
                Key(dict(data["subject"]), data["gpu"], data["target"], data["version"]),
                Candidate.from_json(data["chosen"]),
                str(data["machine"]),
                tuple(map(Measured.from_json, data["measured"])),
                dict(data["statistics"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SyncopateError(f"malformed: {error!r}") from error


class TuningCache:
    """The entries in a folder."""

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        """Opens a folder, which need not be there.

        Args:
            folder: The folder; that of the user's cache if it is left out.
        """
        self.folder = cache_folder(_KIND) if folder is None else Path(folder)

    def path(self, key: Key) -> Path:
        """Where the entry of a key is kept."""
        return self.folder / f"{key.stem}.json"

    def find(self, key: Key, machine: str = "") -> Entry | None:
        """The entry of a key, if there is one that holds for a machine."""
        entry = self._read(self.path(key))
        if entry is None or entry.key.data != key.data:
            return None
        return entry if entry.measured or entry.machine == machine else None

    def store(self, entry: Entry) -> None:
        """Writes an entry; whoever reads it meanwhile sees all of it or what was there before."""
        try:
            write_whole(self.path(entry.key), json.dumps(entry.to_json(), indent=1) + "\n")
        except OSError as error:
            warnings.warn(
                f"cannot keep what was tuned in {self.folder} ({error}); set SYNCOPATE_CACHE_DIR to another folder",
                stacklevel=2,
            )

    def entries(self) -> Iterator[tuple[Path, Entry]]:
        """All entries, in the order of their files."""
        for path in sorted(self.folder.glob("*.json")):
            entry = self._read(path)
            if entry is not None:
                yield path, entry

    def remove(self, *names: str) -> list[Path]:
        """Takes away files, damaged ones too.

        Args:
            *names: Parts of their names; without any, all files.

        Returns:
            The files that were there.
        """
        paths = [
            path
            for path in sorted(self.folder.glob("*.json"))
            if not names or any(name in path.stem for name in names)
        ]
        for path in paths:
            path.unlink(missing_ok=True)
        return paths

    @staticmethod
    def _read(path: Path) -> Entry | None:
        """An entry; None if it is not there, and with a warning if it is damaged."""
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            _warn(path, str(error))
            return None
        try:
            return Entry.from_json(json.loads(text))
        except (SyncopateError, ValueError, RecursionError) as error:
            _warn(path, str(error))
            return None


def _warn(path: Path, why: str) -> None:
    warnings.warn(
        f"ignores {path}, which is no entry of the tuning cache ({why}); remove it, or tune again",
        stacklevel=4,
    )
