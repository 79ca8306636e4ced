"""Workloads: what is computed and moved, from which plans, schedules and programs follow for any strategy."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from syncopate.workloads.attention import AttentionKind, AttentionWorkload
    from syncopate.workloads.attention_gradients import AttentionGradients
    from syncopate.workloads.gemm import GemmKind, GemmWorkload

__all__ = ["AttentionGradients", "AttentionKind", "AttentionWorkload", "GemmKind", "GemmWorkload"]

# Loaded when first used: attention brings in plans, and with them MLIR; commands name kinds of GEMMs only.
_HOMES = {
    "AttentionGradients": "attention_gradients",
    "AttentionKind": "attention",
    "AttentionWorkload": "attention",
    "GemmKind": "gemm",
    "GemmWorkload": "gemm",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        import importlib

        return getattr(importlib.import_module(f"syncopate.workloads.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
