"""Pictures of what the compiler decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from syncopate.show.picture import draw_schedule
    from syncopate.show.words import describe_schedule

__all__ = ["describe_schedule", "draw_schedule"]

# Loaded when first used: the command names views only.
_HOMES = {"describe_schedule": "words", "draw_schedule": "picture"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        import importlib

        return getattr(importlib.import_module(f"syncopate.show.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
