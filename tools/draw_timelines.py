"""Draws the pictures of docs/profiling.md again, by `python tools/draw_timelines.py [FOLDER]`.

Needs Chromium, and no GPU: one call is predicted, and one simulated.
"""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from syncopate import GemmWorkload, Strategy
from syncopate.kernels import GemmConfig
from syncopate.model import find_preset, predict
from syncopate.profile import Run, predicted_run
from syncopate.show.screenshot import take_picture
from syncopate.show.viewer import draw_runs

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"


def predicted() -> list[Run]:
    """AG-GEMM whose tiles wait for data, which come in few pieces or in more."""
    machine, config = find_preset("h200-w2"), GemmConfig()
    workload = GemmWorkload("ag_gemm", m=8192, n=1024, k=4096, world_size=2)
    runs = []
    for splits in (2, 8):
        strategy = Strategy(realization="ldst_colocated", splits=splits)
        schedule = workload.schedule(strategy, config)
        runs.append(
            predicted_run(schedule, predict(schedule, workload.cost(config, machine), machine))
        )
    return runs


def simulated() -> list[Run]:
    """GEMM-RS of a few tiles: what roles leave, in the steps of the simulator."""
    workload = GemmWorkload("gemm_rs", m=768, n=128, k=128, world_size=2)
    config = GemmConfig(block_m=64, block_n=64, block_k=32, num_warps=4, num_ctas=4)
    strategy = Strategy(realization="ldst_dedicated", splits=3, comm_ctas=2)
    program = workload.compile(strategy, config=config, profile=True, machine_code=False)
    profile = program.simulate(calls=2, seed=5).profile
    assert profile is not None
    return [profile.run]


def main(arguments: Sequence[str]) -> None:
    """Writes both pictures."""
    folder = Path(arguments[0]) if arguments else FOLDER
    for name, runs, size in (
        ("timeline-predicted", predicted(), (1280, 1780)),
        ("timeline-simulated", simulated(), (1280, 1000)),
    ):
        with tempfile.TemporaryDirectory() as scratch:
            page = Path(scratch) / "page.html"
            page.write_text(draw_runs(runs), encoding="utf-8")
            picture = folder / f"{name}.png"
            take_picture(page, picture, size=size)
            print(picture)


if __name__ == "__main__":
    main(sys.argv[1:])
