"""Names of what importers are told; this module imports nothing of the project."""

from __future__ import annotations

import enum

__all__ = ["Format", "Source"]


class Format(enum.Enum):
    """How a file says what moves."""

    MSCCL_XML = "msccl-xml"
    MSCCLPP_JSON = "mscclpp-json"
    TACCL_JSON = "taccl-json"

    @property
    def is_written(self) -> bool:
        """Whether plans can be exported in it."""
        return self is not Format.TACCL_JSON


class Source(enum.Enum):
    """Where what a collective starts with comes from."""

    INPUTS = "inputs"
    """Ranks bring it along, and the kernel reads the result."""
    TILES = "tiles"
    """The kernel's tiles compute it, and a call gives the result back."""
