"""Pictures of what the compiler decided."""

from syncopate.show.picture import draw_schedule
from syncopate.show.words import describe_schedule

__all__ = ["describe_schedule", "draw_schedule"]
