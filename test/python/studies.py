"""The benchmark scripts, for tests."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def load(name):
    """A module of the benchmarks by its name below `benchmark`."""
    sys.path.insert(0, str(ROOT))
    try:
        return importlib.import_module(f"benchmark.{name}")
    finally:
        sys.path.remove(str(ROOT))


def run(script, *arguments, cwd=None):
    """Runs a script without a GPU; its output and errors."""
    # Whatever makes syncopate known here makes it known there, in whichever folder.
    path = os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path if entry)
    return subprocess.run(
        [sys.executable, ROOT / "benchmark" / script, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
