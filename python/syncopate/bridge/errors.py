"""Errors of the bridge."""

import triton

from syncopate.errors import SyncopateError

__all__ = ["BridgeError"]


class BridgeError(SyncopateError):
    """A module could not be moved between Triton and MLIR; the message names the Triton version."""

    def __init__(self, message: str) -> None:
        super().__init__(f"{message} (Triton {triton.__version__})")
