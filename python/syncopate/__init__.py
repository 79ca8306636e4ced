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
    PlanError,
    SyncopateError,
)

if TYPE_CHECKING:
    from syncopate.compiler import (
        Descriptor,
        Footprint,
        Pointer,
        Program,
        Strategy,
        Target,
        Tensor,
        compile,
    )
    from syncopate.plan import Plan

__version__ = "0.1.0"

__all__ = [
    "BudgetError",
    "Descriptor",
    "DeviceWaitTimeout",
    "Footprint",
    "InternalError",
    "Plan",
    "PlanError",
    "Pointer",
    "Program",
    "Strategy",
    "SyncopateError",
    "Target",
    "Tensor",
    "compile",
]


def __getattr__(name: str) -> Any:
    # Loaded when first used: the compiler brings in Triton, plans bring in MLIR.
    import importlib

    if name in __all__:
        home = "plan" if name == "Plan" else "compiler"
        return getattr(importlib.import_module(f"syncopate.{home}"), name)
    raise AttributeError(f"module 'syncopate' has no attribute {name!r}")
