"""Whose process something is. A forked process has copies of its parent's handles, none of which it may use.

GPUs are lost to it; its connections to other ranks are its parent's sockets; and whatever waits for a thread of its
parent waits for ever. So what holds such handles notes the process that made it, and refuses to serve another one.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from syncopate.errors import SyncopateError

__all__ = ["Process", "expect_gpus", "expect_process", "this_process"]


class Process:
    """A process, which no other one is, whatever its number."""

    def __init__(self) -> None:
        self.pid = os.getpid()


_this = Process()


def _begin() -> None:
    global _this
    _this = Process()


os.register_at_fork(after_in_child=_begin)


def this_process() -> Process:
    """The one in which this is called."""
    return _this


def expect_process(process: Process, what: str) -> None:
    """Raises SyncopateError unless this is the process that has made something, which the message calls `what`."""
    if process is not _this:
        _refuse(f"{what} is of process {process.pid}")


def expect_gpus() -> None:
    """Raises SyncopateError if torch has used GPUs before this process was forked."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda._is_in_bad_fork():
        _refuse("torch has used GPUs in another process")


def _refuse(why: str) -> None:
    raise SyncopateError(
        f"{why}, and this one, {_this.pid}, was forked from it, so that it can use neither its GPUs nor its "
        "connections to other ranks; start processes by multiprocessing's 'spawn' or 'forkserver', or fork before GPUs "
        "are used"
    )
