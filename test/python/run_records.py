"""Records in docs/results of long runs: one run for each version of Triton."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["ROOT", "current_commit", "keep_run", "read_runs"]

ROOT = Path(__file__).parents[2]


def current_commit() -> str:
    """The commit of this repository."""
    command = ["git", "rev-parse", "--short=12", "HEAD"]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


def read_runs(path: Path) -> list[dict[str, Any]]:
    """The runs that were kept."""
    runs: list[dict[str, Any]] = (
        json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    )
    return runs


def keep_run(run: Mapping[str, Any], path: Path) -> None:
    """Puts a run in the place of an earlier one with the same Triton."""
    kept = [old for old in read_runs(path) if old["triton"] != run["triton"]]
    kept.append(dict(run))
    kept.sort(key=lambda each: str(each["triton"]))
    path.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
