"""GEMMs that split the tiles of their last round over K run on the simulator: sound, right, and the same every time."""

import numpy as np
import pytest
from sim_last_round import LAST_ROUNDS, split
from sim_table import options_of

from syncopate.sim.simulate import simulate

SEEDS = (0, 1, 3)


@pytest.mark.parametrize("case", LAST_ROUNDS.values(), ids=LAST_ROUNDS)
def test_program_is_sound_and_right(case):
    program = case.build()
    assert all(split(program).values())
    for seed in SEEDS:
        options = options_of(seed)
        result = simulate(program, **options)
        assert result.verdict.ok, result.verdict
        assert len(result.outputs) == options["calls"]
        for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
            error = case.error(inputs, outputs)
            assert error < case.tolerance, f"seed {seed}: {error}"
