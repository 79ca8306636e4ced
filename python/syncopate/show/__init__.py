"""Pictures of what the compiler decided."""

from syncopate.show.picture import draw_schedule
from syncopate.show.words import explain_schedule

__all__ = ["draw_schedule", "explain_schedule"]
