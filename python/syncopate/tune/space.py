"""What there is to choose between: candidates, and the axes along which they differ, as data."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from syncopate.choices import (
    Algorithm,
    Combine,
    Direction,
    Realization,
    Shots,
    SlotShape,
    TileOrder,
)
from syncopate.errors import SyncopateError
from syncopate.strategy import Strategy
from syncopate.strategy_names import name_strategy

if TYPE_CHECKING:
    from syncopate.kernels import GemmConfig
    from syncopate.workloads import GemmWorkload

__all__ = ["TILES", "Axis", "Candidate", "Space", "choose_diverse", "gemm_space", "plan_space"]

TILES: Final = "tiles"
"""The axis that is no choice of a strategy: how a GEMM is cut into tiles, and compiled."""


@dataclass(frozen=True)
class Candidate:
    """One way to run something.

    Attributes:
        strategy: The choices of the plan.
        config: The tiles of a GEMM; None where the kernel is the caller's.
    """

    strategy: Strategy
    config: GemmConfig | None = None

    @property
    def name(self) -> str:
        """For tables and messages."""
        name = name_strategy(self.strategy)
        if self.config is None:
            return name
        one = self.config
        return (
            f"{name} on {one.block_m}x{one.block_n}x{one.block_k}, {one.num_warps} warps, "
            f"{one.num_stages} stages"
        )

    def to_json(self) -> dict[str, Any]:
        """As plain data for a file."""
        data = {"strategy": _plain(self.strategy)}
        if self.config is not None:
            data["config"] = _plain(self.config)
        return data

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Candidate:
        """Reads what `to_json` gives.

        Raises:
            SyncopateError: It is malformed.
        """
        from syncopate.kernels import GemmConfig

        try:
            choices = dict(data["strategy"])
            choices["waves"] = tuple(choices.get("waves", ()))
            config = data.get("config")
            return Candidate(Strategy(**choices), None if config is None else GemmConfig(**config))
        except (KeyError, TypeError, ValueError) as error:
            raise SyncopateError(f"candidate: malformed: {error!r}") from error

    @property
    def tiles(self) -> GemmConfig:
        """The tiles of a GEMM.

        Raises:
            SyncopateError: The kernel is the caller's, with tiles of its own.
        """
        if self.config is None:
            raise SyncopateError(f"candidate {self.name}: has no tiles of a GEMM")
        return self.config

    def having(self, **choices: Any) -> Candidate:
        """The candidate with other values on some axes: choices of the strategy, and `tiles`."""
        config = choices.pop(TILES, self.config)
        return Candidate(dataclasses.replace(self.strategy, **choices), config)

    def value(self, axis: str) -> Any:
        """Where it lies on an axis."""
        return self.config if axis == TILES else getattr(self.strategy, axis)


def _plain(choices: Any) -> dict[str, Any]:
    """What is not as by default, so that files last when choices are added."""
    data: dict[str, Any] = {}
    for item in dataclasses.fields(choices):
        value = getattr(choices, item.name)
        if value != item.default:
            data[item.name] = value.value if isinstance(value, enum.Enum) else value
    return data


@dataclass(frozen=True)
class Axis:
    """A choice, or several that are made together.

    Attributes:
        names: The choices: fields of `Strategy`, or `tiles`.
        values: For each point of the axis, the value of each choice.
        given: What other choices have to be for this one to mean anything, by name: the values with which it does.
        modelled: Whether the cost model can say which is better. Where it cannot, here or for single points, only
            measurement looks at it.
    """

    names: tuple[str, ...]
    values: tuple[tuple[Any, ...], ...]
    given: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    modelled: bool = True

    def applies(self, candidate: Candidate) -> bool:
        """Whether it means anything for a candidate."""
        return all(candidate.value(name) in values for name, values in self.given.items())

    def moves(self, candidate: Candidate) -> Iterator[Candidate]:
        """The candidates that differ from one on this axis alone, in order."""
        if self.applies(candidate):
            for point in self.values:
                moved = candidate.having(**dict(zip(self.names, point, strict=True)))
                if moved != candidate:
                    yield moved


@dataclass(frozen=True)
class Space:
    """All candidates of something: a start, and axes, in the order in which they are searched.

    It holds what there is to choose, not what is legal: the compiler's checks leave out what a workload or a target
    lacks.

    Attributes:
        default: Where every search starts; also what nothing that is chosen may be slower than.
        axes: The axes.
    """

    default: Candidate
    axes: tuple[Axis, ...]

    @property
    def size(self) -> int:
        """How many candidates there are, those that the compiler refuses included."""
        return _count(list(self.axes), {})

    def describe(self) -> str:
        """The axes in words, a line each."""
        lines = [f"default: {self.default.name}", f"candidates: {self.size:,}"]
        for axis in self.axes:
            points = [", ".join(map(_spell, point)) for point in axis.values]
            given = "".join(
                f"; with {name} {'|'.join(map(_spell, values))}"
                for name, values in axis.given.items()
            )
            how = "" if axis.modelled else "; by measurement alone"
            lines.append(f"{' and '.join(axis.names)}: {' | '.join(points)}{given}{how}")
        return "\n".join(lines)


def _spell(value: Any) -> str:
    if dataclasses.is_dataclass(value):
        value = Candidate(Strategy(), value).name.rpartition(" on ")[2]  # type: ignore[arg-type]
    if isinstance(value, tuple):
        value = "+".join(map(str, value)) or "default"
    return str(getattr(value, "value", value))


def _count(axes: list[Axis], chosen: dict[str, Any]) -> int:
    """Counts axis by axis: those that nothing depends on by multiplying."""
    if not axes:
        return 1
    axis, *rest = axes
    if not all(chosen.get(name) in values for name, values in axis.given.items()):
        return _count(rest, chosen)
    if not any(name in other.given for other in rest for name in axis.names):
        return len(axis.values) * _count(rest, chosen)
    return sum(
        _count(rest, {**chosen, **dict(zip(axis.names, point, strict=True))})
        for point in axis.values
    )


_DEDICATED: Final = (Realization.TMA_DEDICATED, Realization.LDST_DEDICATED)
_COLOCATED: Final = (Realization.TMA_COLOCATED, Realization.LDST_COLOCATED)
_CALLS: Final = (Realization.NCCL,)
_MOVED: Final = tuple(kind for kind in Realization if kind is not Realization.NCCL)


def plan_space(default: Candidate) -> Space:
    """The choices that passes make, whatever the plan and the kernel."""
    # By nccl its collectives become calls, or sends and receives, so all choices may mean something.
    return Space(default, (_movers(default), *_piece_axes({}), *_call_axes(), *_pass_axes()))


def gemm_space(workload: GemmWorkload, default: Candidate, *, unordered: bool = False) -> Space:
    """The choices for a GEMM with what moves before or after it.

    Args:
        workload: The workload.
        default: Where to start, with tiles.
        unordered: Whether results of a sum may differ from call to call.
    """
    from syncopate.workloads import GemmKind

    kind = GemmKind(workload.kind)
    # Before the GEMM, nccl sends and receives pieces; after it, it is called for what tiles have computed.
    moved = {} if kind.is_before else {"realization": _MOVED}
    axes = [_movers(default)]
    if workload.node_size not in (None, workload.world_size):
        axes.append(_levels(default))
    if kind.sums:
        who = [(None,), (Combine.ROLE,), *([(Combine.DESTINATION,)] if unordered else [])]
        axes.append(Axis(("combine",), tuple(who), moved))
    if kind is GemmKind.GEMM_AR:
        axes.append(Axis(("shots",), ((None,), (Shots.ONE,), (Shots.TWO,)), moved))
    axes.append(Axis((TILES,), tuple((config,) for config in _tiles(default))))
    axes += _piece_axes(moved)
    if not kind.is_before:
        axes += _call_axes()
    axes += _pass_axes()
    if kind.sums:
        kinds = ((None,), *((kind,) for kind in _MOVED))
        axes.append(Axis(("reducing",), kinds, moved))
        if kind is GemmKind.GEMM_AR:
            axes.append(Axis(("gathering",), kinds, moved))
    return Space(default, tuple(axes))


def _movers(default: Candidate) -> Axis:
    """Who moves data, and which side: together, since what is best of one depends on the other."""
    points = [(kind, direction) for kind in _MOVED for direction in Direction]
    start = (default.strategy.realization, default.strategy.direction)
    points.sort(key=lambda point: point != start)
    calls = (Realization.NCCL, default.strategy.direction)
    return Axis(("realization", "direction"), (*points, calls))


def _levels(default: Candidate) -> Axis:
    """How what goes between nodes is moved, and by which way: together, since both follow from the wire."""
    start = (default.strategy.between, default.strategy.algorithm)
    ways: list[tuple[Any, Any]] = [(None, Algorithm.DIRECT)]
    ways += [(Realization.NCCL, way) for way in (Algorithm.DIRECT, Algorithm.HIERARCHICAL)]
    ways.sort(key=lambda way: way != start)
    return Axis(("between", "algorithm"), tuple(ways))


def _piece_axes(given: Mapping[str, tuple[Any, ...]]) -> list[Axis]:
    """How a transfer is cut, and which way it goes."""
    return [
        Axis(("splits",), ((0,), (1,), (2,), (4,), (8,)), given),
        Axis(("algorithm",), tuple((algorithm,) for algorithm in Algorithm), given),
    ]


def _call_axes() -> list[Axis]:
    """What a library call takes."""
    return [
        Axis(("waves",), (((),), ((1,),), ((2,),), ((1, 2),), ((4,),)), {"realization": _CALLS}),
        Axis(("slots",), tuple((shape,) for shape in SlotShape), {"realization": _CALLS}),
    ]


def _pass_axes() -> list[Axis]:
    ctas = ((0,), (4,), (8,), (16,), (24,))
    return [
        Axis(("comm_ctas",), ctas, {"realization": (*_DEDICATED, *_CALLS)}),
        Axis(("order",), tuple((order,) for order in TileOrder if order is not TileOrder.GIVEN)),
        Axis(("pause",), ((0,), (250,), (500,), (1000,)), {"realization": _COLOCATED}),
        # To the model, tiles take the same wherever they are in the order: it has no caches.
        Axis(("group_m",), ((4,), (8,), (16,)), modelled=False),
    ]


def _tiles(default: Candidate) -> list[GemmConfig]:
    """Tiles that machines are measured with, and others, of which the model may know nothing."""
    from syncopate.kernels import GemmConfig

    large, narrow, small = GemmConfig.usual()
    configs = [
        large,
        narrow,
        small,
        GemmConfig(block_m=256, block_n=128),
        dataclasses.replace(narrow, num_warps=8),
        dataclasses.replace(narrow, num_stages=5),
        GemmConfig(block_k=128, num_stages=2),
    ]
    start = default.config
    return configs if start is None or start in configs else [start, *configs]


def choose_diverse(ranked: list[tuple[float, Candidate]], most: int) -> list[Candidate]:
    """The first candidates, of which at most half have one realization, so that an error of a curve costs no more.

    Args:
        ranked: Candidates with their predicted times, best first.
        most: How many to choose.
    """
    limit, counts, chosen = max(math.ceil(most / 2), 1), dict[Any, int](), list[Candidate]()
    for _, candidate in ranked:
        kind = candidate.strategy.realization
        if len(chosen) < most and counts.get(kind, 0) < limit:
            counts[kind] = counts.get(kind, 0) + 1
            chosen.append(candidate)
    return chosen
