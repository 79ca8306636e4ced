"""Programs whose tiles compute parts of a sum run on the simulator: sound, and right, whatever the interleaving."""

import numpy as np
import pytest
from fused_edits import change, constant, drop, kernel
from sim_sums import SUMS, Collective, SumCase
from sim_table import options_of

from syncopate.compiler.strategy import Direction, Realization
from syncopate.plan.templates import Combine
from syncopate.sim.simulate import simulate

SEEDS = (0, 1, 3)
"""A sample: two policies, and signals that wrap around."""


@pytest.mark.parametrize("case", SUMS, ids=lambda case: case.name)
def test_program_is_sound_and_right(case):
    for seed in SEEDS:
        options = options_of(seed)
        result = simulate(case.build(), **options)
        assert result.verdict.ok, result.verdict
        assert len(result.outputs) == options["calls"]
        error = case.error(result)
        assert np.isfinite(error), f"seed {seed}"
        assert error < case.tolerance, f"seed {seed}: {error}"


ADDING = SumCase(Collective.ALL_REDUCE, Combine.TILES, Direction.PUSH, Realization.LDST_COLOCATED)
RELAXED = 1
"""Triton's number of that memory order."""


def _adding_branches(fused):
    """The branches in which tiles add to what is there."""
    return [op.operation.parent for op in fused.find(r"ttng\.async_tma_reduce")]


def _add_without_waiting(fused):
    """The flags that an adding tile waits for are not looked at."""
    for branch in _adding_branches(fused):
        for op in branch.regions[0].blocks[0].operations:
            if op.operation.name == "scf.if":
                op.operation.operands[0] = constant(False, "i1", op.operation)


def _never_add(fused):
    """Tiles overwrite what has arrived."""
    for branch in _adding_branches(fused):
        branch.operands[0] = constant(False, "i1", branch)


FAULTS = {
    "stores are not complete": drop(
        r"tt\.elementwise_inline_asm", "finish_tile", innermost="wait_for_tma_stores"
    ),
    "the count releases nothing": change(
        r"tt\.atomic_rmw", "sem", RELAXED, innermost="finish_tile"
    ),
    "added without a wait": _add_without_waiting,
    "never added": _never_add,
}
"""Edits of the code that the passes put at a tile's stores."""


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_fault_at_the_stores_of_tiles_is_found(fault):
    broken = kernel(fault)(ADDING.build())
    findings, wrong = [], False
    for seed in range(6):
        result = simulate(broken, **options_of(seed))
        findings += result.verdict.findings
        wrong = wrong or ADDING.error(result) > ADDING.tolerance
    assert findings or wrong
