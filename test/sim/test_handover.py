"""Tiles hand what they compute over to the warps beside them: sound, and right, whatever the interleaving."""

import numpy as np
import pytest
from faults_tables import TABLE_FAULTS
from sim_handover import DEDICATED, HANDOVERS, LDST, ONE_CTA, HandoverCase
from sim_table import options_of

from syncopate.runtime.handover import ring_role
from syncopate.sim.findings import Kind
from syncopate.sim.simulate import simulate

SEEDS = (0, 1, 2, 3)
NAMED = {fault.name: fault for fault in TABLE_FAULTS}


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


def test_call_that_is_given_up_ends():
    """Tiles that wait in vain are handed over all the same, and the role takes them: nobody waits for ever."""
    good = HandoverCase(LDST, shape=(192, 192, 64), config=ONE_CTA, gathering=DEDICATED).build()
    broken = NAMED["a rank raises nothing"].apply(good)
    for seed in range(6):
        verdict = simulate(broken, seed=seed, timeouts=True).verdict
        kinds = {finding.kind for finding in verdict.findings}
        assert Kind.TIMEOUT in kinds
        assert Kind.DEADLOCK not in kinds, verdict
