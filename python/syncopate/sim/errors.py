"""What can be wrong with a schedule that is executed."""

from __future__ import annotations

from collections.abc import Iterable

from syncopate.errors import SyncopateError

_SHOWN = 4


class Deadlock(SyncopateError):
    """No agent can go on; the message says who waits for what from whom.

    Attributes:
      waits: one sentence for each wait that cannot end.
    """

    def __init__(self, waits: Iterable[str]) -> None:
        self.waits = tuple(sorted(set(waits)))
        more = len(self.waits) - _SHOWN
        shown = [*self.waits[:_SHOWN], *([f"and {more} more"] if more > 0 else [])]
        super().__init__(f"no agent can go on: {'; '.join(shown)}")


class StaleRead(SyncopateError):
    """A tile read bytes that this call's transfers had not delivered, or had delivered something else."""
