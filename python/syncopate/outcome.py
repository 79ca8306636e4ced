"""What a command gives back: words for people, data for programs, and an exit code."""

from __future__ import annotations

import argparse
import enum
import errno
import io
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from syncopate.errors import SyncopateError

__all__ = [
    "ExitCode",
    "Outcome",
    "add_json",
    "end_in_order",
    "print_error",
    "print_outcome",
    "show_step",
]


class ExitCode(enum.IntEnum):
    """How every command of `syncopate` ends; docs/commands.md lists them."""

    DONE = 0
    """It has done what it was asked for, and found nothing wrong."""
    REFUSED = 1
    """Its input is wrong, or something that it needs is missing; stderr says what, and how to mend it."""
    USAGE = 2
    """It was called wrongly."""
    WRONG = 3
    """It has done its work, and what it looked at is wrong: a race, wrong results, a machine that cannot compile."""
    INTERRUPTED = 130
    """By Ctrl-C."""
    UNREAD = 141
    """Nobody reads what it prints any more, as behind `| head -1`."""


@dataclass(frozen=True)
class Outcome:
    """What a command has come to.

    Attributes:
        text: What a person reads; nothing is printed if it is empty.
        data: The same for a program: what `--json` prints, as an object.
        code: The exit code.
    """

    text: str
    data: Mapping[str, Any] = field(default_factory=dict)
    code: ExitCode = ExitCode.DONE


def add_json(command: argparse.ArgumentParser) -> None:
    """Lets a command print an object in JSON instead of words."""
    command.add_argument(
        "--json",
        action="store_true",
        help="print one object in JSON; progress and warnings still go to stderr",
    )


def print_outcome(command: str, outcome: Outcome, *, as_json: bool) -> int:
    """Prints what has come out, what is wrong to stderr; returns the exit code."""
    if as_json:
        ok = outcome.code is ExitCode.DONE
        print(json.dumps({"command": command, "ok": ok, **outcome.data}, indent=1))
    elif outcome.text:
        wrong = outcome.code is not ExitCode.DONE
        print(outcome.text.removesuffix("\n"), file=sys.stderr if wrong else sys.stdout)
    return int(outcome.code)


def print_error(command: str, error: SyncopateError, *, as_json: bool) -> int:
    """Prints why a command was refused; returns the exit code."""
    if as_json:
        kind = {"kind": type(error).__name__, "message": str(error)}
        print(json.dumps({"command": command, "ok": False, "error": kind}, indent=1))
    else:
        print(f"syncopate: {error}", file=sys.stderr)
    return int(ExitCode.REFUSED)


def end_in_order(run: Callable[[], int]) -> int:
    """Runs a command; returns its exit code, without a traceback if Ctrl-C or a closed or full output ends it."""
    for stream in (sys.stdout, sys.stderr):
        # Not all terminals know all signs; a mark in their place is better than no word.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        try:
            return run()
        finally:
            # Else Python would do so when it ends, where nothing can be caught.
            if sys.stdout is not None:
                sys.stdout.flush()
    except KeyboardInterrupt:
        return int(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        _drop_output()
        return int(ExitCode.UNREAD)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _drop_output()
        print(f"syncopate: cannot write: {error.strerror}", file=sys.stderr)
        return int(ExitCode.REFUSED)


def _drop_output() -> None:
    """Sends what has not been written yet nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def show_step(done: int, total: int, what: str) -> None:
    """Says on stderr how far a long work is, if a person is looking; the last step takes the line away."""
    if not sys.stderr.isatty():
        return
    filled = 24 * done // max(total, 1)
    bar = f"{'█' * filled}{'·' * (24 - filled)} {done}/{total} {what}"
    sys.stderr.write(f"\r\x1b[K{bar}" if done < total else "\r\x1b[K")
    sys.stderr.flush()
