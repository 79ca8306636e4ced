"""From measured times to the numbers of a machine. Pure arithmetic: what measures is `syncopate.model.measure`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from syncopate.errors import SyncopateError
from syncopate.model.curve import Curve, TransferCurve
from syncopate.model.machine import GemmRate, Machine

__all__ = [
    "GemmTime",
    "fit_gemm_rate",
    "fit_idle_gain",
    "fit_parts",
    "fit_sustained",
    "make_curve",
    "match",
    "merge_curves",
]


@dataclass(frozen=True)
class GemmTime:
    """A GEMM alone that was measured.

    Attributes:
        tiles: Its tiles.
        steps: Steps of K of each.
        us: Its time, with the launch.
    """

    tiles: int
    steps: int
    us: float


def make_curve(times: Mapping[int, float], fixed_us: float) -> Curve:
    """The curve of transfers that were measured within calls.

    Args:
        times: Microseconds of a call by the bytes of its transfer.
        fixed_us: What a call takes besides its transfer: what an idle one takes, and flags.

    Raises:
        SyncopateError: There are not two sizes.
    """
    sizes = sorted(times)
    us = np.array([times[size] for size in sizes]) - fixed_us
    # Noise must not make a larger transfer the faster one, or one take no time: nothing is faster than 10 TB/s.
    us = np.maximum.accumulate(np.maximum(us, np.array(sizes) * 1e-7))
    if len(us) > 1 and us[-1] <= us[-2]:
        us[-1] = us[-2] * (1 + 1e-6)
    return Curve(tuple(map(float, sizes)), tuple(us.tolist()))


def fit_gemm_rate(
    times: Sequence[GemmTime],
    block: tuple[int, int, int],
    sms: int,
    launch_us: float,
    dtype: str = "bf16",
) -> GemmRate:
    """The rate of a configuration, by least squares over GEMMs with full rounds of tiles.

    Args:
        times: GEMMs of that configuration, with two or more different numbers of steps.
        block: Rows, columns and elements of K of a tile.
        sms: Multiprocessors that compute.
        launch_us: What of the times is the launch.
        dtype: Of the operands.

    Raises:
        SyncopateError: A round is not full, or all have the same steps.
    """
    if any(time.tiles % sms for time in times) or len({time.steps for time in times}) < 2:
        raise SyncopateError(
            f"times: expects multiples of {sms} tiles, with two or more different numbers of steps"
        )
    rows = np.array([[time.steps, 1.0] for time in times])
    rounds = np.array([(time.us - launch_us) / (time.tiles // sms) for time in times])
    # Relative errors count, so that the longest does not decide alone.
    (step, tile), *_ = np.linalg.lstsq(rows / rounds[:, None], np.ones(len(times)), rcond=None)
    if tile < 0:
        tile = 0.0
        step = float(np.mean(rounds / rows[:, 0]))
    return GemmRate(*block, dtype, step_us=float(step), tile_us=float(tile))


def fit_idle_gain(full: GemmTime, few: GemmTime, sms: int, launch_us: float) -> float:
    """By what share a tile is faster if few multiprocessors compute than if all do; see `Machine.idle_gain`.

    Args:
        full: One or more full rounds.
        few: Less than a round, with the same steps.
        sms: Multiprocessors.
        launch_us: What of the times is the launch.
    """
    slow = (full.us - launch_us) / (full.tiles // sms)
    share = 1 - (few.us - launch_us) / slow
    return float(np.clip(share / (1 - few.tiles / sms), 0.0, 0.9))


def fit_parts(times: Sequence[tuple[float, float, float]]) -> tuple[float, float]:
    """What parts of tiles take besides their steps of K, by least squares without negative numbers.

    Args:
        times: Of two or more kernels with parts, in microseconds: what each would take more if `store_part` were 1, the
            same of `add_part`, and what it took more than its steps.

    Returns:
        `store_part` and `add_part` of a machine.
    """
    rows = np.array(times)
    store, add, us = rows.T
    (found_store, found_add), *_ = np.linalg.lstsq(rows[:, :2], us, rcond=None)
    if found_store < 0:
        found_store, found_add = 0.0, add @ us / (add @ add)
    elif found_add < 0:
        found_store, found_add = store @ us / (store @ store), 0.0
    return max(float(found_store), 0.0), max(float(found_add), 0.0)


def fit_sustained(times: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """When clocks drop, and by how much.

    Args:
        times: For GEMMs of growing length, what they would take without a drop, and what they took, in microseconds.

    Returns:
        `burst_us` and `sustained_slowdown` of a machine.
    """
    (_, _), (before, taken), (longest, last) = sorted(times)[-3:]
    slope = (last - taken) / (longest - before)
    if slope < 1.01:
        return float("inf"), 1.0
    # Where the line of slope 1 meets the line through the longest two.
    burst = (taken - slope * before) / (1 - slope)
    return float(max(burst, 0.0)), float(slope)


def merge_curves(
    measured: Sequence[TransferCurve], others: Sequence[TransferCurve]
) -> tuple[TransferCurve, ...]:
    """Measured curves, and those of others for what was not measured at all."""
    known = {(entry.realization, entry.direction, entry.combining) for entry in measured}
    kept = (
        entry
        for entry in others
        if (entry.realization, entry.direction, entry.combining) not in known
    )
    return (*measured, *kept)


def match(
    us: float, low: float, high: float, predict_us: Callable[[float], float], steps: int = 12
) -> float:
    """The number for which a prediction is what was measured, by bisection; the nearer end if there is none.

    Args:
        us: The measured time.
        low: The least that the number may be.
        high: The most.
        predict_us: The prediction, which grows with the number.
        steps: Halvings of the range.
    """
    for _ in range(steps):
        middle = (low + high) / 2
        if predict_us(middle) < us:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def with_latency(machine: Machine, **latencies: float) -> Machine:
    """A machine with other latencies."""
    changed = dataclasses.replace(machine.latencies, **latencies)
    return dataclasses.replace(machine, latencies=changed)
