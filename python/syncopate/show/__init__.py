"""Pictures of what the compiler decided."""

from syncopate.show.picture import draw_schedule

__all__ = ["draw_schedule"]
