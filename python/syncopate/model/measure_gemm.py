"""Measures the local kernel alone, under plain Triton."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from syncopate.model.calibration import (
    GemmTime,
    fit_gemm_rate,
    fit_idle_gain,
    fit_parts,
    fit_sustained,
    with_latency,
)
from syncopate.model.gemm import gemm_cost, predict_gemm_us
from syncopate.model.machine import Machine

if TYPE_CHECKING:
    from syncopate.model.ranks import Ranks

__all__ = ["measure_gemms"]

PARTS: Final = (2, 4, 8)
"""Among how many CTAs tiles are split, of K 4096."""


def measure_gemms(ranks: Ranks, machine: Machine) -> Machine:
    """Rates of three configurations, and what they depend on: load, the alignment of rows, parts of tiles, and time.

    Args:
        ranks: What measures.
        machine: What is taken over where something fails.
    """
    from syncopate.kernels import GemmConfig

    sms = machine.sms

    def time_gemm(what: str, config: Any, rounds: int, columns: int, k: int) -> GemmTime | None:
        us = ranks.attempt(what, lambda: ranks.time_gemm(config, rounds, columns, k))
        return None if us is None else GemmTime(rounds * columns, -(-k // config.block_k), us)

    one = time_gemm("launch", GemmConfig(), 1, 1, 64)
    if one is None:
        return machine
    # A tile of one step takes a microsecond or two itself.
    machine = with_latency(machine, launch=max(one.us - 2.0, 1.0))
    launch = machine.latencies.launch
    rates = {(rate.block_m, rate.block_n, rate.block_k): rate for rate in machine.gemm_rates}
    for config in GemmConfig.usual():
        block = (config.block_m, config.block_n, config.block_k)
        found = [time_gemm(f"GEMM {block}", config, 4, sms, k) for k in (1024, 4096, 8192)]
        times = [time for time in found if time is not None]
        if len(times) >= 2:
            rates[block] = fit_gemm_rate(times, block, sms, launch)
    machine = dataclasses.replace(machine, gemm_rates=tuple(rates.values()))
    full = time_gemm("full rounds", GemmConfig(), 4, sms, 8192)
    few = time_gemm("few tiles", GemmConfig(), 1, 8, 8192)
    if full and few:
        gain = fit_idle_gain(full, few, sms, launch)
        machine = dataclasses.replace(machine, idle_gain=gain)
    if full:
        slowdowns = []
        for aligned, more in ((128, 32), (32, 8)):
            odd = time_gemm(
                f"rows not aligned to {aligned} bytes", GemmConfig(), 4, sms, 8192 - more
            )
            if odd:
                slowdowns.append((aligned, max(odd.us / full.us, 1.0)))
        if len(slowdowns) == 2:
            machine = dataclasses.replace(machine, row_slowdowns=tuple(slowdowns))
    machine = _measure_parts(machine, time_gemm)
    cost = gemm_cost(machine, 16384, block_m=128, block_n=256, block_k=64)
    calm = dataclasses.replace(machine, burst_us=float("inf"))
    long = []
    for rounds in (4, 30, 60):
        longer = time_gemm(f"{rounds} rounds", GemmConfig(), rounds, sms, 16384)
        if longer is not None:
            long.append((predict_gemm_us(calm, cost, longer.tiles), longer.us))
    if len(long) == 3:
        burst, slowdown = fit_sustained(long)
        machine = dataclasses.replace(machine, burst_us=burst, sustained_slowdown=slowdown)
    return machine


def _measure_parts(
    machine: Machine, time_gemm: Callable[[str, Any, int, int, int], GemmTime | None]
) -> Machine:
    """What parts of tiles cost, from GEMMs whose only round they fill as far as they can."""
    from syncopate.kernels import GemmConfig

    some = [
        with_latency(machine, store_part=store, add_part=add)
        for store, add in ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0))
    ]
    cost = gemm_cost(machine, 4096, block_m=128, block_n=256, block_k=64)
    more = []
    for parts in PARTS:
        columns = machine.sms // parts
        time = time_gemm(f"{parts} parts", GemmConfig(parts=parts), 1, columns, 4096)
        if time is not None:
            free, store, add = (predict_gemm_us(one, cost, columns, parts=parts) for one in some)
            more.append((store - free, add - free, time.us - free))
    if len(more) < 2:
        return machine
    store_part, add_part = fit_parts(more)
    return with_latency(machine, store_part=store_part, add_part=add_part)
