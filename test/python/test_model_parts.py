"""Tiles of a last round that several CTAs compute, in the cost model: by hand, and against each other."""

import dataclasses
import math

import hand_tables
import numpy as np
import pytest

import syncopate
from model_machines import NO_LATENCY, plain_machine
from syncopate.errors import SyncopateError
from syncopate.kernels import GemmConfig
from syncopate.model import (
    KernelCost,
    find_lower_bound,
    find_preset,
    gemm_cost,
    predict,
    predict_gemm_us,
)
from syncopate.model.schedules import schedule_gemm
from syncopate.plan.templates import reduce_scatter_tiles

pytestmark = pytest.mark.any_triton

PARTS = dataclasses.replace(NO_LATENCY, store_part=16.0, add_part=8.0)
COST = KernelCost(10.0, tile_bytes=2**15, fixed_us=2.0, part_bytes=2**16)
"""A part of two takes 2 and 4 µs, leaves 1/16 MiB in 1 µs more, and adding both up takes 1 µs."""


def schedule_local(rows, columns, config, k=4096):
    """A GEMM of so many tiles without any transfer."""
    m, n = rows * config.block_m, columns * config.block_n
    plan = syncopate.Plan("local", [2])
    c = plan.buffer("c", (m, n), "bf16")
    strategy = syncopate.Strategy(realization="copy_engine")
    return schedule_gemm(plan, n, config, strategy, k=k, c=c)


def sum_schedule(columns, ctas, parts, realization="copy_engine"):
    """Two blocks of tiles, that of the other rank first, and then the own one, which adds to what came."""
    plan = syncopate.Plan("sum", [2])
    n = 128 * columns
    c = plan.buffer("c", (256, n), "bf16")
    config = GemmConfig(128, 128, num_ctas=ctas, parts=parts)
    strategy = syncopate.Strategy(realization=realization, splits=1, pause=0)
    reduce_scatter_tiles(plan, c, strategy)
    return schedule_gemm(plan, n, config, strategy, k=4096, c=c)


@pytest.mark.parametrize("seed", range(6))
def test_kernel_alone_against_closed_form(seed):
    """Random tiles, CTAs and costs; the parts of a last round are what `Parts` chooses."""
    draw = np.random.default_rng(seed)
    ctas, rows = int(draw.integers(5, 40)), int(draw.integers(1, 20))
    columns = int(draw.integers(1, 8))
    config = GemmConfig(128, 128, num_ctas=ctas)
    store, add, fixed = draw.uniform(1, 50, 3)
    whole = fixed + draw.uniform(1, 200)
    latencies = dataclasses.replace(NO_LATENCY, store_part=store, add_part=add)
    machine = plain_machine(1.0, latencies=latencies, sms=ctas)
    cost = KernelCost(whole, 2**15, fixed, 2**16)
    schedule = schedule_local(rows, columns, config)
    rounds, last = divmod(rows * columns, ctas)
    parts = config.count_parts(rows * 128, columns * 128, 4096, ctas)
    expected = rounds * whole
    if last:
        expected += whole
        if parts > 1:
            expected += (whole - fixed) * (1 / parts - 1) + (store + parts * add) / 16
    timeline = predict(schedule, cost, machine)
    assert timeline.us == pytest.approx(expected)
    assert predict_gemm_us(machine, cost, rows * columns, ctas, parts) == pytest.approx(expected)
    assert len(timeline.tile_end[0]) == rows * columns + last * (parts - 1)
    assert sorted(set(timeline.tile_numbers[0].tolist())) == list(range(rows * columns))
    # With few multiprocessors at work, both know how much faster they are.
    fast = dataclasses.replace(machine, idle_gain=0.4)
    assert predict(schedule, cost, fast).us == pytest.approx(
        predict_gemm_us(fast, cost, rows * columns, ctas, parts)
    )


def test_group_counts_a_tile_when_its_parts_are_added_up():
    """Four tiles, all of the only round, by two of eight CTAs each; two of them are what a transfer waits for."""
    transfer = 20.0
    machine = plain_machine(2 * 128 * 128 * 2 / transfer, latencies=PARTS)
    timeline = predict(sum_schedule(2, 9, 2), COST, machine)
    # A part is left at 7, and the sum is there at 8.
    assert [event.begin_us for event in timeline.transfers] == pytest.approx([8.0] * 2)
    assert timeline.us == pytest.approx(8 + transfer)
    ends = np.array(timeline.tile_end[0]).reshape(4, 2)
    assert np.sort(ends, axis=1) == pytest.approx(
        np.array([[7.0, 8.0], [7.0, 8.0], [7.0, 28.0], [7.0, 28.0]])
    )


@pytest.mark.parametrize("transfer", [4.0, 30.0])
def test_last_part_waits_for_what_it_adds_to(transfer):
    """Six tiles on four CTAs. Three are the other rank's; the own ones are a whole tile and two by two CTAs each."""
    machine = plain_machine(3 * 128 * 128 * 2 / transfer, latencies=PARTS)
    timeline = predict(sum_schedule(3, 4, 2), COST, machine)
    arrived = 10 + transfer
    # The CTA of the whole tile waits before it stores, and so begins its part late.
    assert timeline.tile_end[0][3] == pytest.approx(arrived)
    assert timeline.tile_begin[0][7] == pytest.approx(arrived)
    assert max(timeline.tile_end[0][4:6]) == pytest.approx(max(10 + 7 + 1, arrived))
    assert timeline.us == pytest.approx(arrived + 7 + 1)


def test_producing_and_adding_count_for_the_last_part():
    latencies = dataclasses.replace(PARTS, produce=3.0, accumulate=160.0)
    machine = plain_machine(1e9, latencies=latencies)
    timeline = predict(sum_schedule(2, 9, 2), COST, machine)
    # Tiles of 1/32 MiB that add to what is there take 5 µs more, and those that others wait for 3.
    numbers, ends = timeline.tile_numbers[0], timeline.tile_end[0]
    found = [sorted(ends[numbers == number].tolist()) for number in (0, 1, 2, 3)]
    adding, producing = [7.0, 13.0], [7.0, 11.0]
    assert found == [pytest.approx(adding)] * 2 + [pytest.approx(producing)] * 2


@pytest.mark.parametrize("realization", ["copy_engine", "ldst_colocated", "tma_dedicated"])
@pytest.mark.parametrize("parts", [1, 2, 4])
def test_prediction_is_not_below_bound(realization, parts):
    schedule = sum_schedule(7, 12, parts, realization)
    machine = find_preset("h200-w2")
    cost = gemm_cost(machine, 4096, block_m=128, block_n=128, block_k=64)
    bound = find_lower_bound(schedule, cost, machine)
    assert 0 < bound.us <= predict(schedule, cost, machine).us


def test_third_dimension_of_a_grid_is_no_part():
    machine, cost = plain_machine(1024 / 47), KernelCost(tuple(range(1, 17)))
    flat, deep = hand_tables.all_gather(2), hand_tables.all_gather(2)
    deep.tiles = (8, 1, 2)
    for tables in deep.per_rank:
        tables["tiles"] = [(m, 0, n, *row) for m, n, _, *row in tables["tiles"]]
    found, wanted = (predict(program, cost, machine) for program in (deep, flat))
    assert found.us == wanted.us
    assert (found.tile_numbers[1] == wanted.tile_numbers[1]).all()


def test_schedule_without_k_is_refused():
    plan = syncopate.Plan("local", [2])
    c = plan.buffer("c", (128, 128), "bf16")
    with pytest.raises(SyncopateError, match="k: expects K of the GEMM"):
        schedule_gemm(plan, 128, GemmConfig(), syncopate.Strategy(), c=c)


MEASURED = {
    (2048, 6656, 16384): {1: 731, 2: 676, 3: 658, 4: 648, 6: 641},
    (8192, 3696, 8192): {1: 793, 2: 778, 3: 758},
    (2048, 14784, 8192): {1: 779, 2: 773, 3: 747, 4: 754, 6: 750, 8: 721},
}
"""Microseconds of the kernel alone on an H200 under sustained load, by the parts of each tile of the last round."""


def test_preset_follows_measured_parts():
    """The two numbers of the preset come from these times; how fast clocks were in each run is not what is checked."""
    machine, config = find_preset("h200-w2"), GemmConfig()
    errors = []
    for (m, n, k), times in MEASURED.items():
        cost = gemm_cost(machine, k, block_m=128, block_n=256, block_k=64)
        tiles = math.prod(config.tiles(m, n))
        alone = predict_gemm_us(machine, cost, tiles)
        errors += [
            predict_gemm_us(machine, cost, tiles, parts=parts) / alone / (us / times[1]) - 1
            for parts, us in times.items()
            if parts > 1
        ]
    assert np.abs(errors).mean() < 0.01
    assert np.abs(errors).max() < 0.045


def test_chosen_tiles_are_hardly_slower_than_the_others():
    """`GemmConfig.choose` knows no machine; by the model of an H200 it loses little, with parts and K 8192."""
    machine = find_preset("h200-w2")
    draw = np.random.default_rng(7)
    losses = []
    for _ in range(1000):
        m, n = (int(draw.integers(1000, 13000)) for _ in range(2))
        chosen = GemmConfig.choose(m, n)
        if math.prod(GemmConfig().tiles(m, n)) < machine.sms:
            # Tiles of less than a round are chosen for what they overlap with.
            continue
        times = {}
        for config in (GemmConfig(), GemmConfig(block_n=128, num_warps=4, num_stages=4)):
            cost = gemm_cost(machine, 8192, block_m=128, block_n=config.block_n, block_k=64)
            parts = config.count_parts(m, n, 8192, machine.sms)
            tiles = math.prod(config.tiles(m, n))
            times[config] = predict_gemm_us(machine, cost, tiles, parts=parts)
        losses.append(times[chosen] / min(times.values()) - 1)
    assert len(losses) > 800
    assert np.mean(losses) < 0.0006
    assert max(losses) < 0.04
