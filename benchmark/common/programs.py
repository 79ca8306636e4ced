"""The ways to run a workload that suites compare, and what GPU tests need to know of its programs."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from syncopate import Strategy
from syncopate.choices import Combine, Direction, Realization, names_of
from syncopate.runtime.interface import TensorParam
from syncopate.strategy_names import read_strategy_name
from syncopate.tune import Candidate
from syncopate.workloads import GemmKind

NCCL = Realization.NCCL.value
REALIZATIONS = tuple(name for name in names_of(Realization)[::-1] if name != NCCL)

AUTO = "auto: "
"""In front of the name of what a tuner has chosen."""

_ZERO_COPY = "/zero-copy"


@dataclass(frozen=True)
class Way:
    """One way to run a workload.

    Attributes:
        candidate: The choices; with tiles if a tuner has chosen them together with the strategy.
        zero_copy: The input is written into the symmetric buffer by whoever makes it.
    """

    candidate: Candidate
    zero_copy: bool = False

    @property
    def strategy(self) -> Strategy:
        """The choices of the plan."""
        return self.candidate.strategy

    @property
    def name(self) -> str:
        """For tables and messages."""
        tuned = "" if self.candidate.config is None else AUTO
        return tuned + self.candidate.name + (_ZERO_COPY if self.zero_copy else "")


def read_way(name: str) -> Way:
    """The way that has this name, if no tuner has chosen it."""
    strategy = read_strategy_name(name.removesuffix(_ZERO_COPY))
    return Way(Candidate(strategy), name.endswith(_ZERO_COPY))


def strategies(
    kind: GemmKind,
    realizations: Sequence[str],
    splits: Sequence[int],
    comm_ctas: Sequence[int],
    pauses: Sequence[int],
    waves: Sequence[tuple[int, ...]] = ((),),
    slots: Sequence[str] = ("rows", "tiles"),
    base: Strategy | None = None,
) -> list[Strategy]:
    """Every strategy that a suite compares: what is asked for, and who adds, with all else as in `base`."""
    base = base or Strategy()
    found = []
    if NCCL in realizations and kind.is_before:
        found = [
            dataclasses.replace(base, realization=NCCL, comm_ctas=ctas, splits=pieces)
            for ctas, pieces in itertools.product(comm_ctas, splits)
        ]
    elif NCCL in realizations:
        found = [
            dataclasses.replace(base, realization=NCCL, comm_ctas=ctas, waves=groups, slots=shape)
            for ctas, groups, shape in itertools.product(comm_ctas, waves, slots)
        ]
    for name, direction, pieces, pause in itertools.product(
        [name for name in realizations if name != NCCL], Direction, splits, pauses
    ):
        way = dataclasses.replace(
            base, realization=name, direction=direction, splits=pieces, pause=pause
        )
        counts = comm_ctas if name.endswith("_dedicated") else [base.comm_ctas]
        these = [dataclasses.replace(way, comm_ctas=count) for count in counts]
        found += these
        if kind.sums and name != "copy_engine" and direction is Direction.PUSH:
            found += [dataclasses.replace(one, combine=Combine.DESTINATION) for one in these]
        if kind.sums and name == "ldst_colocated" and direction is Direction.PULL:
            found.append(dataclasses.replace(way, combine=Combine.ROLE))
    return found


def tensor_names(program: Any) -> tuple[str, str, str]:
    """The keywords of a built all-gather program's gathered input, its weight and its output."""
    tensors = [param for param in program.params if isinstance(param, TensorParam)]
    output = next(param.tensor for param in tensors if param.output)
    weight = next(param.tensor for param in tensors if not param.output)
    return program.buffers[0].name, weight, output
