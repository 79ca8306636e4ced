"""Workloads: what is computed and moved, from which plans, schedules and programs follow for any strategy."""

from syncopate.workloads.attention import AttentionKind, AttentionWorkload
from syncopate.workloads.gemm import GemmKind, GemmWorkload

__all__ = ["AttentionKind", "AttentionWorkload", "GemmKind", "GemmWorkload"]
