"""From a plan with a kernel bound to it, and the kernel's Triton function, to the schedule and the fused kernel.

This is as far as a program goes without machine code: what `compile` makes a cubin of, and what the simulator executes.
The schedule comes first, and costs no more than passes over the plan. The fused kernel depends on few features of it;
whoever has code for these need not ask for it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction

from syncopate import bridge, device
from syncopate.compiler.binding import Binding
from syncopate.compiler.features import find_features
from syncopate.compiler.module import (
    add_fused_code,
    add_kernel_code,
    find_plan,
    localized_argument,
    take_kernel,
    to_bytecode,
    to_text,
)
from syncopate.compiler.planning import make_tables
from syncopate.compiler.target import Target
from syncopate.ir import new_context, run_pipeline
from syncopate.mlir import ir
from syncopate.plan import Schedule
from syncopate.runtime.interface import INPUT_POINTER

__all__ = ["Fusion", "Stages", "make_spec"]


class Stages(Mapping[str, str]):
    """Texts of a program by stage, each made when it is first looked at."""

    def __init__(self, makers: Mapping[str, Callable[[], str]]) -> None:
        self._makers = makers

    def __getitem__(self, stage: str) -> str:
        return self._makers[stage]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


@functools.lru_cache(maxsize=256)
def _wrapper(
    kernel: JITFunction[Any], name: str, extra: tuple[str, ...], _folder: str
) -> JITFunction[Any]:
    """The same for the same kernel, as long as generated sources are kept in the same folder."""
    return bridge.make_wrapper(kernel, name, extra)


def make_spec(
    kernel: JITFunction[Any],
    name: str,
    binding: Binding,
    options: Mapping[str, Any],
    target: Target,
    companion: Mapping[str, str] | None = None,
) -> bridge.KernelSpec:
    """How the local kernel is compiled, with the arguments that fusion adds in front of its own.

    Args:
        kernel: The local kernel.
        name: Name of the fused one.
        binding: Its parameters.
        options: Triton's compile options.
        target: What to compile for.
        companion: Types of further arguments, by name, that are for passes alone.
    """
    extra = {INPUT_POINTER: "*i64", **(companion or {})}
    signature = {bridge.CONTEXT_ARGUMENT: "*i64", **extra, **binding.signature}
    # Allocations are aligned to 16 bytes, and to more.
    pointers = {name: 16 for name, kind in signature.items() if kind.startswith("*")}
    # A kernel may ask, as of Triton, that code does not depend on what divides a value.
    general = {parameter.name for parameter in kernel.params if parameter.do_not_specialize}
    integers = {name: value for name, value in binding.integers.items() if name not in general}
    return bridge.KernelSpec(
        _wrapper(kernel, name, tuple(extra), str(bridge.cache_folder("wrappers"))),
        signature,
        binding.constexprs,
        bridge.divisible(list(signature), {**pointers, **integers}),
        GPUTarget("cuda", target.capability, 32),
        dict(options),
    )


class Fusion:
    """A kernel and the schedule of all ranks that it is to be fused with.

    Attributes:
        schedule: The schedule.
        features: What the fused kernel's code depends on beside the local kernel and how that is compiled.
        captured: The local kernel at both levels.
        profile: Whether the fused kernel leaves records of what its roles do.
    """

    def __init__(
        self,
        plan: ir.Module,
        captured: bridge.Captured,
        spec: bridge.KernelSpec,
        target: Target,
        *,
        options: str = "",
        check_tables: bool = True,
        written: str,
        profile: bool = False,
    ) -> None:
        """Makes the schedule.

        Args:
            plan: A module with one plan that has the kernel's binding in it, which is used up.
            captured: The local kernel.
            spec: How it is compiled, from `make_spec`.
            target: What to compile for.
            options: Of the pipeline: choices that go before the plan's strategy.
            check_tables: Whether the tables are checked against the plan.
            written: The plan as it was written.
            profile: Whether the fused kernel leaves records of what its roles do.

        Raises:
            SyncopateError: The target lacks what a realization needs.
            PlanError: A pass refuses the plan, or the kernel's binding to it.
        """
        self.captured, self.profile = captured, profile
        self._plan, self._spec, self._options = to_bytecode(plan), spec, options
        self._written = written
        self._target = target
        self._scheduled: ir.Module | None = plan
        self.schedule = self._make_tables(plan, check_tables)
        self.features = find_features(self.schedule)

    def _parse_plan(self) -> ir.Module:
        return ir.Module.parse(self._plan, new_context())

    def _make_tables(self, module: ir.Module, check_tables: bool) -> Schedule:
        return make_tables(
            module,
            self._target,
            ttir=self.captured.ttir,
            options=self._options,
            check_tables=check_tables,
        )

    def _library(self) -> Mapping[str, str]:
        features = self.features
        return device.library(
            self._spec.target,
            int(self._spec.options.get("num_warps", 4)),
            features.unit,
            roles=features.roles,
            remote_loads=features.remote_loads,
            reduced=features.reduced,
            ring=features.ring,
            unordered=features.unordered,
            counted=features.counted,
            profile=self.profile,
        )

    @functools.cached_property
    def input(self) -> str:
        """All that the passes work on, one module."""
        module = self._parse_plan()
        add_kernel_code(module, self.captured.ttir)
        add_fused_code(module, ttgir=self.captured.ttgir, device=self._library())
        return to_text(module)

    @functools.cached_property
    def _lowered(self) -> tuple[str, str, str | None]:
        module = self._scheduled
        if module is None:
            module = self._parse_plan()
            self._make_tables(module, check_tables=False)
        self.forget_module()
        add_fused_code(module, ttgir=self.captured.ttgir, device=self._library())
        run_pipeline(module, "syncopate-kernel-pipeline")
        return to_text(module), take_kernel(module), localized_argument(find_plan(module))

    @property
    def lowered(self) -> str:
        """What the passes make of `input`: what `syncopate-opt --syncopate-pipeline` prints of it."""
        return self._lowered[0]

    @property
    def fused(self) -> str:
        """The fused kernel in that, in generic form."""
        return self._lowered[1]

    @property
    def localized_argument(self) -> str | None:
        """The argument in whose place the fused kernel reads the rank's own input where the caller keeps it."""
        return self._lowered[2]

    def localized(self, argument: str | None) -> str | None:
        """The buffer whose input a rank reads where the caller keeps it, if there is one.

        Args:
            argument: `localized_argument`. Its buffer's input need not be separate in this plan. Then, and without one,
                there may be an input that only transfers read.
        """
        bound = self.schedule.bound
        if argument is not None and bound[argument] in self.schedule.separate:
            return bound[argument]
        return next((name for name in self.schedule.separate if name not in bound.values()), None)

    @property
    def stages(self) -> Mapping[str, Callable[[], str]]:
        """The program up to here, as text: `plan`, `ttir`, `input`, `lowered`, `fused`; see `Program.ir`."""
        return {
            "plan": lambda: self._written,
            "ttir": lambda: self.captured.ttir,
            "input": lambda: self.input,
            "lowered": lambda: self.lowered,
            "fused": lambda: self.fused,
        }

    def forget_module(self) -> None:
        """Gives up what it keeps in order to go on from the schedule, which is a lot for what may not be needed."""
        self._scheduled = None
