"""The gradients of attention of a sequence that ranks share."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from syncopate.choices import Algorithm
from syncopate.errors import SyncopateError
from syncopate.plan.sequence import SequenceShards
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


@dataclass(frozen=True)
class AttentionGradients:
    """The gradients of an attention workload, by two programs: of queries first, then of keys and values.

    Attributes:
        workload: The attention, of any kind but DECODE.
        keeps: Whether each rank keeps what the first program brings, such as the keys and values of all of the
            sequence, for the second one. Otherwise, the second one brings it again. With several nodes, and of ULYSSES,
            it is kept.
        sums: The type in which what ranks contribute to the gradients of keys and values travels: f32, or the one of
            the workload. Of ULYSSES, where no two ranks have the same heads of keys, it is always that one.
        of_lse: Whether the logarithms have gradients, too, which calls take as `dlse`.
    """

    workload: AttentionWorkload
    keeps: bool = True
    sums: str = "f32"
    of_lse: bool = False

    def __post_init__(self) -> None:
        work = self.workload
        if not (work.gathers or work.exchanges):
            raise SyncopateError(
                f"workload: expects another kind than decode, of which there are gradients, but got {work.name}"
            )
        if not self.keeps and (len(work.mesh) > 1 or work.exchanges):
            why = (
                "for ulysses"
                if work.exchanges
                else "with several nodes, as sums go around one ring of all ranks"
            )
            raise SyncopateError(f"keeps: expects True {why}, but got {self.keeps!r}")
        if self.sums not in ("f32", work.dtype):
            raise SyncopateError(f"sums: expects f32 or {work.dtype}, but got {self.sums!r:.60}")

    @property
    def name(self) -> str:
        """For messages and files."""
        words = [
            *("gradients", self.sums),
            *([] if self.keeps else ["gathered-again"]),
            *(["of-lse"] if self.of_lse else []),
        ]
        return "-".join([*words, self.workload.name])

    @property
    def family(self) -> None:
        """None, as attention has none."""
        return None

    def tables(
        self, rank: int, config_q: AttentionConfig | None = None
    ) -> tuple[dict[str, npt.NDArray[np.int32]], dict[str, npt.NDArray[np.int32]]]:
        """What calls of the two programs take besides, by name; `config_q` is that of the first one."""
        from syncopate.kernels import AttentionConfig
        from syncopate.kernels.sequence_tiles import SequenceTiles

        work = self.workload
        config_q = config_q or AttentionConfig.choose_backward_q(work.head_dim)
        sizes = config_q.block_m, config_q.block_n
        tiles = SequenceTiles(self._shards, *sizes, work.causal, work.cu_seqlens)
        return work.tables(rank, config_q), {} if work.exchanges else tiles.places_of_queries(rank)

    @property
    def _shards(self) -> SequenceShards:
        """Which queries a rank has when it computes."""
        work = self.workload
        return SequenceShards(work.sequence, 1) if work.exchanges else work.shards

    def make_plan_q(
        self, strategy: Strategy, config: AttentionConfig | None = None
    ) -> tuple[Plan, dict[str, Any]]:
        """The communication of the first program, and what its kernel is bound to.

        Raises:
            PlanError: The strategy does not go with the workload.
        """
        from syncopate.kernels import bind_attention_backward_q
        from syncopate.plan import Plan
        from syncopate.workloads.head_exchange import gather_rows, scatter_rows

        work = self.workload
        plan, strategy = Plan("backward_q", work.mesh), work.adapt_strategy(strategy)
        moved: dict[str, Any] = {}
        if work.exchanges:
            counts = dict.fromkeys(("q", "do", "o"), work.heads)
            own = scatter_rows(work, plan, strategy, counts | dict.fromkeys("kv", work.kv_heads))
            k, v, kept = own.pop("k"), own.pop("v"), [own["q"], own["do"]]
            moved = own | {"dq": gather_rows(work, plan, strategy, "dq", work.heads, work.dtype)}
        else:
            (k, v), kept = work.gather_keys(plan, strategy), []
        for rank in range(work.world_size if self.keeps else 0):
            for buffer in (k, v, *kept):
                plan.output(buffer[:], rank=rank)
        return plan, bind_attention_backward_q(
            *(k, v, self._heads, work.head_dim, self._shards, config),
            causal=work.causal,
            cu_seqlens=work.cu_seqlens,
            of_lse=self.of_lse,
            **moved,
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
        from syncopate.workloads.head_exchange import gather_rows

        work, strategy = self.workload, self.adapt_to_sums(strategy)
        plan, row = Plan("backward_kv", work.mesh), work.row[1]
        if work.exchanges:
            own = work.count_own(work.kv_heads)
            row = own * work.head_dim
            is_shared = own * work.world_size > work.batch * work.kv_heads
            dtype = self.sums if is_shared else work.dtype
            dkv = gather_rows(work, plan, strategy, "dkv", work.kv_heads, dtype, width=2)
        k, v = (
            [Tensor(name, (work.sequence, row), work.dtype) for name in "kv"]
            if self.keeps
            else work.gather_keys(plan, strategy)
        )
        if not work.exchanges:
            dkv = plan.buffer("dkv", (work.sequence, 2 * row), self.sums)
            packed = work.cu_seqlens
            reduce_sequence(plan, dkv, work.shards, strategy, causal=work.causal, cu_seqlens=packed)
        return plan, bind_attention_backward_kv(
            *(k, v, dkv, self._heads, work.head_dim, self._shards, config),
            causal=work.causal,
            cu_seqlens=work.cu_seqlens,
        )

    @property
    def _heads(self) -> int:
        """Of the queries that a rank has when it computes."""
        work = self.workload
        return work.count_own(work.heads) if work.exchanges else work.batch * work.heads

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
            A program that takes `q`, `k`, `v`, `o`, `do`, `lse`, `dlse` if it is asked for, and the first of `tables`,
            and gives `dq` and `delta`, and `k` and `v` of all of the sequence if they are kept; and one that takes `q`,
            `k`, `v`, `do`, `lse`, `delta` and the second of `tables`, and gives the gradients of the rank's keys and
            values, for each head those of keys and then those of values. Of ULYSSES, what is kept are `q_heads`,
            `do_heads`, `k_heads` and `v_heads`, which the second one takes as `q`, `do`, `k` and `v`.

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
            What takes a rank's queries, keys, values, outputs, gradients of outputs, logarithms, and gradients of these
            if they have any, and returns the gradients of the first three.

        Raises:
            SyncopateError: As for `compile`, and for `syncopate.runtime.load`.
        """
        programs = self.compile(
            strategy, config_q=config_q, config_kv=config_kv, target=target, **options
        )
        from syncopate.workloads.loaded_gradients import LoadedGradients

        return LoadedGradients(self, programs, group, config_q)

    def make_program(
        self, strategy: Strategy | Auto | None, target: Target
    ) -> tuple[Program, Program]:
        """Compiles both programs; a strategy that is to be chosen is the default one."""
        return self.compile(strategy if isinstance(strategy, Strategy) else None, target=target)

    def load_program(self, program: tuple[Program, Program], group: Group) -> LoadedGradients:
        """Loads what `make_program` has made. Collective over the group."""
        from syncopate.workloads.loaded_gradients import LoadedGradients

        return LoadedGradients(self, program, group)
