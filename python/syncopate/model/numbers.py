"""Checks of the numbers of which machines are made."""

from __future__ import annotations

import math
from typing import Any

from syncopate.errors import SyncopateError

__all__ = ["expect_count", "expect_number"]


def expect_number(what: str, value: Any, least: float = 0.0, *, above: bool = False) -> None:
    """Checks a finite number.

    Args:
        what: What it is, for the message.
        value: The number.
        least: The smallest that it may be.
        above: Whether it has to be more than that.

    Raises:
        SyncopateError: It is no such number.
    """
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not (is_number and math.isfinite(value) and (value > least if above else value >= least)):
        range_ = f"above {least:g}" if above else f"of at least {least:g}"
        raise SyncopateError(f"{what}: expects a finite number {range_}, but got {value!r:.80}")


def expect_count(what: str, value: Any, least: int = 0) -> None:
    """Checks an integer.

    Raises:
        SyncopateError: It is none, or less than `least`.
    """
    if type(value) is not int or value < least:
        raise SyncopateError(
            f"{what}: expects an integer of at least {least}, but got {value!r:.80}"
        )
