"""What a fault of the corpus is, and how it is looked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fused_edits import Edit, kernel
from sim_features import any_
from sim_table import (
    DEDICATED,
    ENGINE,
    LDST,
    ONE_CTA,
    PULL,
    PUSH,
    RING_PULL,
    RING_PUSH,
    THREE_CTAS,
    TMA_COLOCATED,
    TMA_DEDICATED,
    Case,
    Workload,
    options_of,
)

from syncopate.choices import TileOrder
from syncopate.sim.findings import Finding, Kind
from syncopate.sim.simulate import simulate

__all__ = ["FORMS", "SEEDS", "Fault", "find", "kernel_fault"]


@dataclass(frozen=True)
class Fault:
    """One way to break a good program.

    Attributes:
        name: A few words.
        broken: One sentence that says what is wrong.
        apply: Makes the broken program of a good one.
        found: Kinds of finding that count.
        wrong_results: Whether a run without findings whose results are wrong counts as well: data of this call that
            come from the wrong place.
        on: Whether a program has what the fault breaks; the fault has to be found in every one of FORMS that has.
        check: The pass that refuses it, if it can be seen without running: no pass looks at a fused kernel.
        diagnostic: What must be in that pass's error.
        among: The programs that it may be a fault of; FORMS if there are none.
    """

    name: str
    broken: str
    apply: Callable[[Any], Any]
    found: frozenset[Kind]
    on: Callable[[Any], bool]
    wrong_results: bool = False
    check: str = ""
    diagnostic: str = ""
    among: tuple[Any, ...] = ()

    def is_found(self, case: Any) -> bool:
        """Whether a broken program is told from a good one."""
        broken = self.apply(case.build())
        if find(broken, self.found) is not None:
            return True
        if not self.wrong_results:
            return False
        return not case.error(simulate(broken, **options_of(0))) <= case.tolerance

    @property
    def forms(self) -> tuple[Any, ...]:
        """The programs in which it has to be found."""
        return tuple(case for case in self.among or FORMS if self.on(case))


def kernel_fault(
    name: str,
    broken: str,
    found: set[Kind],
    edit: Edit,
    on: Callable[[Case], bool] = any_,
) -> Fault:
    """A fault of the kernel."""
    return Fault(name, broken, kernel(edit), frozenset(found), on)


FORMS: tuple[Case, ...] = (
    Case(shape=(192, 64, 192), order=TileOrder.GROUPED),
    Case(algorithm=RING_PULL, world=3, shape=(192, 64, 192), order=TileOrder.GROUPED),
    Case(algorithm=RING_PUSH, world=3, shape=(192, 128, 128), config=ONE_CTA),
    Case(algorithm=PULL, world=3, shape=(192, 128, 128), config=THREE_CTAS),
    Case(world=4, shape=(120, 104, 136), splits=2),
    Case(realization=TMA_COLOCATED, shape=(384, 64, 256)),
    Case(realization=TMA_DEDICATED, algorithm=RING_PUSH, world=3, shape=(200, 104, 136), splits=2),
    Case(
        realization=ENGINE,
        algorithm=RING_PULL,
        world=3,
        shape=(192, 64, 192),
        order=TileOrder.GROUPED,
    ),
    Case(realization=ENGINE, world=4, shape=(120, 104, 136), splits=2),
    Case(Workload.AG_GEMM_POINTERS, LDST, RING_PULL, world=3, shape=(130, 70, 51), splits=2),
    Case(Workload.AG_GEMM_POINTERS, ENGINE, PULL, world=3, shape=(130, 70, 51)),
    Case(Workload.AG_GEMM_POINTERS, ENGINE, PUSH, shape=(128, 64, 128), target="sm_80"),
    Case(Workload.AG_ATTENTION, LDST, PUSH),
    Case(realization=DEDICATED, algorithm=PULL, world=3, shape=(192, 128, 128), config=THREE_CTAS),
    Case(Workload.AG_GEMM_POINTERS, DEDICATED, RING_PULL, world=3, shape=(130, 70, 51), splits=2),
)
"""Programs that are broken: each of the table's kinds of kernel and of transfer, few enough for every fault."""

SEEDS = range(10)
"""Seeds with which a fault is looked for."""


def find(program: Any, kinds: frozenset[Kind] | set[Kind]) -> Finding | None:
    """The first finding of one of the kinds within a few runs, of the sort that a good program is checked with."""
    for seed in SEEDS:
        for finding in simulate(program, **options_of(seed)).verdict.findings:
            if finding.kind in kinds:
                return finding
    return None
