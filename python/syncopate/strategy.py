"""Strategies: the choices that a plan leaves open."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from syncopate.choices import (
    RANGES,
    Algorithm,
    Combine,
    Direction,
    Realization,
    Shots,
    SlotShape,
    TileOrder,
)
from syncopate.errors import SyncopateError

__all__ = ["COMM_CTAS", "Strategy"]

_CHOICES: Final = {
    "algorithm": Algorithm,
    "direction": Direction,
    "realization": Realization,
    "order": TileOrder,
    "slots": SlotShape,
    "between": Realization,
    "combine": Combine,
    "shots": Shots,
    "reducing": Realization,
    "gathering": Realization,
}
_ATTRIBUTE_CTAS: Final = 8

_OPTIONAL: Final = ("between", "combine", "shots", "reducing", "gathering")

COMM_CTAS: Final[Mapping[tuple[Realization, Direction], int]] = {
    (Realization.TMA_DEDICATED, Direction.PUSH): 4,
    (Realization.TMA_DEDICATED, Direction.PULL): 4,
    (Realization.LDST_DEDICATED, Direction.PUSH): 8,
    (Realization.LDST_DEDICATED, Direction.PULL): 16,
    (Realization.NCCL, Direction.PUSH): 16,
    (Realization.NCCL, Direction.PULL): 16,
}
"""Multiprocessors that realizations take which do not move data beside tiles, where a strategy leaves it to them: the
fastest of 2, 4, 8, 16 and 32 for the GEMM and reduce-scatter of docs/results/sensitivity-w2-h200.md, on two H200."""


@dataclass(frozen=True)
class Strategy:
    """The choices for one plan. A collective or a transfer that names its own keeps it.

    Passes make the first ones. Those from `combine` on, and the direction, decide which transfers a sum of
    `syncopate.plan.templates` has, so templates take the strategy too.

    Attributes:
        algorithm: How collectives are decomposed.
        direction: Who carries their transfers out.
        realization: How transfers are carried out.
        splits: Pieces that each transfer is cut into; 0 chooses by its size: pieces of 8 MiB and 512 rows or more, at
            most four.
        order: The order of tiles.
        group_m: Rows of tiles that stay together in the order: within them it goes column by column, so that the tiles
            in flight share rows and columns in L2. It alone counts in a fused kernel, whose tiles come from tables; the
            `group_m` of a `GemmConfig` orders a kernel that runs alone.
        pause: Nanoseconds that a co-located role rests after each block that it stores to another rank. Stores that
            the link cannot take at once hold up the loads of the computing warps, so spreading them over the time
            that there is makes both faster. At most 1,000,000.
        comm_ctas: CTAs that carry out transfers of dedicated realizations, and compute nothing; a launch has them
            beside those that compute, if there are such transfers. At most 65,536. With realization nccl,
            multiprocessors that are left to the library. 0 chooses by the realizations, as `COMM_CTAS` says.
        waves: How many waves of tiles, of as many tiles as CTAs compute, go into each library call, the last number for
            all further calls. Without any, there are at most eight calls of as many waves each.
        slots: What library calls take at a time: rows or tiles.
        between: How transfers between nodes are carried out, which are ranks that differ in another than the last
            dimension of the mesh; `realization` if it is left out. Only nccl reaches nodes that do not share memory.
        combine: Who adds the parts of a sum. If it is left out, its tiles do, or a role in one shot, which takes no
            other choice; with realization nccl, it is `Combine.COLLECTIVE`.
        shots: In how many steps the parts of an all-reduce come to all ranks; chosen by its size if it is left out, and
            two if `combine` is given.
        reducing: How transfers are carried out that add parts within a rank; `realization` if it is left out and can
            do so, else loads and stores.
        gathering: How transfers of the second shot are carried out; `realization` if it is left out.

    The enums may be given by their values, as strings.
    """

    algorithm: Algorithm | str = Algorithm.DIRECT
    direction: Direction | str = Direction.PUSH
    realization: Realization | str = Realization.LDST_COLOCATED
    splits: int = 0
    order: TileOrder | str = TileOrder.ARRIVAL
    group_m: int = 8
    pause: int = 500
    comm_ctas: int = 0
    waves: tuple[int, ...] = ()
    slots: SlotShape | str = SlotShape.ROWS
    between: Realization | str | None = None
    combine: Combine | str | None = None
    shots: Shots | str | None = None
    reducing: Realization | str | None = None
    gathering: Realization | str | None = None

    def __post_init__(self) -> None:
        for name, kind in _CHOICES.items():
            if name in _OPTIONAL and getattr(self, name) is None:
                continue
            try:
                object.__setattr__(self, name, kind(getattr(self, name)))
            except (TypeError, ValueError):
                known = ", ".join(member.value for member in kind)
                raise SyncopateError(
                    f"{name}: expects one of {known}, but got {getattr(self, name)!r}"
                ) from None
        for name, allowed in RANGES.items():
            value = getattr(self, name)
            if type(value) is not int or value not in allowed:
                raise SyncopateError(
                    f"{name}: expects an integer in [{allowed[0]}, {allowed[-1]}], but got {value!r}"
                )
        if not isinstance(self.waves, tuple) or not all(
            type(count) is int and 0 < count < 2**62 for count in self.waves
        ):
            raise SyncopateError(
                f"waves: expects a tuple of positive integers, but got {self.waves!r}"
            )

    @property
    def structure(self) -> tuple[Any, ...]:
        """The choices that templates make."""
        combine = Combine.COLLECTIVE if self.leaves_collective else self.combine
        levels = self.between is not None
        return (self.direction, combine, self.shots, self.reducing, self.gathering, levels)

    @property
    def leaves_collective(self) -> bool:
        """Whether templates leave the collective of a sum itself in the plan."""
        if self.combine is None:
            return self.realization is Realization.NCCL
        return self.combine is Combine.COLLECTIVE

    def count_dedicated(self, named: Iterable[Realization | str] = ()) -> int:
        """CTAs that compute nothing, if some transfers have a dedicated realization; else 0.

        Several dedicated realizations of one plan divide a given number among them, and else each brings its own:
        others than that of this strategy as many as if they pushed.

        Args:
            named: Realizations that transfers have, besides that of this strategy.
        """
        used = self._used(named) & {Realization.TMA_DEDICATED, Realization.LDST_DEDICATED}
        return self.comm_ctas if used and self.comm_ctas else self._count(used)

    def count_library(self, named: Iterable[Realization | str] = ()) -> int:
        """Multiprocessors that are left to a library, if some transfers or collectives are its; else 0.

        Args:
            named: As for `count_dedicated`.
        """
        used = self._used(named) & {Realization.NCCL}
        return self.comm_ctas if used and self.comm_ctas else self._count(used)

    def _used(self, named: Iterable[Realization | str]) -> set[Realization]:
        return {Realization(self.realization), *map(Realization, named)}

    def _count(self, used: Iterable[Realization]) -> int:
        own = Direction(self.direction)
        return sum(
            COMM_CTAS[kind, own if kind is self.realization else Direction.PUSH] for kind in used
        )

    @property
    def attribute(self) -> str:
        """The choices that passes make, as `#chunk.strategy`."""
        # Where nothing is dedicated the number means nothing, and is that of an attribute which has none.
        ctas = self.comm_ctas or self.count_dedicated() or _ATTRIBUTE_CTAS
        between = "" if self.between is None else f", between = {_value(self.between)}"
        waves = f", waves = [{', '.join(map(str, self.waves))}]" if self.waves else ""
        return (
            f"#chunk.strategy<algorithm = {_value(self.algorithm)}, direction = {_value(self.direction)}, "
            f"splits = {self.splits}, realization = {_value(self.realization)}, order = {_value(self.order)}, "
            f"group_m = {self.group_m}, pause = {self.pause}, comm_ctas = {ctas}{waves}, "
            f"slots = {_value(self.slots)}{between}>"
        )


def _value(member: enum.Enum | str) -> str:
    return member if isinstance(member, str) else str(member.value)
