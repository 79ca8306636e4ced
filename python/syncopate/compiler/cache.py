"""Results of compiling, on disk.

An entry is a folder of files under a key that is the hash of everything its content depends on, so entries are never
changed; a whole entry appears at once, so that concurrent processes never see half of one.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from syncopate.bridge import cache_folder

__all__ = ["Cache", "hash_of"]


def hash_of(*parts: object) -> str:
    """The SHA-256 of the representations of some values, as hex."""
    digest = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


class Cache:
    """Entries of one kind, in memory and below `cache_folder(kind)`."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._memory: dict[Path, Mapping[str, bytes]] = {}

    def find(self, key: str) -> Mapping[str, bytes] | None:
        """The files of an entry by name, or None."""
        folder = cache_folder(self._kind) / key
        if folder not in self._memory:
            try:
                self._memory[folder] = {path.name: path.read_bytes() for path in folder.iterdir()}
            except FileNotFoundError:
                return None
        return self._memory[folder]

    def store(self, key: str, files: Mapping[str, bytes]) -> None:
        """Adds an entry."""
        folder = cache_folder(self._kind) / key
        self._memory[folder] = dict(files)
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".new-"))
        try:
            for name, data in files.items():
                (temporary / name).write_bytes(data)
            # Another process may have been faster: its entry is the same.
            with contextlib.suppress(OSError):
                temporary.rename(folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
