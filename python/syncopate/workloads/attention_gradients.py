"""The gradients of attention of a sequence that ranks share."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from syncopate.choices import Algorithm
from syncopate.errors import SyncopateError
from syncopate.strategy import Strategy

if TYPE_CHECKING:
    from syncopate.compiler import Program, Target
    from syncopate.kernels import AttentionConfig
    from syncopate.plan import Plan
    from syncopate.runtime import Group
    from syncopate.tune import Auto
    from syncopate.workloads.attention import AttentionWorkload
    from syncopate.workloads.loaded_gradients import LoadedGradients

__all__ = ["AttentionGradients"]

_MOST_ELEMENTS = 128
"""Of a head: of more, the gradients of keys and values do not fit into registers."""


@dataclass(frozen=True)
class AttentionGradients:
    """The gradients of an attention workload, by two programs: of queries first, then of keys and values.

    Attributes:
        workload: The attention: one whose `kind.gathers`, of one sequence, with heads of at most 128 elements.
        keeps: Whether each rank keeps the keys and values of all of the sequence, which the first program brings, for
            the second one. Otherwise, the second one brings them again. With several nodes, they are kept.
        sums: The type in which what ranks contribute to the gradients of keys and values travels: f32, or the one of
            the workload.
    """

    workload: AttentionWorkload
    keeps: bool = True
    sums: str = "f32"

    def __post_init__(self) -> None:
        work = self.workload
        if work.cu_seqlens is not None:
            raise SyncopateError(
                f"workload: expects one sequence, of which there are gradients, but got packed ones in {work.name}"
            )
        if work.head_dim > _MOST_ELEMENTS:
            raise SyncopateError(
                f"workload: expects heads of at most {_MOST_ELEMENTS} elements, of which there are gradients, but got "
                f"{work.head_dim} in {work.name}"
            )
        if not work.gathers:
            raise SyncopateError(
                f"workload: expects sequence_parallel or ring, of which there are gradients, but got {work.name}"
            )
        if len(work.mesh) > 1 and not self.keeps:
            raise SyncopateError(
                f"keeps: expects True with several nodes, as sums go around one ring of all ranks, but got "
                f"{self.keeps!r}"
            )
        if self.sums not in ("f32", work.dtype):
            raise SyncopateError(f"sums: expects f32 or {work.dtype}, but got {self.sums!r}")

    @property
    def name(self) -> str:
        """For messages and files."""
        words = ["gradients", self.sums, *([] if self.keeps else ["gathered-again"])]
        return "-".join([*words, self.workload.name])

    @property
    def family(self) -> None:
        """None, as attention has none."""
        return None

    def positions(self, rank: int) -> tuple[npt.NDArray[np.int32] | None, ...]:
        """What calls of the two programs take as `positions`; None if one takes none."""
        work, shards = self.workload, self.workload.shards
        ragged = work.world_size * shards.rows > shards.length
        places = shards.positions(rank)
        return (
            places if work.causal else None,
            places if work.causal or ragged else None,
        )

    def make_plan_q(
        self, strategy: Strategy, config: AttentionConfig | None = None
    ) -> tuple[Plan, dict[str, Any]]:
        """The communication of the first program, and what its kernel is bound to.

        Raises:
            PlanError: The strategy does not go with the workload.
        """
        from syncopate.kernels import bind_attention_backward_q
        from syncopate.plan import Plan

        work = self.workload
        plan = Plan("backward_q", work.mesh)
        keys = work.gather_keys(plan, work.adapt_strategy(strategy))
        for rank in range(work.world_size if self.keeps else 0):
            for buffer in keys:
                plan.output(buffer[:], rank=rank)
        return plan, bind_attention_backward_q(
            *keys,
            work.batch * work.heads,
            work.head_dim,
            work.shards,
            config,
            causal=work.causal,
        )

    def make_plan_kv(
        self, strategy: Strategy, config: AttentionConfig | None = None
    ) -> tuple[Plan, dict[str, Any]]:
        """The communication of the second program, and what its kernel is bound to.

        Raises:
            PlanError: The strategy does not go with the workload.
        """
        from syncopate.compiler.binding import Tensor
        from syncopate.kernels import bind_attention_backward_kv
        from syncopate.plan import Plan
        from syncopate.plan.sequence_sums import reduce_sequence

        work, strategy = self.workload, self.adapt_to_sums(strategy)
        plan = Plan("backward_kv", work.mesh)
        shape = (work.sequence, work.row[1])
        k, v = (
            [Tensor(name, shape, work.dtype) for name in "kv"]
            if self.keeps
            else work.gather_keys(plan, strategy)
        )
        dkv = plan.buffer("dkv", (work.sequence, 2 * work.row[1]), self.sums)
        reduce_sequence(plan, dkv, work.shards, strategy, causal=work.causal)
        return plan, bind_attention_backward_kv(
            k,
            v,
            dkv,
            work.batch * work.heads,
            work.head_dim,
            work.shards,
            config,
            causal=work.causal,
        )

    def adapt_to_sums(self, strategy: Strategy) -> Strategy:
        """The strategy of the second program: sums go around one ring, also between nodes."""
        strategy = self.workload.adapt_strategy(strategy)
        if strategy.algorithm is not Algorithm.HIERARCHICAL:
            return strategy
        return dataclasses.replace(strategy, algorithm=Algorithm.RING)

    def compile(
        self,
        strategy: Strategy | None = None,
        *,
        config_q: AttentionConfig | None = None,
        config_kv: AttentionConfig | None = None,
        target: Target | str = "sm_90",
        **options: Any,
    ) -> tuple[Program, Program]:
        """Compiles both programs.

        Args:
            strategy: As for `AttentionWorkload.compile`, for both. `combine` may be tiles around a ring.
            config_q: The tiles of the first one; chosen if they are left out.
            config_kv: Those of the second one; likewise.
            target: What to compile for.
            **options: What `syncopate.compile` takes besides, such as `timeout`.

        Returns:
            A program that takes `q`, `k`, `v`, `o`, `do`, `lse` and the first of `positions`, and gives `dq` and
            `delta`, and `k` and `v` of all of the sequence if they are kept; and one that takes `q`, `k`, `v`, `do`,
            `lse`, `delta` and the second of `positions`, and gives the gradients of the rank's keys and values, for
            each head those of keys and then those of values.

        Raises:
            SyncopateError: As for `syncopate.compile`.
        """
        import syncopate
        from syncopate import kernels

        strategy = strategy or Strategy()
        common = {"target": target, **options}
        plan, bound = self.make_plan_q(strategy, config_q)
        first = self.workload.adapt_strategy(strategy)
        of_q = syncopate.compile(
            kernels.attention_backward_q, plan, **bound, strategy=first, **common
        )
        plan, bound = self.make_plan_kv(strategy, config_kv)
        second = self.adapt_to_sums(strategy)
        of_kv = syncopate.compile(
            kernels.attention_backward_kv, plan, **bound, strategy=second, **common
        )
        return of_q, of_kv

    def load(
        self,
        group: Group,
        strategy: Strategy | None = None,
        *,
        config_q: AttentionConfig | None = None,
        config_kv: AttentionConfig | None = None,
        target: Target | str = "sm_90",
        **options: Any,
    ) -> LoadedGradients:
        """Compiles and loads. Collective over the group; not during a graph capture.

        Args:
            group: The ranks.
            strategy: As for `compile`.
            config_q: As for `compile`.
            config_kv: As for `compile`.
            target: As for `compile`.
            **options: As for `compile`.

        Returns:
            What takes a rank's queries, keys, values, outputs, gradients of outputs and logarithms, and returns the
            gradients of the first three.

        Raises:
            SyncopateError: As for `compile`, and for `syncopate.runtime.load`.
        """
        programs = self.compile(
            strategy, config_q=config_q, config_kv=config_kv, target=target, **options
        )
        return self.load_program(programs, group)

    def make_program(
        self, strategy: Strategy | Auto | None, target: Target
    ) -> tuple[Program, Program]:
        """Compiles both programs; a strategy that is to be chosen is the default one."""
        return self.compile(strategy if isinstance(strategy, Strategy) else None, target=target)

    def load_program(self, program: tuple[Program, Program], group: Group) -> LoadedGradients:
        """Loads what `make_program` has made. Collective over the group."""
        from syncopate.workloads.loaded_gradients import LoadedGradients

        return LoadedGradients(self, program, group)
