"""GEMMs with what is moved before or after them."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from syncopate.agreement import require
from syncopate.choices import Algorithm, Combine, Realization, Shots
from syncopate.dtypes import DTYPES
from syncopate.errors import PlanError, SyncopateError
from syncopate.strategy import Strategy

if TYPE_CHECKING:
    from syncopate.compiler import Program, Target
    from syncopate.kernels import GemmConfig
    from syncopate.model import KernelCost, Machine, Timeline
    from syncopate.plan import Buffer, Plan, Schedule
    from syncopate.runtime import Group
    from syncopate.tune import Auto
    from syncopate.workloads.loaded import LoadedGemm

__all__ = ["GEMM_DTYPES", "GemmKind", "GemmWorkload"]

GEMM_DTYPES: Final = ("bf16", "f16", "f32", "f8E4M3FN", "f8E5M2")
"""Element types that the GEMM kernels multiply, as MLIR spells them: they sum in float32."""

_TMA_BYTES: Final = 16
"""Rows that TMA can address start at multiples of this."""

_LINE_BYTES: Final = 128

_PACKED_ROWS: Final = 4096
"""Rows of C from which on it pays to copy B so that its rows start with cache lines (bf16 on H200)."""


class GemmKind(enum.Enum):
    """A GEMM and what moves before or after it."""

    AG_GEMM = "ag_gemm"
    """A is gathered: each rank has M / W of its rows."""
    GEMM_RS = "gemm_rs"
    """Each rank computes a part of a sum, and gets M / W of the sum's rows."""
    GEMM_AR = "gemm_ar"
    """Each rank computes a part of a sum, and gets all of it."""
    A2A_GEMM = "a2a_gemm"
    """A is exchanged: block j of rank i becomes block i of rank j."""
    GEMM_A2A = "gemm_a2a"
    """C is exchanged likewise."""

    @property
    def is_before(self) -> bool:
        """Whether data move before the GEMM, not after it."""
        return self in (GemmKind.AG_GEMM, GemmKind.A2A_GEMM)

    @property
    def sums(self) -> bool:
        """Whether ranks compute parts of a sum."""
        return self in (GemmKind.GEMM_RS, GemmKind.GEMM_AR)

    @property
    def collective(self) -> str:
        """What is done to the data that move."""
        return _COLLECTIVES[self]


_COLLECTIVES: Final = {
    GemmKind.AG_GEMM: "all_gather",
    GemmKind.GEMM_RS: "reduce_scatter",
    GemmKind.GEMM_AR: "all_reduce",
    GemmKind.A2A_GEMM: "all_to_all",
    GemmKind.GEMM_A2A: "all_to_all",
}


@dataclass(frozen=True)
class GemmWorkload:
    """C[M, N] = A[M, K] · B[N, K]ᵀ on every rank, and what moves before or after it; all of one element type.

    Attributes:
        kind: What moves; may be given by its value, as a string.
        m: M, the rows of A and C of one rank's GEMM, gathered ones included.
        n: N, the rows of a rank's B.
        k: K, the columns of a rank's A and B.
        world_size: Number of ranks, at least 2: one alone has nothing to bring or send.
        dtype: Element type as MLIR spells it, one of `GEMM_DTYPES`.
        node_size: Ranks of a node, which reach one another's memory; all of them if it is left out. Between nodes the
            default strategy has NCCL move what goes there, by two levels.
        weight_pitch: Elements from one row of B in memory to the next; the length of a row if it is left out.
        transpose_b: Whether B is given as [K, N].
        returns_a: Whether a call also gives back A as it has arrived, behind C, where data move before the GEMM. A
            rank's own rows are then copied into symmetric memory before the GEMM.
    """

    kind: GemmKind | str
    m: int
    n: int
    k: int
    world_size: int
    dtype: str = "bf16"
    node_size: int | None = None
    weight_pitch: int | None = None
    transpose_b: bool = False
    returns_a: bool = False

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "kind", GemmKind(self.kind))
        except ValueError:
            known = ", ".join(kind.value for kind in GemmKind)
            raise SyncopateError(f"kind: expects one of {known}, but got {self.kind!r}") from None
        for name, least in (("m", 1), ("n", 1), ("k", 1), ("world_size", 2)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise SyncopateError(
                    f"{name}: expects an integer of at least {least}, but got {value!r}"
                )
        size = self.node_size
        if size is not None and not (
            type(size) is int and size > 0 and self.world_size % size == 0
        ):
            raise SyncopateError(
                f"node_size: expects a divisor of {self.world_size} ranks, but got {size!r}"
            )
        pitch = self.weight_pitch
        row = "N" if self.transpose_b else "K"
        if pitch is not None and not (type(pitch) is int and pitch >= self.weight_shape[1]):
            raise SyncopateError(
                f"weight_pitch: expects an integer of at least {row}, {self.weight_shape[1]}, but got {pitch!r}"
            )
        if self.returns_a and not self._kind.is_before:
            raise SyncopateError(
                f"returns_a: expects False for {self._kind.value}, where A does not move, but got True"
            )
        if self.dtype not in GEMM_DTYPES:
            raise SyncopateError(
                f"dtype: expects one of {', '.join(GEMM_DTYPES)}, which the GEMM kernels multiply, but got "
                f"{self.dtype!r:.60}"
            )

    @property
    def name(self) -> str:
        """For messages and files."""
        size = "" if self.node_size is None else f"-nodes-of-{self.node_size}"
        ranks = f"w{self.world_size}{size}"
        pitch = "" if self.weight_pitch is None else f"-pitch-{self.weight_pitch}"
        more = f"{'-kn' * self.transpose_b}{'-with-a' * self.returns_a}"
        return f"{self._kind.value}-{self.m}x{self.n}x{self.k}-{self.dtype}-{ranks}{pitch}{more}"

    @property
    def shape(self) -> tuple[int, int, int]:
        """M, N and K."""
        return self.m, self.n, self.k

    @property
    def weight_shape(self) -> tuple[int, int]:
        """Rows and columns of B as it is given."""
        return (self.k, self.n) if self.transpose_b else (self.n, self.k)

    @property
    def uses_tma(self) -> bool:
        """Whether the kernel is `gemm`, and not `gemm_pointers`, which takes rows of any length."""
        nbytes = DTYPES[self.dtype].nbytes
        rows = (self.n, self.k, self.weight_pitch or self.k)
        return all(elements * nbytes % _TMA_BYTES == 0 for elements in rows)

    @property
    def family(self) -> GemmWorkload:
        """The same for workloads that differ in M alone."""
        return dataclasses.replace(self, m=self.world_size)

    def packed(self) -> GemmWorkload:
        """The workload whose program `load` runs, after it has copied what that program cannot read well.

        Where rows of K start anywhere in 16 bytes, TMA takes neither factor: A and B get columns of zeros up to the
        next cache line. Where they start at multiples of 16 bytes, but anywhere in a cache line, B gets room behind
        each row, if the GEMM is large enough to make up for copying it; A may lie anywhere then. A transposed B, whose
        rows are not those of K, stays as it is, and so does A beside it.

        Returns:
            This workload itself where nothing is to be copied.
        """
        nbytes = DTYPES[self.dtype].nbytes
        line = _LINE_BYTES // nbytes
        aligned = -(-self.k // line) * line
        given = self.transpose_b or self.weight_pitch is not None
        if aligned == self.k or given or self.n * nbytes % _TMA_BYTES:
            return self
        if self.k * nbytes % _TMA_BYTES:
            return dataclasses.replace(self, k=aligned)
        if self.m < _PACKED_ROWS:
            return self
        return dataclasses.replace(self, weight_pitch=aligned)

    def load(
        self,
        group: Group,
        strategy: Strategy | Auto | str | None = None,
        *,
        config: GemmConfig | None = None,
        target: Target | str = "sm_90",
        **options: Any,
    ) -> LoadedGemm:
        """Compiles `packed` and loads it. Collective over the group; not during a graph capture.

        Args:
            group: The ranks.
            strategy: As for `compile`; where it is to be chosen, the ranks of the group do so together.
            config: As for `compile`.
            target: As for `compile`.
            **options: As for `compile`.

        Returns:
            What takes A and B as they are, and returns C, or what becomes of it, and A behind it with `returns_a`.

        Raises:
            SyncopateError: As for `compile`, and for `syncopate.runtime.load`; or another rank cannot compile it.
        """
        from syncopate.tune.auto import as_auto

        auto = as_auto(strategy)
        if auto is not None and auto.agreement is None:
            strategy = dataclasses.replace(auto, agreement=group.agreement)
        program = require(
            group.agreement,
            f"compiling {self.name}",
            lambda: self.packed().compile(strategy, config=config, target=target, **options),
        )
        return self.load_program(program, group)

    def make_program(self, strategy: Strategy | Auto | None, target: Target) -> Program:
        """Compiles `packed`."""
        return self.packed().compile(strategy, target=target)

    def load_program(self, program: Program, group: Group) -> LoadedGemm:
        """Loads what `make_program` has made. Collective over the group."""
        from syncopate.workloads.loaded import LoadedGemm

        return LoadedGemm(self, program, group)

    def choose_config(self, target: Target | str = "sm_90") -> GemmConfig:
        """The tiles that `compile` takes if it is given none."""
        from syncopate.compiler import Target
        from syncopate.kernels import GemmConfig

        nbytes = DTYPES[self.dtype].nbytes
        if not self.uses_tma or nbytes > 2:
            # Addresses of pointers take registers, those of single elements most, and wider elements shared memory.
            pair = max(2, 4 // nbytes)
            single = any(size % pair for size in (self.n, self.k, self.weight_pitch or self.k))
            block_m = 64 if single else 128
            return GemmConfig(block_m, block_n=128, block_k=max(16, 128 // nbytes))
        return GemmConfig.choose(
            self.m, self.n, nbytes * self.k, num_sms=Target.parse(target).num_sms
        )

    def default_strategy(self, config: GemmConfig) -> Strategy:
        """The strategy that `compile` takes if it is given none: the defaults, in the order that suits the tiles.

        Where a tile would straddle the blocks of two ranks, a role adds the parts of a sum, since tiles cannot.

        Args:
            config: The tiles. Their `group_m` orders the kernel that runs alone; a fused kernel takes its tiles from
                tables, so `Strategy.group_m` alone counts there.
        """
        from syncopate.plan.templates import choose_shots

        strategy = Strategy(group_m=config.group_m)
        if self._has_nodes:
            gathers = self._kind is GemmKind.AG_GEMM and self.node_size != 1
            algorithm = Algorithm.HIERARCHICAL if gathers else Algorithm.DIRECT
            # A role then adds the parts of a sum in any case.
            return dataclasses.replace(strategy, algorithm=algorithm, between=Realization.NCCL)
        rows = -(-self.m // self.world_size)
        if not self._kind.sums or (self.m == rows * self.world_size and rows % config.block_m == 0):
            return strategy
        nbytes = self.m * self.n * DTYPES[self.dtype].nbytes
        in_one = self._kind is GemmKind.GEMM_AR and (
            choose_shots(nbytes, self.world_size) is Shots.ONE
        )
        return strategy if in_one else dataclasses.replace(strategy, combine=Combine.ROLE)

    def make_plan(self, strategy: Strategy) -> tuple[Plan, Mapping[str, Buffer]]:
        """The communication, and its buffers of A and C, by these names, as far as they are the plan's.

        Raises:
            PlanError: The strategy does not go with the workload.
        """
        from syncopate.plan import Plan

        size = self.node_size or self.world_size
        levels = [self.world_size // size, size] if self._has_nodes else [self.world_size]
        plan = Plan(self._kind.value, mesh=levels)
        buffers = _ADDITIONS[self._kind](plan, self, strategy)
        if self.returns_a:
            for rank in range(self.world_size):
                plan.output(buffers["a"][:], rank=rank)
        return plan, buffers

    def compile(
        self,
        strategy: Strategy | Auto | str | None = None,
        *,
        config: GemmConfig | None = None,
        target: Target | str = "sm_90",
        **options: Any,
    ) -> Program:
        """Compiles the workload.

        Args:
            strategy: The choices; those of `default_strategy` if it is left out. With "auto", or a
                `syncopate.tune.Auto`, they are chosen, and the tiles as well; with torch.distributed in use by as many
                ranks, all compile together.
            config: The tiles; those of `choose_config` if it is left out.
            target: What to compile for.
            **options: What `syncopate.compile` takes besides, such as `timeout`.

        Returns:
            A program that takes `a` and `b`, and returns C, or what becomes of it, and A behind it with `returns_a`.

        Raises:
            SyncopateError: As for `syncopate.compile`.
        """
        import syncopate
        from syncopate import kernels
        from syncopate.tune.auto import Auto, as_auto, choose
        from syncopate.tune.subject import GemmSubject

        auto = as_auto(strategy)
        if auto is not None:
            # What is given back besides decides nothing.
            subject = GemmSubject(
                dataclasses.replace(self, returns_a=False),
                syncopate.Target.parse(target),
                config,
                options,
                auto.unordered,
            )
            report = choose(subject, auto)
            chosen = report.chosen
            program = self.compile(chosen.strategy, config=chosen.config, target=target, **options)
            return dataclasses.replace(program, tuning=report)
        assert not isinstance(strategy, (Auto, str))
        config = self.choose_config(target) if config is None else config
        strategy = self.default_strategy(config) if strategy is None else strategy
        plan, buffers = self.make_plan(strategy)
        operand = buffers.get("a") or syncopate.Tensor("a", (self.m, self.k), self.dtype)
        bind = kernels.bind_gemm if self.uses_tma else kernels.bind_gemm_pointers
        # Code is to be the same whatever order the strategy has.
        code = dataclasses.replace(config, group_m=kernels.GemmConfig.group_m)
        return syncopate.compile(
            kernels.gemm if self.uses_tma else kernels.gemm_pointers,
            plan,
            **bind(
                operand,
                self.n,
                code,
                c=buffers.get("c"),
                transpose_b=self.transpose_b,
                pitch_b=self.weight_pitch,
            ),
            strategy=strategy,
            target=target,
            **options,
        )

    def schedule(
        self,
        strategy: Strategy,
        config: GemmConfig,
        target: Target | str = "sm_90",
    ) -> Schedule:
        """The tables of that program, in milliseconds and without its code, for the cost model.

        Raises:
            SyncopateError: As for `compile`, but for what its code shows.
        """
        from syncopate.compiler import Target
        from syncopate.model.schedules import schedule_gemm

        plan, buffers = self.make_plan(strategy)
        return schedule_gemm(
            plan,
            self.n,
            config,
            strategy,
            k=self.k,
            pointers=not self.uses_tma,
            target=Target.parse(target),
            **buffers,
        )

    def cost(self, config: GemmConfig, machine: Machine) -> KernelCost:
        """What tiles take on a machine.

        Raises:
            SyncopateError: The machine knows nothing of such operands, or of the kernel on pointers.
        """
        from syncopate.model import gemm_cost

        if not self.uses_tma:
            raise SyncopateError(
                f"machine {machine.name}: knows nothing of the GEMM on pointers, which {self.name} needs"
            )
        return gemm_cost(
            machine,
            self.k,
            block_m=config.block_m,
            block_n=config.block_n,
            block_k=config.block_k,
            dtype=self.dtype,
        )

    def predict(
        self,
        strategy: Strategy,
        config: GemmConfig,
        machine: Machine,
        target: Target | str = "sm_90",
    ) -> Timeline:
        """The timeline of that program on a machine.

        Raises:
            SyncopateError: As for `schedule` and `cost`.
        """
        from syncopate.model import predict

        cost = self.cost(config, machine)
        return predict(self.schedule(strategy, config, target), cost, machine)

    @property
    def _kind(self) -> GemmKind:
        return GemmKind(self.kind)

    @property
    def _has_nodes(self) -> bool:
        """Whether there are several nodes."""
        return self.node_size is not None and self.node_size < self.world_size


def _add_gather(plan: Plan, workload: GemmWorkload, strategy: Strategy) -> dict[str, Buffer]:
    a = plan.buffer("a", (workload.m, workload.k), workload.dtype, shard_axis=0)
    plan.all_gather(a, axis=0)
    return {"a": a}


def _add_sum(plan: Plan, workload: GemmWorkload, strategy: Strategy) -> dict[str, Buffer]:
    from syncopate.plan.templates import all_reduce_tiles, reduce_scatter_tiles

    c = plan.buffer("c", (workload.m, workload.n), workload.dtype)
    add = reduce_scatter_tiles if workload.kind is GemmKind.GEMM_RS else all_reduce_tiles
    add(plan, c, strategy)
    return {"c": c}


def _add_exchange_before(
    plan: Plan, workload: GemmWorkload, strategy: Strategy
) -> dict[str, Buffer]:
    if workload.m % plan.world_size:
        raise PlanError(
            f"m: expects a multiple of {plan.world_size} ranks for a2a_gemm, as blocks of two sizes leave gaps, but "
            f"got {workload.m}"
        )
    shape = (workload.m, workload.k)
    mine = plan.buffer("a", shape, workload.dtype)
    received = plan.buffer("received", shape, workload.dtype)
    for rank in range(plan.world_size):
        plan.input(mine[:], rank=rank)
    plan.all_to_all(mine, received)
    return {"a": received}


def _add_exchange_after(
    plan: Plan, workload: GemmWorkload, strategy: Strategy
) -> dict[str, Buffer]:
    from syncopate.plan.templates import all_to_all_tiles

    shape = (workload.m, workload.n)
    c = plan.buffer("c", shape, workload.dtype)
    all_to_all_tiles(plan, c, plan.buffer("received", shape, workload.dtype))
    return {"c": c}


_ADDITIONS: Final = {
    GemmKind.AG_GEMM: _add_gather,
    GemmKind.GEMM_RS: _add_sum,
    GemmKind.GEMM_AR: _add_sum,
    GemmKind.A2A_GEMM: _add_exchange_before,
    GemmKind.GEMM_A2A: _add_exchange_after,
}
"""What each kind adds to a plan; each gives the plan's buffers of A and C."""
