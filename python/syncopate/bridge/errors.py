"""Errors of the bridge."""

import triton

__all__ = ["BridgeError"]


class BridgeError(RuntimeError):
    """A module could not be moved between Triton and MLIR; the message names the Triton version."""

    def __init__(self, message: str) -> None:
        super().__init__(f"{message} (Triton {triton.__version__})")
