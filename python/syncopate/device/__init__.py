"""Device functions of the fused kernels, written in Triton and Gluon.

``library`` compiles them with the installed Triton, so that the passes never build an operation of Triton's whose
spelling drifts between versions: they move these functions' bodies into place.
"""

from syncopate.device.build import (
    COMMUNICATION_REGISTERS,
    TMA_ADDED,
    RowStores,
    library,
    source_hash,
)
from syncopate.device.guard import compile_guard
from syncopate.device.remap import compile_remap

__all__ = [
    "COMMUNICATION_REGISTERS",
    "TMA_ADDED",
    "RowStores",
    "compile_guard",
    "compile_remap",
    "library",
    "source_hash",
]
