"""Names of what importers are told; this module imports nothing of the project."""

from __future__ import annotations

import enum

__all__ = ["Format", "Source"]


class Format(enum.Enum):
    """How a file says what moves: step by step, or as what ranks have before and after."""

    MSCCL_XML = "msccl-xml"
    MSCCLPP_JSON = "mscclpp-json"
    TACCL_JSON = "taccl-json"
    PARTITIONS_JSON = "partitions-json"
    STABLEHLO = "stablehlo"
    HLO = "hlo"
    LAYOUTS_JSON = "layouts-json"
    MERCURY_JSON = "mercury-json"

    @property
    def is_written(self) -> bool:
        """Whether plans can be exported in it."""
        return self in (Format.MSCCL_XML, Format.MSCCLPP_JSON)

    @property
    def summary(self) -> str:
        """What files it is of."""
        return _SUMMARIES[self]

    @property
    def has_steps(self) -> bool:
        """Whether it says step by step what moves, in chunks of what size anybody likes.

        Other formats say of tensors what ranks have before and after, and may do so at several places of a file.
        """
        return self in (
            Format.MSCCL_XML,
            Format.MSCCLPP_JSON,
            Format.TACCL_JSON,
            Format.PARTITIONS_JSON,
        )


_SUMMARIES = {
    Format.MSCCL_XML: "algorithms of msccl-tools and TACCL",
    Format.MSCCLPP_JSON: "execution plans of MSCCL++",
    Format.TACCL_JSON: "algorithms that TACCL's synthesizer saves",
    Format.PARTITIONS_JSON: "collectives in stages, groups and pieces, as of Centauri and CoCoNet",
    Format.STABLEHLO: "modules of StableHLO and Shardy, as jax prints them",
    Format.HLO: "modules of XLA, with collectives or shardings",
    Format.MERCURY_JSON: "rings and reductions of Mercury's IR",
    Format.LAYOUTS_JSON: "layouts of Alpa, HLO and DTensor, and Alpa's strategies of products",
}


class Source(enum.Enum):
    """Where what a collective starts with comes from."""

    INPUTS = "inputs"
    """Ranks bring it along, and the kernel reads the result."""
    TILES = "tiles"
    """The kernel's tiles compute it, and a call gives the result back."""
