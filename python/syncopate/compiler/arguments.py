"""Checks of the arguments of `compile`, before anything is compiled."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import make_backend
from triton.runtime.jit import JITFunction

from syncopate.compiler.binding import Binding, Footprint
from syncopate.compiler.steps import Steps
from syncopate.compiler.target import Target
from syncopate.errors import SyncopateError
from syncopate.plan import Chunk, Plan
from syncopate.runtime.commands import adds_unordered, reduced_type, roles_of
from syncopate.runtime.interface import TensorParam
from syncopate.strategy import Strategy
from syncopate.tables import BufferSpec, Table

__all__ = [
    "check_binding",
    "check_ctas_per_sm",
    "check_numbers",
    "check_options",
    "check_roles",
    "check_steps",
    "check_strategy",
    "check_sums",
    "check_timeout",
    "check_types",
]

_LONGEST_S = 10**9
_LARGEST = {"num_warps": 64, "num_stages": 64, "num_ctas": 16}
"""Of Triton's options that it looks at in loops or hands to its passes as 32-bit integers."""
WARP_GROUP = 4
"""Warps of a role."""

_CTAS_PER_SM = 32
"""As many as any target's multiprocessors have room for."""

_HOPPER = 90
"""First capability with TMA, and with registers that move between the warps of a CTA."""


def check_types(
    kernel: Any, plan: Any, bind: Any, strategy: Any, footprints: Any, needs: Any, options: Any
) -> None:
    """Raises SyncopateError for the first argument of a wrong type."""
    if not isinstance(kernel, JITFunction):
        raise SyncopateError(
            f"kernel: expects a @triton.jit function, but got {type(kernel).__name__}"
        )
    for name, value, kind in (("plan", plan, Plan), ("strategy", strategy, Strategy)):
        if not isinstance(value, kind):
            raise SyncopateError(
                f"{name}: expects a syncopate.{kind.__name__}, but got {type(value).__name__}"
            )
    if not isinstance(bind, Mapping):
        raise SyncopateError(
            f"bind: expects a mapping from the kernel's parameters, but got {type(bind).__name__}"
        )

    if not isinstance(options, Mapping):
        raise SyncopateError(
            f"options: expects a mapping from the names of Triton's options, but got {options!r}"
        )
    if not isinstance(footprints, Sequence) or not all(
        isinstance(footprint, Footprint) for footprint in footprints
    ):
        raise SyncopateError(
            f"footprints: expects a sequence of syncopate.Footprint, but got {footprints!r}"
        )
    if needs is not None and not (isinstance(needs, Chunk) and needs.buffer.plan is plan):
        raise SyncopateError(
            f"needs: expects a part of a buffer of the plan, such as needs[0:16], but got {needs!r:.80}"
        )


def check_steps(steps: Any) -> None:
    """Raises SyncopateError for what is no sequence of steps."""
    if not isinstance(steps, Sequence) or not all(isinstance(item, Steps) for item in steps):
        raise SyncopateError(f"steps: expects a sequence of syncopate.Steps, but got {steps!r:.80}")


def check_strategy(plan: Plan, strategy: Strategy) -> None:
    """Raises SyncopateError for choices that templates of the plan have made otherwise."""
    followed = plan.strategy
    if followed is not None and followed.structure != strategy.structure:
        raise SyncopateError(
            f"strategy: templates of plan {plan.name} have followed {followed}, whose direction, combine, shots, "
            f"reducing and gathering are not those of {strategy}; give templates and compile the same one"
        )


def _is_integer(value: Any) -> bool:
    """Whether a value is an integer that the dialect can hold."""
    return isinstance(value, int) and -(2**63) <= value < 2**63


def check_numbers(tiles: Any, ctas: Any) -> None:
    """Raises SyncopateError for a number that is none, or out of its range."""
    if not isinstance(tiles, Sequence) or not all(_is_integer(size) for size in tiles):
        raise SyncopateError(f"tiles: expects a sequence of integers, but got {tiles!r}")
    if not _is_integer(ctas):
        raise SyncopateError(f"ctas: expects an integer, but got {ctas!r}")


def check_ctas_per_sm(ctas_per_sm: Any) -> None:
    """Raises SyncopateError for a number of CTAs that no multiprocessor has room for."""
    if not (_is_integer(ctas_per_sm) and 1 <= ctas_per_sm <= _CTAS_PER_SM):
        raise SyncopateError(
            f"ctas_per_sm: expects an integer in [1, {_CTAS_PER_SM}], but got {ctas_per_sm!r}"
        )


def check_timeout(timeout: Any) -> None:
    """Raises SyncopateError for a limit that is no number of seconds."""
    if not isinstance(timeout, (int, float)) or not 0 <= timeout <= _LONGEST_S:
        raise SyncopateError(
            f"timeout: expects seconds up to {_LONGEST_S}, 0 for no limit, but got {timeout!r}"
        )


def check_options(options: Mapping[str, Any], gpu: GPUTarget) -> None:
    """Raises SyncopateError for a compile option that Triton would ignore or stumble over."""
    # Triton warns where this one is left open; KernelSpec.pinned_options never does.
    parsed = make_backend(gpu).parse_options({"enable_fp_fusion": True})
    known = [field.name for field in dataclasses.fields(parsed)]
    for name, value in options.items():
        if name not in known:
            raise SyncopateError(
                f"options: Triton has no option {name!r}; it has {', '.join(sorted(known))}"
            )
        if name in _LARGEST and not (_is_integer(value) and 0 <= value <= _LARGEST[name]):
            raise SyncopateError(
                f"options: {name} expects an integer up to {_LARGEST[name]}, but got {value!r}"
            )
    warps = options.get("num_warps", 4)
    if warps < WARP_GROUP or warps & (warps - 1):
        raise SyncopateError(
            f"options: num_warps expects a power of two of at least {WARP_GROUP}, the warps of a role, but got {warps}"
        )
    if options.get("num_ctas", 1) != 1:
        raise SyncopateError(
            f"options: num_ctas expects 1, since kernels in clusters cannot be fused, but got {options['num_ctas']}"
        )


def check_binding(binding: Binding, plan: Plan, target: Target) -> None:
    """Raises SyncopateError for a binding that does not fit the plan, the target, or itself."""
    for name, buffer in binding.buffers.items():
        if plan.buffers.get(buffer.name) is not buffer:
            raise SyncopateError(
                f"bind: parameter {name!r} is bound to buffer {buffer.name!r} of another plan"
            )
    tensors: dict[str, TensorParam] = {}
    for param in binding.params:
        if not isinstance(param, TensorParam):
            continue
        if param.tensor in plan.buffers:
            raise SyncopateError(
                f"bind: parameter {param.name!r}: tensor {param.tensor!r} has the name of a buffer of the plan; "
                "rename it, since a call takes both by name"
            )
        other = tensors.setdefault(param.tensor, param)
        if (other.shape, other.dtype, other.strides) != (param.shape, param.dtype, param.strides):
            raise SyncopateError(
                f"bind: parameters {other.name!r} and {param.name!r} are bound to different tensors of the name "
                f"{param.tensor!r}; rename one"
            )
    if target.capability < _HOPPER:
        for name, kind in binding.signature.items():
            if kind.startswith("tensordesc"):
                raise SyncopateError(
                    f"target: {target} has no TMA, which the descriptor that parameter {name!r} is bound to needs; "
                    "use a kernel on pointers, or sm_90 or later"
                )


def check_roles(tables: Sequence[Mapping[str, Table]], target: Target) -> None:
    """Raises SyncopateError if the target cannot run a role that the schedule needs."""
    for role in sorted(roles_of(tables)):
        if target.capability < _HOPPER and role.is_colocated:
            raise SyncopateError(
                f"target: {target} cannot move registers between the warps of a CTA, which realization "
                f"{role.spelling} needs; use ldst_dedicated or copy_engine, or sm_90 or later"
            )


def check_sums(
    tables: Sequence[Mapping[str, Table]], buffers: Sequence[BufferSpec], target: Target
) -> None:
    """Raises SyncopateError if the target cannot add what commands add without an order."""
    if target.capability >= _HOPPER or not adds_unordered(tables):
        return
    if reduced_type(tables, buffers) == "bf16":
        raise SyncopateError(
            f"target: {target} cannot add bf16 in memory of other GPUs atomically, as unordered sums need it; use "
            "ordered sums, f16 or f32, or sm_90 or later"
        )
