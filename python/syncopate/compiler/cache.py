"""Results of compiling, on disk.

An entry is a folder of files under a key that is the hash of everything its content depends on, so entries are never
changed; a whole entry appears at once, so that concurrent processes never see half of one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from syncopate.bridge import cache_folder
from syncopate.recent import Recent

__all__ = ["Cache", "hash_of"]


def hash_of(*parts: object) -> str:
    """The SHA-256 of the representations of some values, as hex."""
    digest = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


MOST_ENTRIES: Final = 64
"""Of each kind in memory: some 100 KB each. The others are read from disk again."""

_MANIFEST = "manifest.json"
"""The file of an entry that says what the others hold."""


class Cache:
    """Entries of one kind below `cache_folder(kind)`, and those that were asked for last in memory."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._memory: Recent[Path, Mapping[str, bytes]] = Recent(MOST_ENTRIES)

    def find(self, key: str) -> Mapping[str, bytes] | None:
        """The files of an entry by name, or None."""
        folder = cache_folder(self._kind) / key
        files = self._memory.find(folder)
        if files is None and (read := _read(folder)) is not None:
            files = self._memory.keep(folder, read)
        return files

    def store(self, key: str, files: Mapping[str, bytes]) -> None:
        """Adds an entry."""
        folder = cache_folder(self._kind) / key
        self._memory.keep(folder, dict(files))
        try:
            self._write(folder, files)
        except OSError as error:
            warnings.warn(
                f"cannot keep compiled programs in {folder.parent} ({error}); set SYNCOPATE_CACHE_DIR to "
                "another folder",
                stacklevel=2,
            )

    @staticmethod
    def _write(folder: Path, files: Mapping[str, bytes]) -> None:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".new-"))
        try:
            for name, data in {**files, _MANIFEST: _manifest(files)}.items():
                (temporary / name).write_bytes(data)
            # Another process may have been faster: its entry is the same.
            with contextlib.suppress(OSError):
                temporary.rename(folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _manifest(files: Mapping[str, bytes]) -> bytes:
    return json.dumps({name: hash_of(data) for name, data in sorted(files.items())}).encode()


def _read(folder: Path) -> dict[str, bytes] | None:
    """The files of an entry; None if there is none, or if it is damaged, which is then taken away."""
    if not folder.is_dir():
        return None
    with contextlib.suppress(OSError):
        files = {path.name: path.read_bytes() for path in folder.iterdir()}
        if files.pop(_MANIFEST, None) == _manifest(files):
            return files
    shutil.rmtree(folder, ignore_errors=True)
    return None
