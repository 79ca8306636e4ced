"""A plan with a kernel, whose strategy is chosen: of its choices those that passes make."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from syncopate.errors import SyncopateError
from syncopate.tune.bench import Bench
from syncopate.tune.search import Prepared
from syncopate.tune.space import Candidate, Space, plan_space
from syncopate.tune.subject import TIMEOUT, prepare_schedule

if TYPE_CHECKING:
    from syncopate.compiler import Program, Target
    from syncopate.compiler.driver import CapturedKernel, CompileRequest
    from syncopate.model import KernelCost, Machine
    from syncopate.strategy import Strategy

__all__ = ["PlanSubject"]


@dataclass(frozen=True)
class PlanSubject:
    """A plan and a kernel.

    Attributes:
        request: Both, and how they are compiled.
        default: The strategy that would be taken otherwise; its choices that templates have made stay.
        cost: What tiles take, if the caller knows it.
    """

    request: CompileRequest
    default: Strategy
    cost: KernelCost | None

    @property
    def name(self) -> str:
        """For messages."""
        return f"plan {self.request.plan.name} with kernel {self.request.kernel.__name__}"

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return self.request.plan.world_size

    @property
    def target(self) -> Target:
        """What to compile for."""
        return self.request.target

    @cached_property
    def _made(self) -> CapturedKernel:
        """The kernel as the default strategy binds it."""
        from syncopate.compiler.driver import capture_request

        return capture_request(self.request, self.default)

    @cached_property
    def data(self) -> Mapping[str, Any]:
        """What tells it apart, as plain data."""
        from syncopate.compiler.cache import hash_of
        from syncopate.compiler.schedules import binding_key

        plan = self.request.plan
        digest = hash_of(
            plan.text, binding_key(self._made.bound.kernel), self._made.key, self.default, self.cost
        )
        return {
            "plan": plan.name,
            "kernel": self.request.kernel.__name__,
            "world_size": plan.world_size,
            "digest": digest[:32],
        }

    @cached_property
    def space(self) -> Space:
        """What there is to choose."""
        return plan_space(Candidate(self.default))

    @property
    def work(self) -> int:
        """Tiles of all ranks that one prediction simulates."""
        tiles: int = math.prod(self.request.arguments["tiles"])
        return tiles * self.world_size

    def distance(self, data: Mapping[str, Any]) -> None:
        """Nothing is known of how other plans compare."""
        return None

    def adapt(self, candidate: Candidate) -> Candidate:
        """The candidate."""
        return candidate

    def prepare(self, candidate: Candidate, machine: Machine) -> Prepared:
        """The schedule of a candidate, for a model."""
        from syncopate.compiler.arguments import check_strategy
        from syncopate.compiler.module import bind_kernel
        from syncopate.compiler.planning import bind_arguments, make_tables

        request, strategy = self.request, candidate.strategy
        check_strategy(request.plan, strategy)
        bound = bind_arguments(
            request.kernel, request.plan, strategy, request.target, **request.arguments
        )
        # Footprints do not depend on how many CTAs compute, so one capture serves all strategies.
        schedule = make_tables(
            bind_kernel(request.plan, bound.kernel, strategy),
            request.target,
            ttir=self._made.captured.ttir,
            check_tables=False,
        )
        return prepare_schedule(schedule, lambda: self._find_cost(machine), machine)

    def _find_cost(self, machine: Machine) -> KernelCost:
        """What tiles take: as the caller says, or as the machine knows of the GEMM of this package."""
        from syncopate.kernels import gemm
        from syncopate.model import gemm_cost

        if self.cost is not None:
            return self.cost
        if self.request.kernel is not gemm:
            raise SyncopateError(
                f"machine {machine.name}: knows nothing of kernel {self.request.kernel.__name__}; pass "
                "Auto(cost=KernelCost(…))"
            )
        bind = self.request.arguments["bind"]
        return gemm_cost(
            machine,
            bind["K"],
            block_m=bind["BLOCK_M"],
            block_n=bind["BLOCK_N"],
            block_k=bind["BLOCK_K"],
            dtype=bind["a_desc"].source.dtype,
        )

    def compile(self, candidate: Candidate) -> Program:
        """Compiles a candidate to be measured."""
        from syncopate.compiler.driver import compile_request

        request = dataclasses.replace(self.request, timeout=TIMEOUT)
        return compile_request(request, candidate.strategy)

    def make_bench(self, group: Any) -> Bench:
        """What measures candidates on this rank's GPU, with results compared to those of the default."""
        from syncopate.tune.gpu import plan_bench

        return plan_bench(self.compile(self.space.default), self.compile, group)
