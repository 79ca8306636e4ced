"""Workloads: what is computed and moved, from which plans, schedules and programs follow for any strategy."""

from syncopate.workloads.attention import AttentionKind, AttentionWorkload
from syncopate.workloads.attention_gradients import AttentionGradients
from syncopate.workloads.gemm import GemmKind, GemmWorkload

__all__ = ["AttentionGradients", "AttentionKind", "AttentionWorkload", "GemmKind", "GemmWorkload"]
