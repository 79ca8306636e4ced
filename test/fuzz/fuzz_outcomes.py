"""How an input can be treated."""

from __future__ import annotations

import enum

__all__ = ["Finding", "Outcome"]


class Outcome(enum.Enum):
    """How far an input got."""

    REFUSED_AT_ONCE = "refused at once"
    REFUSED_LATER = "refused later"
    ACCEPTED = "accepted"


class Finding(Exception):
    """An input was treated wrongly."""
