"""Programs that exchange blocks run on the simulator: sound, and right, whatever the interleaving."""

import numpy as np
import pytest
from sim_exchanges import EXCHANGES
from sim_table import options_of

from syncopate.sim.simulate import simulate

SEEDS = (0, 3)
"""A sample: two policies, and signals that wrap around."""


@pytest.mark.parametrize("case", EXCHANGES, ids=lambda case: case.name)
def test_program_is_sound_and_right(case):
    for seed in SEEDS:
        options = options_of(seed)
        result = simulate(case.build(), **options)
        assert result.verdict.ok, result.verdict
        assert len(result.outputs) == options["calls"]
        error = case.error(result)
        assert np.isfinite(error), f"seed {seed}"
        assert error < 2e-2, f"seed {seed}: {error}"
