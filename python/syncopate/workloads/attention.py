"""Attention of a sequence, or of the keys of a batch, that ranks share."""

from __future__ import annotations

import dataclasses
import enum
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from syncopate import abi
from syncopate.choices import Algorithm, Realization
from syncopate.errors import SyncopateError
from syncopate.plan.sequence import SequenceShards, Sharding
from syncopate.strategy import Strategy

if TYPE_CHECKING:
    from syncopate.compiler import Program, Target
    from syncopate.kernels import AttentionConfig, DecodeConfig
    from syncopate.plan import Buffer, Plan
    from syncopate.runtime import Group
    from syncopate.tune import Auto
    from syncopate.workloads.loaded_attention import LoadedAttention

__all__ = ["AttentionKind", "AttentionWorkload"]

_DTYPES = ("f16", "bf16")
# What a copy engine moves of a group is slow if its rows are narrow, and not worth its latency if it is small.
_LEAST_ROW_BYTES = 1 << 10
_LEAST_GROUP_BYTES = 1 << 20
# Each of them goes around the ring, with the latency of all hops.
_MOST_GATHERED_GROUPS = 4
_LONG_SEQUENCE = 16384
_SMS = 132


class AttentionKind(enum.Enum):
    """Who has what, and what moves."""

    SEQUENCE_PARALLEL = "sequence_parallel"
    """Each rank has a part of the sequence, and gets keys and values of all others from those that have them."""
    RING = "ring"
    """The same, but ranks pass keys and values on around a ring, while they use them."""
    ULYSSES = "ulysses"
    """Each rank has a part of the sequence, and computes some heads for all of it: inputs and outputs are exchanged."""
    DECODE = "decode"
    """Each rank has a part of the keys and values of each sequence of a batch, of which there is one query."""

    @property
    def gathers(self) -> bool:
        """Whether keys and values of all of the sequence come to each rank."""
        return self in (AttentionKind.SEQUENCE_PARALLEL, AttentionKind.RING)


@dataclass(frozen=True)
class AttentionWorkload:
    """Attention on all ranks, and what moves before or after it.

    Tensors have the sequence first, then the batch, then the heads: [sequence, batch · heads · head_dim]; of DECODE,
    the batch takes the place of the sequence.

    Attributes:
        kind: Who has what; may be given by its value, as a string.
        heads: Heads of the queries, a multiple of `kv_heads`.
        kv_heads: Heads of keys and values.
        head_dim: Elements of a head: 64, 128 or 256, or another power of two.
        sequence: Elements of the sequence, of all ranks. Of DECODE, the keys of each sequence for which all ranks
            together have room.
        world_size: Number of ranks, at least 2: one alone has nothing to bring or send.
        batch: Sequences.
        causal: Whether a query takes the keys up to its own place only. Of DECODE the query stands behind all keys.
        dtype: Element type: f16 or bf16.
        sharding: How the sequence is cut; ZIGZAG where `kind.gathers`.
        cu_seqlens: Where sequences begin that stand one behind another, and where the last one ends: 0, …, sequence.
            Where `kind.gathers`.
        node_size: Of RING, ranks of a node; all of them if it is left out. With several nodes, keys and values go
            around a ring of rings: those of one node after another's around the ranks of each, while the next node's
            come in.
        groups: In how many groups a rank's heads come, or leave, one behind another, so that tiles wait for those of
            their own group alone. It divides the heads of keys that a rank computes with. If it is left out, a group
            is 1 MiB of a rank's rows or more, of 1 KiB each or more. Not of DECODE.
    """

    kind: AttentionKind | str
    heads: int
    kv_heads: int
    head_dim: int
    sequence: int
    world_size: int
    batch: int = 1
    causal: bool = False
    dtype: str = "bf16"
    sharding: Sharding = Sharding.CONTIGUOUS
    cu_seqlens: tuple[int, ...] | None = None
    node_size: int | None = None
    groups: int | None = None

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "kind", AttentionKind(self.kind))
        except ValueError:
            known = ", ".join(kind.value for kind in AttentionKind)
            raise SyncopateError(f"kind: expects one of {known}, but got {self.kind!r}") from None
        for name in ("heads", "kv_heads", "head_dim", "sequence", "world_size", "batch"):
            value, least = getattr(self, name), 2 if name == "world_size" else 1
            if type(value) is not int or value < least:
                raise SyncopateError(
                    f"{name}: expects an integer of at least {least}, but got {value!r}"
                )
        if self.dtype not in _DTYPES:
            raise SyncopateError(
                f"dtype: expects one of {', '.join(_DTYPES)}, but got {self.dtype!r:.60}"
            )
        if type(self.causal) is not bool:
            raise SyncopateError(f"causal: expects True or False, but got {self.causal!r}")
        if self.cu_seqlens is not None:
            try:
                object.__setattr__(self, "cu_seqlens", tuple(map(operator.index, self.cu_seqlens)))
            except TypeError:
                raise SyncopateError(
                    f"cu_seqlens: expects integers that grow from 0 to {self.sequence}, but got "
                    f"{self.cu_seqlens!r:.80}"
                ) from None
        if self.heads % self.kv_heads:
            raise SyncopateError(
                f"heads: expects a multiple of the {self.kv_heads} heads of keys and values, but got {self.heads}"
            )
        if not self._kind.gathers:
            if self.sharding is not Sharding.CONTIGUOUS:
                raise SyncopateError(
                    f"sharding: expects Sharding.CONTIGUOUS for {self._kind.value}, but got {self.sharding}"
                )
            if self.cu_seqlens is not None:
                raise SyncopateError(
                    f"cu_seqlens: expects None for {self._kind.value}, but got {self.cu_seqlens!r:.80}"
                )
        self._check_nodes()
        if self.exchanges:
            self._check_heads()
        self._check_groups()
        # It says whether it can be cut like this.
        assert self.shards.rows

    def _check_nodes(self) -> None:
        size = self.node_size
        if size is None:
            return
        if self._kind is not AttentionKind.RING:
            raise SyncopateError(
                f"node_size: expects None for {self._kind.value}, but got {size!r}"
            )
        if type(size) is not int or size < 1 or self.world_size % size:
            raise SyncopateError(
                f"node_size: expects a divisor of {self.world_size} ranks, but got {size!r}"
            )

    def _check_groups(self) -> None:
        if self.groups is None:
            return
        if self._kind is AttentionKind.DECODE:
            raise SyncopateError(
                f"groups: expects None for {self._kind.value}, but got {self.groups!r}"
            )
        heads = self._computed_kv_heads
        if type(self.groups) is not int or self.groups < 1 or heads % self.groups:
            raise SyncopateError(
                f"groups: expects a divisor of the {heads} heads of keys that a rank computes with, but got "
                f"{self.groups!r}"
            )

    def _check_heads(self) -> None:
        world, heads, kv_heads = (
            self.world_size,
            self.batch * self.heads,
            self.batch * self.kv_heads,
        )
        if heads % world:
            raise SyncopateError(
                f"heads: expects a multiple of {world} ranks in batch · heads, but got {heads}"
            )
        if kv_heads % world and world % kv_heads:
            raise SyncopateError(
                f"kv_heads: expects batch · kv_heads to be a multiple or a divisor of {world} ranks, but got {kv_heads}"
            )

    @property
    def name(self) -> str:
        """For messages and files."""
        words = [
            self._kind.value,
            f"b{self.batch}-h{self.heads}-kv{self.kv_heads}-d{self.head_dim}-s{self.sequence}",
            self.dtype,
            *(["causal"] if self.causal else []),
            *([self.sharding.value] if self.sharding is not Sharding.CONTIGUOUS else []),
            *([f"packed-{len(self.cu_seqlens) - 1}"] if self.cu_seqlens is not None else []),
            f"w{self.world_size}",
            *([f"nodes-of-{self.node_size}"] if self.node_size is not None else []),
            *([f"groups-{self.groups}"] if self.groups is not None else []),
        ]
        return "-".join(words)

    @property
    def family(self) -> None:
        """None: tiles depend on all sizes."""
        return None

    @property
    def mesh(self) -> list[int]:
        """The ranks, as a mesh of nodes and the ranks of each if there are several nodes."""
        size = self.node_size or self.world_size
        return [self.world_size] if size == self.world_size else [self.world_size // size, size]

    @property
    def shards(self) -> SequenceShards:
        """Who has which part of the sequence."""
        return SequenceShards(self.sequence, self.world_size, self.sharding)

    @property
    def rows(self) -> int:
        """Rows of a rank's queries and outputs."""
        return self.batch if self._kind is AttentionKind.DECODE else self.shards.rows

    @property
    def capacity(self) -> int:
        """Of DECODE, the keys of each sequence for which a rank has room."""
        return -(-self.sequence // self.world_size)

    @property
    def row(self) -> tuple[int, int]:
        """Elements of a row of queries and outputs, and of one of keys and values."""
        batch = 1 if self._kind is AttentionKind.DECODE else self.batch
        return batch * self.heads * self.head_dim, batch * self.kv_heads * self.head_dim

    @property
    def gathers(self) -> bool:
        """Whether keys and values of all of the sequence come to each rank."""
        return self._kind.gathers

    @property
    def exchanges(self) -> bool:
        """Whether each rank gets all of the sequence of some heads."""
        return self._kind is AttentionKind.ULYSSES

    def count_own(self, heads: int) -> int:
        """Of ULYSSES, how many heads a rank has, of so many in a row of each sequence."""
        return max(1, self.batch * heads // self.world_size)

    def columns(self, rank: int, heads: int) -> tuple[int, int]:
        """Of ULYSSES, which columns of tensors with so many heads a rank takes."""
        first = rank * heads * self.batch // self.world_size
        return first * self.head_dim, (first + self.count_own(heads)) * self.head_dim

    def count_groups(self, heads: int) -> int:
        """In how many groups so many heads of a rank's rows come, or leave."""
        if self.groups is not None:
            return self.groups
        row = heads * self.head_dim * 2
        fit = min(row // _LEAST_ROW_BYTES, self.shards.block * row // _LEAST_GROUP_BYTES)
        limit = max(1, min(fit, heads, _MOST_GATHERED_GROUPS if self.gathers else heads))
        return max(groups for groups in range(1, limit + 1) if heads % groups == 0)

    def tables(self, rank: int, config: AttentionConfig) -> dict[str, npt.NDArray[np.int32]]:
        """What a call takes besides queries, keys, values and lengths, by name."""
        if self._kind is AttentionKind.DECODE:
            return {}
        tables = {}
        if self.causal and self._kind.gathers:
            tables["positions"] = self.shards.positions(rank)
        if self.cu_seqlens is not None:
            from syncopate.kernels.sequence_tiles import SequenceTiles

            tables["tiles"] = SequenceTiles(
                self.shards, config.block_m, config.block_n, self.causal, self.cu_seqlens
            ).table(rank)
        return tables

    def default_strategy(self) -> Strategy:
        """The strategy that `compile` takes if it is given none.

        Keys and values that are gathered, or go around a ring, go by copy engines: those take no registers, which the
        kernel is short of, and wait for no CTA. So do the heads of a long sequence, whose tiles take longer than the
        latencies of that many copies.
        """
        by_engine = self.gathers or (self.exchanges and self.sequence >= _LONG_SEQUENCE)
        return Strategy(realization=Realization.COPY_ENGINE) if by_engine else Strategy()

    def choose_config(self, strategy: Strategy | None = None) -> AttentionConfig | DecodeConfig:
        """The tiles that `compile` takes if it is given none, with that strategy or the default one."""
        from syncopate.kernels import AttentionConfig, DecodeConfig

        strategy = strategy or self.default_strategy()
        if self._kind is AttentionKind.DECODE:
            taken = strategy.count_dedicated() + strategy.count_library()
            return DecodeConfig.choose(
                self.batch, self.kv_heads, self.capacity, num_sms=_SMS - taken
            )
        between = strategy.between if len(self.mesh) > 1 else None
        named = [strategy.realization] if between is None else [strategy.realization, between]
        return AttentionConfig.choose(
            self.head_dim,
            packed=self.cu_seqlens is not None,
            realizations=map(abi.Realization.spelled, named),
        )

    def make_plan(
        self, strategy: Strategy, config: AttentionConfig | DecodeConfig | None = None
    ) -> tuple[Plan, dict[str, Any]]:
        """The communication, and what the kernel is bound to: keyword arguments of `syncopate.compile`.

        Raises:
            PlanError: The strategy does not go with the workload.
        """
        from syncopate.plan import Plan

        plan = Plan(self._kind.value, self.mesh)
        make = {AttentionKind.DECODE: self._decode, AttentionKind.ULYSSES: self._exchange}
        return plan, make.get(self._kind, self._gather)(
            plan, self.adapt_strategy(strategy), config or self.choose_config(strategy)
        )

    def compile(
        self,
        strategy: Strategy | None = None,
        *,
        config: AttentionConfig | DecodeConfig | None = None,
        target: Target | str = "sm_90",
        **options: Any,
    ) -> Program:
        """Compiles the workload.

        Args:
            strategy: The choices; `default_strategy` if it is left out. Of RING, the algorithm is a ring, or a ring of
                rings, in any case.
            config: The tiles; those of `choose_config` if it is left out.
            target: What to compile for.
            **options: What `syncopate.compile` takes besides, such as `timeout`.

        Returns:
            A program that takes `q`, `k` and `v`, what `tables` gives, and, of DECODE, `lengths`.

        Raises:
            SyncopateError: As for `syncopate.compile`.
        """
        import syncopate
        from syncopate import kernels

        strategy = self.adapt_strategy(strategy or self.default_strategy())
        plan, bound = self.make_plan(strategy, config)
        decodes = self._kind is AttentionKind.DECODE
        kernel = kernels.decode_attention if decodes else kernels.attention
        return syncopate.compile(kernel, plan, **bound, strategy=strategy, target=target, **options)

    def load(
        self,
        group: Group,
        strategy: Strategy | None = None,
        *,
        config: AttentionConfig | DecodeConfig | None = None,
        target: Target | str = "sm_90",
        **options: Any,
    ) -> LoadedAttention:
        """Compiles and loads. Collective over the group; not during a graph capture.

        Args:
            group: The ranks.
            strategy: As for `compile`.
            config: As for `compile`.
            target: As for `compile`.
            **options: As for `compile`.

        Returns:
            What takes a rank's queries, keys and values, and returns its outputs and logarithms.

        Raises:
            SyncopateError: As for `compile`, and for `syncopate.runtime.load`.
        """
        config = config or self.choose_config(strategy)
        program = self.compile(strategy, config=config, target=target, **options)
        return self.load_program(program, group, config)

    def make_program(self, strategy: Strategy | Auto | None, target: Target) -> Program:
        """Compiles it; a strategy that is to be chosen is the default one."""
        return self.compile(strategy if isinstance(strategy, Strategy) else None, target=target)

    def load_program(self, program: Program, group: Group, config: Any = None) -> LoadedAttention:
        """Loads what `make_program` has made, or `compile` with that configuration. Collective over the group."""
        from syncopate.workloads.loaded_attention import LoadedAttention

        return LoadedAttention(self, program, group, config or self.choose_config())

    def adapt_strategy(self, strategy: Strategy) -> Strategy:
        """The strategy with the algorithm that the kind has.

        Raises:
            SyncopateError: It is to be chosen, which none is for attention.
        """
        if not isinstance(strategy, Strategy):
            raise SyncopateError(
                f"strategy: expects a Strategy, as none is chosen for attention, but got {strategy!r:.80}"
            )
        if self._kind is not AttentionKind.RING:
            return strategy
        algorithm = Algorithm.RING if len(self.mesh) == 1 else Algorithm.HIERARCHICAL
        return dataclasses.replace(strategy, algorithm=algorithm)

    def gather_keys(
        self, plan: Plan, strategy: Strategy, config: AttentionConfig | None = None
    ) -> tuple[Buffer, Buffer]:
        """Where `kind.gathers`: buffers `k` and `v` of a plan, of which each rank gets all, or what tiles read."""
        from syncopate.kernels.sequence_tiles import SequenceTiles
        from syncopate.plan.sequence import gather_sequence

        taken = None
        if config is not None and (self.causal or self.cu_seqlens is not None):
            blocks = (config.block_m, config.block_n)
            tiles = SequenceTiles(self.shards, *blocks, self.causal, self.cu_seqlens)
            taken = [tiles.keys(rank) for rank in range(self.world_size)]

        k, v = (plan.buffer(name, (self.sequence, self.row[1]), self.dtype) for name in "kv")
        groups = self.count_groups(self._computed_kv_heads)
        gather_sequence(plan, [k, v], self.shards, strategy, taken=taken, groups=groups)
        return k, v

    def _gather(self, plan: Plan, strategy: Strategy, config: Any) -> dict[str, Any]:
        from syncopate.kernels import bind_attention

        return bind_attention(
            *self.gather_keys(plan, strategy, config),
            self.batch * self.heads,
            self.head_dim,
            self.shards,
            config,
            causal=self.causal,
            cu_seqlens=self.cu_seqlens,
        )

    def _exchange(self, plan: Plan, strategy: Strategy, config: Any) -> dict[str, Any]:
        from syncopate.kernels import bind_attention
        from syncopate.workloads.head_exchange import gather_rows, scatter_rows

        heads = {"q": self.heads, "k": self.kv_heads, "v": self.kv_heads}
        own = scatter_rows(self, plan, strategy, heads)
        return bind_attention(
            own["k"],
            own["v"],
            self.count_own(self.heads),
            self.head_dim,
            SequenceShards(self.sequence, 1),
            config,
            causal=self.causal,
            q=own["q"],
            o=gather_rows(self, plan, strategy, "o", self.heads, self.dtype),
        )

    def _decode(self, plan: Plan, strategy: Strategy, config: Any) -> dict[str, Any]:
        from syncopate.kernels import bind_decode_attention
        from syncopate.kernels.bind_decode import partial_shape
        from syncopate.plan.templates import all_gather_tiles

        sizes = (self.batch, self.heads, self.kv_heads, self.head_dim)
        shape = partial_shape(*sizes, config)
        part = plan.buffer("part", shape, "f32")
        gathered = plan.buffer("gathered", (self.world_size, *shape[1:]), "f32")
        all_gather_tiles(plan, part, gathered, strategy, returned=False)
        return bind_decode_attention(part, gathered, *sizes, self.capacity, self.dtype, config)

    @property
    def _computed_kv_heads(self) -> int:
        """Heads of keys, of all sequences, that a rank computes with."""
        return self.count_own(self.kv_heads) if self.exchanges else self.batch * self.kv_heads

    @property
    def _kind(self) -> AttentionKind:
        return AttentionKind(self.kind)
