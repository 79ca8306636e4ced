"""What several commands of `syncopate` take and write alike."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from syncopate.errors import SyncopateError
from syncopate.outcome import Outcome

__all__ = ["PLAN_FILE", "number", "shape", "write_out"]

PLAN_FILE: Final = (
    "a module in chunk IR with one plan, or a Python file that leaves one in a variable, of several FILE.py:NAME "
    "(docs/plans.md)"
)
"""What is said of a file that `plan_source.read_plan_text` reads."""


def number(most: int) -> Callable[[str], int]:
    """A converter of an argument that is a number from 1 on."""

    def convert(word: str) -> int:
        if not word.isdecimal() or not 1 <= int(word[:20]) <= most:
            raise argparse.ArgumentTypeError(f"expects a number in [1, {most}], but got {word!r}")
        return int(word)

    return convert


def shape(word: str) -> tuple[int, ...]:
    """The shape that an argument spells, such as 8192x4096."""
    if not re.fullmatch(r"[1-9]\d{0,11}(x[1-9]\d{0,11}){0,4}", word):
        raise argparse.ArgumentTypeError(
            f"expects sizes with x between them, such as 8192x4096, but got {word!r}"
        )
    return tuple(map(int, word.split("x")))


def write_out(
    path: Path | None,
    text: str,
    data: Mapping[str, Any] | None = None,
    *,
    argument: str = "--out",
) -> Outcome:
    """Writes what a command makes, or prints it if no file is named.

    Args:
        path: The file.
        text: What is made.
        data: What `--json` prints besides the file's name; by default the text, if that is in no file.
        argument: What names the file, for messages.

    Raises:
        SyncopateError: The file cannot be written.
    """
    if path is None:
        return Outcome(text, {"text": text} if data is None else data)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SyncopateError(f"{argument}: cannot write {path}: {error.strerror}") from None
    except ValueError as error:
        raise SyncopateError(f"{argument}: cannot write {str(path)!r}: {error}") from None
    return Outcome("", {"file": str(path), **(data or {})})
