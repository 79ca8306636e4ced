"""Makes every new `Context` know the dialects that syncopate-opt knows."""

from ._syncopate import register_dialects

__all__ = ["register_dialects"]
