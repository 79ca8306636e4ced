"""Where generated and compiled files are kept, and how they are written."""

import os
import tempfile
from pathlib import Path

__all__ = ["cache_folder", "write_whole"]


def cache_folder(kind: str) -> Path:
    """Returns the folder of one kind of files, under SYNCOPATE_CACHE_DIR or the user's cache folder."""
    root = os.environ.get("SYNCOPATE_CACHE_DIR")
    if root:
        return Path(root) / kind
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "syncopate" / kind


def write_whole(path: Path, text: str) -> None:
    """Writes a file so that no reader, in this process or another, ever sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        temporary.replace(path)
    finally:
        # Gone if all went well.
        temporary.unlink(missing_ok=True)
