"""Device functions of the fused kernels, written in Triton and Gluon.

``library`` compiles them with the installed Triton, so that the passes never build an operation of Triton's whose
spelling drifts between versions: they move these functions' bodies into place.
"""

from syncopate.device.library import COMMUNICATION_REGISTERS, library

__all__ = ["COMMUNICATION_REGISTERS", "library"]
