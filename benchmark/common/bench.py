"""A workload on the bench: programs of it that are checked and timed, and what it takes without fusing.

Studies try many strategies at one shape. `survey` goes through them with one loaded program and few calls of each;
`compare` has a few of them take turns with the baselines, for the figures that are reported. `gpu_bench` does both on
GPUs; `dry_bench` has the cost model in place of them, so that a script can be tried without any.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from syncopate import GemmWorkload, tune
from syncopate.choices import Realization, TileOrder
from syncopate.model import Curve
from syncopate.strategy_names import name_strategy

__all__ = ["Alone", "Bench", "Measured", "ascending_curve", "default_trial", "facts", "never"]


def never() -> bool:
    """For what has no time limit."""
    return False


def facts(trial: tune.Candidate) -> dict[str, Any]:
    """Choices as plain data, for files."""
    strategy, tiles = trial.strategy, trial.tiles
    return {
        "variant": name_strategy(strategy),
        "realization": Realization(strategy.realization).value,
        "order": TileOrder(strategy.order).value,
        "comm_ctas": strategy.count_dedicated() + strategy.count_library(),
        "splits": strategy.splits,
        "tiles": f"{tiles.block_m}x{tiles.block_n}",
    }


@dataclass(frozen=True)
class Measured:
    """What a trial took.

    Attributes:
        us: Median in microseconds, of the slowest rank.
        rel_err: Largest relative error of the checked calls; None where nothing ran.
        host_us: Host time to enqueue a call; None where it was not measured.
    """

    us: float
    rel_err: float | None = None
    host_us: float | None = None


@dataclass(frozen=True)
class Alone:
    """A workload without fusing, in microseconds, from the same comparison as the trials.

    Attributes:
        gemm_us: The GEMM, the best of cuBLAS and our kernel.
        local_gemm_us: Our kernel under plain Triton.
        comm_us: NCCL's collective.
        cublas_nccl_us: One after another.
        split_streams_us: Piece by piece on two streams, the best number of pieces.
        async_tp_us: The fused operator of torch, where it runs.
        spread: Relative difference of cuBLAS and NCCL measured twice.
    """

    gemm_us: float
    local_gemm_us: float
    comm_us: float
    cublas_nccl_us: float
    split_streams_us: float | None = None
    async_tp_us: float | None = None
    spread: float = 0.0

    @property
    def best_us(self) -> float:
        """The best of all that people use."""
        others = (self.split_streams_us, self.async_tp_us)
        return min([self.cublas_nccl_us, *(us for us in others if us is not None)])


class Bench(abc.ABC):
    """One workload.

    Attributes:
        workload: It.
        wrong: Names of trials whose results were wrong, or had other bits in another call.
    """

    def __init__(self, workload: GemmWorkload) -> None:
        self.workload = workload
        self.wrong: list[str] = []

    @property
    @abc.abstractmethod
    def sms(self) -> int:
        """Multiprocessors of a GPU."""

    @abc.abstractmethod
    def survey(
        self, trials: Sequence[tune.Candidate], calls: int, over: Callable[[], bool] = never
    ) -> dict[tune.Candidate, Measured]:
        """Few calls of each of many, one trial after another; those that do not run or are wrong are left out.

        Args:
            trials: In their order.
            calls: Timed calls of each.
            over: Asked before each trial: whether to leave the rest out. The same on all ranks.
        """

    @abc.abstractmethod
    def compare(
        self, trials: Sequence[tune.Candidate], rounds: int, calls: int
    ) -> tuple[Alone, dict[tune.Candidate, Measured]]:
        """Checks some in `calls` calls of each, and then times them, taking turns with the baselines."""

    @abc.abstractmethod
    def collective_curve(
        self, sizes: Sequence[int], ctas: int, rounds: int = 5, *, beside: bool = False
    ) -> Curve:
        """NCCL's collective of the workload by bytes of what one rank gives.

        Args:
            sizes: The bytes.
            ctas: CTAs that it may have at most; 0 for any number.
            rounds: Timed calls of each size.
            beside: Whether the GEMM keeps all other multiprocessors busy meanwhile, and with them L2 and memory.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Frees what it has."""


def default_trial(workload: GemmWorkload) -> tune.Candidate:
    """What `GemmWorkload.load` takes if it is given nothing."""
    packed = workload.packed()
    config = packed.choose_config()
    return tune.Candidate(packed.default_strategy(config), config)


def ascending_curve(sizes: Sequence[int], times: Sequence[float]) -> Curve:
    """A curve of measured times, each raised to those before it, which noise may have made longer."""
    raised: list[float] = []
    for us in times:
        raised.append(max(us, raised[-1] if raised else 0.0))
    # The slope behind the last point must not be nothing.
    if len(raised) > 1 and raised[-1] <= raised[-2]:
        raised[-1] = raised[-2] * (1 + 1e-6) + 1e-6
    return Curve(tuple(map(float, sizes)), tuple(raised))
