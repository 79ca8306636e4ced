"""The cost model in place of GPUs, so that a study can be tried without any. Every time is a prediction."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from benchmark.common.bench import Alone, Bench, Measured, never

from syncopate import GemmWorkload, tune
from syncopate.dtypes import DTYPES
from syncopate.errors import SyncopateError
from syncopate.model import Curve, Machine, predict_gemm_us
from syncopate.workloads import GemmKind

__all__ = ["DryBench", "moved_bytes", "received_bytes", "tile_bytes"]


class DryBench(Bench):
    """A workload on a machine that the model knows."""

    def __init__(self, workload: GemmWorkload, machine: Machine) -> None:
        super().__init__(workload)
        self.machine = machine

    @property
    def sms(self) -> int:
        """Those of the machine."""
        return self.machine.sms

    def survey(
        self, trials: Sequence[tune.Candidate], calls: int, over: Callable[[], bool] = never
    ) -> dict[tune.Candidate, Measured]:
        """Predictions."""
        found = {}
        for trial in trials:
            if over():
                break
            us = self._predict(trial)
            if us is not None:
                found[trial] = Measured(us)
        return found

    def compare(
        self, trials: Sequence[tune.Candidate], rounds: int, calls: int
    ) -> tuple[Alone, dict[tune.Candidate, Measured]]:
        """Predictions; of the baselines, cuBLAS is taken to be as fast as our kernel."""
        workload = self.workload.packed()
        config = workload.choose_config()
        tiles = math.prod(config.tiles(workload.m, workload.n))
        parts = config.count_parts(*workload.shape, self.sms)
        cost = workload.cost(config, self.machine)
        gemm = predict_gemm_us(self.machine, cost, tiles, parts=parts)
        comm = self._collective().time_us(moved_bytes(workload))
        return Alone(gemm, gemm, comm, gemm + comm), self.survey(trials, calls)

    def collective_curve(
        self, sizes: Sequence[int], ctas: int, rounds: int = 5, *, beside: bool = False
    ) -> Curve:
        """The machine's, whatever is beside it."""
        return self._collective(ctas)

    def close(self) -> None:
        """There is nothing to free."""

    def _collective(self, ctas: int = 0) -> Curve:
        kind = GemmKind(self.workload.kind)
        return self.machine.find_collective(kind.collective, self.workload.world_size, ctas)

    def _predict(self, trial: tune.Candidate) -> float | None:
        try:
            timeline = self.workload.packed().predict(trial.strategy, trial.tiles, self.machine)
        except SyncopateError:
            return None  # As on GPUs: the compiler refuses it.
        return timeline.us


def tile_bytes(workload: GemmWorkload, trial: tune.Candidate) -> int:
    """Bytes of a tile of C."""
    return trial.tiles.block_m * trial.tiles.block_n * DTYPES[workload.dtype].nbytes


def moved_bytes(workload: GemmWorkload) -> int:
    """Bytes of the tensor that the collective is given, or has gathered."""
    columns = workload.k if GemmKind(workload.kind).is_before else workload.n
    return workload.m * columns * DTYPES[workload.dtype].nbytes


def received_bytes(workload: GemmWorkload) -> int:
    """Bytes that a rank receives from others at least."""
    ranks, shots = workload.world_size, 2 if workload.kind is GemmKind.GEMM_AR else 1
    return shots * (ranks - 1) * moved_bytes(workload) // ranks
