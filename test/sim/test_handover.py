"""Tiles hand what they compute over to the warps beside them: sound, and right, whatever the interleaving."""

import numpy as np
import pytest
from sim_handover import HANDOVERS
from sim_table import options_of

from syncopate.runtime.handover import ring_role
from syncopate.sim.simulate import simulate

SEEDS = (0, 1, 2, 3)


@pytest.mark.parametrize("case", HANDOVERS, ids=lambda case: case.name)
def test_program_is_sound_and_right(case):
    program = case.build()
    assert ring_role(program.rank_tables(0)).spelling == case.realization.value
    for seed in SEEDS:
        options = options_of(seed)
        result = simulate(program, **options)
        assert result.verdict.ok, result.verdict
        assert len(result.outputs) == options["calls"]
        error = case.error(result)
        assert np.isfinite(error), f"seed {seed}"
        assert error < case.tolerance, f"seed {seed}: {error}"
