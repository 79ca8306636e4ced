"""Syncopate: from a local Triton kernel and a chunk plan to one fused kernel per rank.

    import syncopate

    plan = syncopate.Plan("ag_gemm", mesh=[4])
    a = plan.buffer("a", (8192, 8192), "bf16", shard_axis=0)
    plan.all_gather(a, axis=0)
    program = syncopate.compile(kernel, plan, bind={...}, tiles=(64, 14))

Importing this package imports neither torch nor Triton, and needs no GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncopate.errors import (
    BudgetError,
    DeviceWaitTimeout,
    InternalError,
    PeerFault,
    PlanError,
    SyncopateError,
)

if TYPE_CHECKING:
    from syncopate.compiler import (
        Ctas,
        Descriptor,
        Footprint,
        HasParts,
        Parts,
        Pointer,
        Program,
        Scratch,
        Steps,
        Strategy,
        Target,
        Tensor,
    )
    from syncopate.compiler import (
        compile as compile,
    )
    from syncopate.plan import Buffer, Chunk, Plan, Token
    from syncopate.workloads import AttentionWorkload, GemmWorkload

__version__ = "0.1.0"

# All but `compile`, which would hide the built-in function behind an import of everything.
__all__ = [
    "AttentionWorkload",
    "BudgetError",
    "Buffer",
    "Chunk",
    "Ctas",
    "Descriptor",
    "DeviceWaitTimeout",
    "Footprint",
    "GemmWorkload",
    "HasParts",
    "InternalError",
    "Parts",
    "PeerFault",
    "Plan",
    "PlanError",
    "Pointer",
    "Program",
    "Scratch",
    "Steps",
    "Strategy",
    "SyncopateError",
    "Target",
    "Tensor",
    "Token",
]

# Loaded when first used: the compiler brings in Triton, plans bring in MLIR.
_HOMES = {
    **dict.fromkeys(("Buffer", "Chunk", "Plan", "Token"), "plan"),
    **dict.fromkeys(("AttentionWorkload", "GemmWorkload"), "workloads"),
    **dict.fromkeys(
        (
            "Ctas",
            "Descriptor",
            "Footprint",
            "HasParts",
            "Parts",
            "Pointer",
            "Program",
            "Scratch",
            "Steps",
            "Strategy",
            "Target",
            "Tensor",
            "compile",
        ),
        "compiler",
    ),
}


def __getattr__(name: str) -> Any:
    import importlib

    if name in _HOMES:
        return getattr(importlib.import_module(f"syncopate.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'syncopate' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, "__version__", "compile"})
