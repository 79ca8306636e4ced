"""What a picture of a plan may show."""

from __future__ import annotations

import enum

__all__ = ["View"]


class View(enum.Enum):
    """What a picture of a plan shows."""

    RANKS = "ranks"
    """Transfers by rank and time."""
    DEPENDENCES = "dependences"
    """Which transfers come after which."""
    SCHEDULE = "schedule"
    """What each rank's CTAs and roles do, for a plan with a kernel."""
