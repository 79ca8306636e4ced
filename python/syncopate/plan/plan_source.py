"""Where a plan comes from: a file in chunk IR, or a Python file that builds one."""

from __future__ import annotations

import runpy
import sys
import traceback
from pathlib import Path

from syncopate.errors import SyncopateError
from syncopate.plan import Plan

__all__ = ["read_plan_text", "read_text"]

_EXPECTED = (
    "a module in chunk IR with one plan, or a Python file whose name ends in .py (docs/plans.md)"
)


def read_plan_text(source: str) -> tuple[str, str]:
    """The plan of a file as chunk IR, and the file's name.

    A Python file is run, and leaves one `syncopate.Plan` in a global variable; of several, `FILE.py:NAME` says which.

    Raises:
        SyncopateError: The file cannot be read, or ends with an error, or leaves no plan, or several.
    """
    if not source:
        raise SyncopateError("file: expects the name of a file, but got an empty one")
    file, _, name = source.rpartition(":")
    if file.endswith(".py"):
        return _run(file, name), file
    if source.endswith(".py"):
        return _run(source, None), source
    return read_text(source, _EXPECTED), source


def read_text(source: str, expected: str) -> str:
    """The text of a file in UTF-8, without the mark that some editors put in front of it.

    Args:
        source: The file.
        expected: What is expected of it, for errors.

    Raises:
        SyncopateError: It cannot be read, or is no text.
    """
    try:
        return Path(source).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise SyncopateError(f"file: cannot read {source}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SyncopateError(f"file: {source} is no text; expects {expected}") from None
    except ValueError as error:
        raise SyncopateError(f"file: cannot read {source!r}: {error}") from None


def _run(file: str, name: str | None) -> str:
    if not Path(file).is_file():
        raise SyncopateError(f"file: cannot read {file}: No such file or directory")
    # Files import their neighbours, as when Python is given them.
    sys.path.insert(0, str(Path(file).resolve().parent))
    try:
        found = runpy.run_path(file)
    except SyncopateError as error:
        raise SyncopateError(f"{_place(error, file)}: {error}") from None
    except (Exception, SystemExit) as error:
        raise SyncopateError(f"{_place(error, file)}: {type(error).__name__}: {error}") from None
    finally:
        del sys.path[0]
    plans = {key: value for key, value in found.items() if isinstance(value, Plan)}
    if name is not None:
        if name not in plans:
            known = ", ".join(plans) or "none"
            raise SyncopateError(f"file: {file} leaves no plan named {name}; its plans: {known}")
        return plans[name].text_with_locations
    if len({id(plan) for plan in plans.values()}) != 1:
        found_words = f"plans {', '.join(plans)}" if plans else "none"
        raise SyncopateError(
            f"file: expects {file} to leave one syncopate.Plan in a variable, but it leaves {found_words}"
            + (f"; name one, as {file}:{next(iter(plans))}" if plans else "")
        )
    return next(iter(plans.values())).text_with_locations


def _place(error: BaseException, file: str) -> str:
    """The line of the file at which an error came up."""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == file
    ]
    return f"{file}:{lines[-1]}" if lines else file
