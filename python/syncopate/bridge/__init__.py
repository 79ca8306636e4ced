"""The bridge between the installed Triton and MLIR proper.

Triton's wheel carries its own MLIR and prints its dialects in a form that no other MLIR parses. This package moves
modules out of Triton as generic-form text, moves generic-form text back in, and hooks into Triton's compile between
TritonGPU IR and LLVM IR so that a transformed module goes on to PTX and cubin.
"""

from syncopate.bridge.cache import cache_folder, write_whole
from syncopate.bridge.errors import BridgeError
from syncopate.bridge.module import export_module, import_module, new_context, self_check
from syncopate.bridge.stages import (
    Captured,
    KernelSpec,
    capture_ttgir,
    compile_with,
    divisible,
    transform_with,
)
from syncopate.bridge.wrapper import CONTEXT_ARGUMENT, define_kernel, make_wrapper

__all__ = [
    "CONTEXT_ARGUMENT",
    "BridgeError",
    "Captured",
    "KernelSpec",
    "cache_folder",
    "capture_ttgir",
    "compile_with",
    "define_kernel",
    "divisible",
    "export_module",
    "import_module",
    "make_wrapper",
    "new_context",
    "self_check",
    "transform_with",
    "write_whole",
]
