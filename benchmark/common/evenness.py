"""How evenly an order of tiles computes what each peer gets: bytes ready over time, from tables on a machine."""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmark.common.bench import facts

from syncopate import GemmWorkload, tune
from syncopate.model import Machine, find_readiness, predict

__all__ = ["SAMPLES", "measure_evenness"]

SAMPLES = 33
"""Points of time, from the first tile's begin to the last one's end, at which bytes are noted."""


def measure_evenness(
    workload: GemmWorkload, trial: tune.Candidate, machine: Machine
) -> dict[str, Any]:
    """What is ready for the peers of the rank that computes them least evenly, and the predicted time of the call.

    Args:
        workload: For any number of ranks.
        trial: Its order is looked at.
        machine: On whose timeline.

    Returns:
        As plain data: the rank, its `spread` and `unsteadiness` (see `syncopate.model.Readiness`), the time of the
        call, and for each peer the bytes that are ready at `SAMPLES` points of time.

    Raises:
        SyncopateError: As for `GemmWorkload.predict` and `find_readiness`.
    """
    packed = workload.packed()
    schedule = packed.schedule(trial.strategy, trial.tiles)
    timeline = predict(schedule, packed.cost(trial.tiles, machine), machine)
    found = find_readiness(schedule, timeline)
    worst = max(found, key=lambda one: (one.spread, one.unsteadiness))
    at = np.linspace(worst.begin_us, worst.end_us, SAMPLES)
    # How many tiles are stored by then.
    stored = np.searchsorted(worst.times, at, side="right")
    ready = np.concatenate([np.zeros((len(worst.peers), 1), np.int64), worst.nbytes], axis=1)
    return {
        "ranks": workload.world_size,
        "machine": timeline.machine,
        "order": facts(trial)["order"],
        "rank": worst.rank,
        "spread": worst.spread,
        "unsteadiness": worst.unsteadiness,
        "predicted_us": timeline.us,
        "times_us": at.tolist(),
        "ready_bytes": {str(peer): ready[i, stored].tolist() for i, peer in enumerate(worst.peers)},
    }
