"""What the model knows of a machine: plain data, which is measured once and kept in a file."""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from syncopate.abi import Realization
from syncopate.errors import SyncopateError
from syncopate.model.curve import (
    Combining,
    Curve,
    FlowDirection,
    TransferCurve,
    TransferRates,
)
from syncopate.model.fabric import Fabric, Wire
from syncopate.model.numbers import expect_count, expect_number
from syncopate.model.topology import Topology, TopologyKind

__all__ = ["MACHINE_VERSION", "CollectiveCurve", "GemmRate", "Latencies", "Machine", "Provenance"]

MACHINE_VERSION: Final = 2
"""Of the form of a machine's file. A file of another version is measured anew."""


class Provenance(enum.Enum):
    """Where the numbers of a machine are from. Whatever shows a prediction says so."""

    MEASURED = "measured"
    """By `syncopate.model.measure`, on that machine."""
    FITTED = "fitted to measured programs"
    DATA_SHEET = "predicted from data sheets"
    """No program of ours has run there."""


@dataclass(frozen=True)
class GemmRate:
    """Time of the tiles of one configuration of a GEMM while all multiprocessors compute.

    Attributes:
        block_m: Rows of an output tile.
        block_n: Its columns.
        block_k: Elements of K in a step.
        dtype: Of the operands, as MLIR spells it.
        step_us: Microseconds for a step of K.
        tile_us: Microseconds that each tile takes besides: filling the pipeline, and the epilogue.
    """

    block_m: int
    block_n: int
    block_k: int
    dtype: str
    step_us: float
    tile_us: float

    def __post_init__(self) -> None:
        for name in ("block_m", "block_n", "block_k"):
            expect_count(f"gemm_rates: {name}", getattr(self, name), 1)
        expect_number("gemm_rates: step_us", self.step_us, above=True)
        expect_number("gemm_rates: tile_us", self.tile_us)


@dataclass(frozen=True)
class Latencies:
    """Microseconds that something takes whatever the size of what is moved or computed.

    Attributes:
        launch: From the start of a call on a free stream to the first tile, and from the last one to the end of the
            call, together; half of it counts at either end.
        call: What a call of a fused program takes besides: ranks do not start at once, and the call is closed.
        staging: Of a copy of the input into the symmetric buffer before the kernel, the guard in front of it included.
        flag_local: From raising a flag to the end of a wait for it, on one rank.
        flag_remote: The same at another rank.
        stream_wait: From raising a word to the next operation of a stream that waits for it.
        engine_op: Of an operation of a stream that moves next to nothing, such as raising a flag.
        engine_start: From the start of a call to the first operation of a copy engine's stream.
        produce: What a tile takes more that others wait for: completing its stores, a barrier, counting.
        hand_over: The same of one that hands its transfer over to the role beside it.
        accumulate: What a tile takes more that adds to what is there, for each MiB of it.
        store_part: What each part of a tile of the last round takes more, for each MiB of float32 that it leaves.
        add_part: What the last one takes more, for each MiB of each part that it adds up.
    """

    launch: float
    call: float
    staging: float
    flag_local: float
    flag_remote: float
    stream_wait: float
    engine_op: float
    engine_start: float
    produce: float
    hand_over: float
    accumulate: float
    store_part: float
    add_part: float

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            expect_number(f"latencies: {name}", value)


@dataclass(frozen=True)
class CollectiveCurve:
    """Time of a collective of NCCL alone.

    Attributes:
        collective: all_gather, reduce_scatter, all_reduce or all_to_all.
        world_size: Number of ranks.
        curve: Time by the bytes of the whole tensor: the gathered one, or the one before the reduction or exchange.
        ctas: Multiprocessors that it may have at most; 0 is any number.
    """

    collective: str
    world_size: int
    curve: Curve
    ctas: int = 0

    def __post_init__(self) -> None:
        expect_count("collectives: world_size", self.world_size, 1)
        expect_count("collectives: ctas", self.ctas)


@dataclass(frozen=True)
class Machine:
    """A machine.

    Attributes:
        name: For tables, with the number of ranks that it was measured with.
        source: Where its numbers are from.
        sms: Streaming multiprocessors of a GPU.
        topology: What connects the ranks: a shape, for any number of them, or the links of one number.
        memory_gbps: GB/s of a copy within a GPU, each byte counted once.
        curves: Of transfers by programs.
        collectives: Of NCCL, whose library calls have them too.
        gemm_rates: Of the local kernel, by configuration.
        latencies: See there.
        idle_gain: By what share a step of K is faster if one multiprocessor computes than if all do: clocks are
            higher, and memory less busy. In between, in proportion.
        row_slowdowns: By how many bytes rows of operands are aligned, and by what the time of a step is multiplied.
        burst_us: After this time of computing without pause the GPU's clocks drop.
        sustained_slowdown: By what times of tiles are multiplied from then on.
        interference: By what share tiles become slower while a realization moves data at the rate of the link.
        block_bytes: Bytes that a co-located role stores between two pauses.
        ring_slots: Tiles that may wait for the role beside them; 0 is without a limit.
    """

    name: str
    source: Provenance
    sms: int
    topology: Topology | Fabric
    memory_gbps: float
    curves: tuple[TransferCurve, ...]
    latencies: Latencies
    gemm_rates: tuple[GemmRate, ...]
    collectives: tuple[CollectiveCurve, ...] = ()
    idle_gain: float = 0.0
    row_slowdowns: tuple[tuple[int, float], ...] = ()
    burst_us: float = float("inf")
    sustained_slowdown: float = 1.0
    interference: Mapping[Realization, float] = field(default_factory=dict)
    block_bytes: int = 2048
    ring_slots: int = 4

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise SyncopateError(f"name: expects a text, but got {self.name!r:.80}")
        expect_count("sms", self.sms, 1)
        expect_count("block_bytes", self.block_bytes, 1)
        expect_count("ring_slots", self.ring_slots)
        expect_number("memory_gbps", self.memory_gbps, above=True)
        expect_number("idle_gain", self.idle_gain, -1.0, above=True)
        expect_number("sustained_slowdown", self.sustained_slowdown, above=True)
        if self.burst_us != math.inf:
            expect_number("burst_us", self.burst_us)
        for aligned, factor in self.row_slowdowns:
            expect_count("row_slowdowns: bytes", aligned, 1)
            expect_number("row_slowdowns: factor", factor, above=True)
        for realization, share in self.interference.items():
            expect_number(f"interference: {realization.spelling}", share)

    @property
    def label(self) -> str:
        """The name, and where the numbers are from: what tables and pictures print."""
        source = self.source.value
        return self.name if source in self.name else f"{self.name}, {source}"

    def find_gemm_rate(
        self, block_m: int, block_n: int, block_k: int, dtype: str = "bf16"
    ) -> GemmRate:
        """The rate of a configuration; of one that was not measured, by that of the measured one next in size.

        The time of a step then is in proportion to its multiplications, and that of a tile to its area. Both say
        nothing of how well a configuration suits the hardware.

        Raises:
            SyncopateError: Nothing was measured with such operands.
        """
        known = [rate for rate in self.gemm_rates if rate.dtype == dtype]
        if not known:
            raise SyncopateError(
                f"machine {self.name}: has no GEMM rate for {dtype}, only for "
                f"{', '.join(sorted({rate.dtype for rate in self.gemm_rates})) or 'none'}"
            )
        area = block_m * block_n

        def distance(rate: GemmRate) -> tuple[bool, float, int]:
            ratio = rate.block_m * rate.block_n / area
            exact = (rate.block_m, rate.block_n) == (block_m, block_n)
            return not exact, max(ratio, 1 / ratio), abs(rate.block_k - block_k)

        near = min(known, key=distance)
        scale = area / (near.block_m * near.block_n)
        step_us = near.step_us * scale * block_k / near.block_k
        return GemmRate(block_m, block_n, block_k, dtype, step_us, near.tile_us * scale)

    def find_collective(self, collective: str, world_size: int, ctas: int = 0) -> Curve:
        """The curve of a collective of NCCL, by the bytes of the whole tensor.

        Of several that were measured for different numbers of multiprocessors it is the one nearest to `ctas`, where 0
        is any number.

        For a number of ranks that was not measured it is a guess: its latency grows with the logarithm of the number,
        and its rate is that of the measured one for what each rank sends over the slower of its links; between nodes
        each rank carries its share of what a node sends.

        Raises:
            SyncopateError: Nothing was measured of it.
        """
        known = [entry for entry in self.collectives if entry.collective == collective]
        if not known:
            raise SyncopateError(
                f"machine {self.name}: has no curve of {collective}, only of "
                f"{', '.join(sorted({entry.collective for entry in self.collectives})) or 'none'}"
            )

        def distance(entry: CollectiveCurve) -> tuple[int, float]:
            ratio = (entry.ctas or self.sms) / (ctas or self.sms)
            return abs(entry.world_size - world_size), abs(math.log(ratio))

        near = min(known, key=distance)
        if near.world_size == world_size:
            return near.curve
        fixed = near.curve.latency_us
        latency = math.log2(world_size) / math.log2(near.world_size)
        longer = self.topology.busy_share(world_size) / self.topology.busy_share(near.world_size)
        return Curve(
            near.curve.nbytes,
            tuple(fixed * latency + (us - fixed) * longer for us in near.curve.us),
        )

    def fabric(self, ranks: int) -> Fabric:
        """The links of so many ranks.

        Raises:
            SyncopateError: It has the links of another number, or cannot have so many.
        """
        if isinstance(self.topology, Fabric):
            if self.topology.ranks != ranks:
                raise SyncopateError(
                    f"machine {self.name}: has the links of {self.topology.ranks} ranks, but got {ranks}"
                )
            return self.topology
        if ranks not in self._fabrics:
            self._fabrics[ranks] = Fabric.of(
                self.topology, ranks, latency_us=self.latencies.flag_remote
            )
        return self._fabrics[ranks]

    @functools.cached_property
    def _fabrics(self) -> dict[int, Fabric]:
        return {}

    def route(self, ranks: int, src: int, dst: int) -> tuple[Wire, ...]:
        """The links that a transfer between two of so many ranks uses; none within a rank."""
        if src == dst:
            return ()
        fabric = self.fabric(ranks)
        return tuple(fabric.wires[wire] for wire in fabric.hop(src, dst).wires)

    def detour_us(self, ranks: int, src: int, dst: int) -> float:
        """What a transfer or a flag from one rank to another takes more than to a near one."""
        if src == dst:
            return 0.0
        fabric = self.fabric(ranks)
        near = self.latencies.flag_remote
        if isinstance(self.topology, Fabric):
            near = fabric.nearest_us
        return fabric.hop(src, dst).latency_us - near

    @functools.cached_property
    def rates(self) -> TransferRates:
        """The curves, to find the rate of a transfer."""
        return TransferRates(self.curves)

    def load_slowdown(self, computing: int) -> float:
        """By what tiles take longer, or less, than `GemmRate` says while so many multiprocessors compute."""
        return 1.0 - self.idle_gain * (1.0 - min(computing / self.sms, 1.0))

    def sustained_us(self, us: float) -> float:
        """What so many microseconds of computing without pause take, as the clocks drop."""
        fast = min(us, self.burst_us)
        return fast + (us - fast) * self.sustained_slowdown

    def row_slowdown(self, row_bytes: int) -> float:
        """By what a step of K takes longer for rows of this many bytes, one behind the other."""
        slowdowns = [factor for aligned, factor in self.row_slowdowns if row_bytes % aligned]
        return max(slowdowns, default=1.0)

    def to_json(self) -> dict[str, Any]:
        """As plain data for a file."""
        data: dict[str, Any] = _plain(self)
        data["interference"] = {
            role.spelling: share for role, share in sorted(self.interference.items())
        }
        return {"version": MACHINE_VERSION, **data}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Machine:
        """Reads what `to_json` gives.

        Raises:
            SyncopateError: It has another version, or is malformed.
        """
        version = data.get("version")
        if version != MACHINE_VERSION:
            raise SyncopateError(
                f"machine: expects a file of version {MACHINE_VERSION}, but got {version!r}; measure it again with "
                "python -m syncopate.model.measure"
            )
        try:
            return _read(data)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise SyncopateError(f"machine: the file is malformed: {error!r}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, Fabric):
        return value.to_json()
    if isinstance(value, Realization):
        return value.spelling
    if isinstance(value, enum.Enum):
        return value.value
    if dataclasses.is_dataclass(value):
        return {item.name: _plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    # JSON has no infinity.
    return None if value == float("inf") else value


def _read(data: Mapping[str, Any]) -> Machine:
    def curve(entry: Mapping[str, Any]) -> Curve:
        return Curve(tuple(map(float, entry["nbytes"])), tuple(map(float, entry["us"])))

    fields = {name: value for name, value in data.items() if name != "version"}
    fields["source"] = Provenance(data["source"])
    topology = data["topology"]
    if "wires" in topology:
        fields["topology"] = Fabric.from_json(topology)
    else:
        fields["topology"] = Topology(**{**topology, "kind": TopologyKind(topology["kind"])})
    fields["curves"] = tuple(
        TransferCurve(
            Realization[entry["realization"].upper()],
            FlowDirection(entry["direction"]),
            Combining(entry["combining"]),
            entry["ctas"],
            curve(entry["curve"]),
        )
        for entry in data["curves"]
    )
    fields["collectives"] = tuple(
        CollectiveCurve(
            entry["collective"],
            entry["world_size"],
            curve(entry["curve"]),
            entry.get("ctas", 0),
        )
        for entry in data["collectives"]
    )
    fields["latencies"] = Latencies(**data["latencies"])
    fields["gemm_rates"] = tuple(GemmRate(**entry) for entry in data["gemm_rates"])
    fields["row_slowdowns"] = tuple((aligned, factor) for aligned, factor in data["row_slowdowns"])
    fields["interference"] = {
        Realization[name.upper()]: float(share) for name, share in data["interference"].items()
    }
    if data["burst_us"] is None:
        fields["burst_us"] = float("inf")
    return Machine(**fields)
