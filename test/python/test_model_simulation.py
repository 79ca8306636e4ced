"""The simulation of tables: exact on programs whose times can be told by hand, and sane on others."""

import dataclasses
import random
import re
import time
from pathlib import Path

import hand_tables
import numpy as np
import pytest
import random_plans
from hypothesis import HealthCheck, given, settings

import syncopate
from model_machines import NO_LATENCY, plain_machine
from syncopate.abi import Realization
from syncopate.errors import SyncopateError
from syncopate.kernels import GemmConfig
from syncopate.model import (
    KernelCost,
    find_lower_bound,
    find_preset,
    gemm_cost,
    predict,
)
from syncopate.model.schedules import schedule_gemm
from syncopate.plan.plan_file import schedule_plan
from syncopate.plan.templates import all_reduce_tiles, reduce_scatter_tiles

# A shard of the hand-made all-gather: 32 rows of 16 elements of 2 bytes.
SHARD = 1024


@pytest.mark.parametrize(
    ("transfer_us", "expected"),
    # Eight tiles of 10 µs are the rank's own, on three CTAs: 30, 30 and 20 µs. CTA 0 has three of the others, CTA 1
    # two, CTA 2 three. A shard that comes later than they ask for it is what their tiles start after.
    [(20.0, 60.0), (25.0, 60.0), (47.0, 77.0)],
)
def test_gather_by_hand(transfer_us, expected):
    program = hand_tables.all_gather(2)
    machine = plain_machine(SHARD / transfer_us)
    timeline = predict(program, KernelCost(10.0), machine)
    assert timeline.us == pytest.approx(expected, abs=1e-6)
    assert timeline.rank_us == pytest.approx((expected, expected), abs=1e-6)
    assert [event.end_us for event in timeline.transfers] == pytest.approx([transfer_us] * 2)


def test_stalls_are_what_ctas_wait():
    program = hand_tables.all_gather(2)
    timeline = predict(program, KernelCost(10.0), plain_machine(SHARD / 47))
    # Own tiles end at 30, 30 and 20.
    assert timeline.tile_stall[0].sum() == pytest.approx(17 + 17 + 27)
    assert timeline.stalled_us(0) == pytest.approx(61 / 3)


@pytest.mark.parametrize("seed", range(8))
def test_gather_against_recurrence(seed):
    """Random tiles, CTAs and rates, against the recurrence of a CTA: a tile starts when the one before it is done."""
    draw = np.random.default_rng(seed)
    ctas = int(draw.integers(1, 9))
    program = hand_tables.all_gather(
        2, shape=(136, 24), columns=int(draw.integers(1, 60)), num_ctas=ctas
    )
    costs = draw.uniform(1, 20, size=len(program.rank_tables(0)["tiles"].values))
    transfer = float(draw.uniform(1, 2 * costs.sum() / ctas))
    # Both shards have as many rows.
    machine = plain_machine(68 * 48 / transfer)
    timeline = predict(program, KernelCost(tuple(costs)), machine)
    ends = []
    for rank in range(2):
        table = program.rank_tables(rank)["tiles"].rows()
        order = sorted(range(len(table)), key=lambda p: (table[p]["c0"], table[p]["c1"]))
        number = {position: place for place, position in enumerate(order)}
        free = [0.0] * ctas
        for position, row in enumerate(table):
            ready = transfer if row["wait_begin"] < row["wait_end"] else 0.0
            cta = position % ctas
            free[cta] = max(free[cta], ready) + costs[number[position]]
            assert timeline.tile_end[rank][position] == pytest.approx(free[cta])
        ends.append(max(free))
    assert timeline.us == pytest.approx(max(ends))


def test_ring_forwards_one_after_another():
    world, hop = 4, 7.0
    program = hand_tables.all_gather(world, "ring", shape=(64, 16))
    machine = plain_machine(SHARD / 2 / hop)
    timeline = predict(program, KernelCost(1e-3), machine)
    ends = sorted(event.end_us for event in timeline.transfers if event.by == 1)
    assert ends == pytest.approx([hop, 2 * hop, 3 * hop])
    assert timeline.us == pytest.approx(3 * hop, abs=0.1)


def test_latencies_add_up():
    program = hand_tables.all_gather(2, num_ctas=16)
    latencies = dataclasses.replace(NO_LATENCY, launch=4.0, call=3.0, flag_remote=1.5)
    machine = plain_machine(SHARD / 20, latency_us=2.0, latencies=latencies)
    # Half a launch, the transfer, its flag, a tile, the other half, the end of the call.
    assert predict(program, KernelCost(10.0), machine).us == pytest.approx(
        2 + 22 + 1.5 + 10 + 2 + 3
    )


def sum_schedule(n, *, realization="ldst_colocated", ctas=1, m=256, splits=1):
    plan = syncopate.Plan("sum", [2])
    c = plan.buffer("c", (m, n), "bf16")
    config = GemmConfig(128, 128, num_ctas=ctas)
    strategy = syncopate.Strategy(realization=realization, splits=splits, pause=0)
    reduce_scatter_tiles(plan, c, strategy)
    return schedule_gemm(plan, n, config, strategy, k=64, c=c)


@pytest.mark.parametrize(("tile", "transfer"), [(10.0, 4.0), (10.0, 35.0)])
def test_handed_over_sum_by_hand(tile, transfer):
    """A tile for the other rank, which the role beside it sends; a tile of the own block, which adds to what came."""
    machine = plain_machine(128 * 128 * 2 / transfer)
    timeline = predict(sum_schedule(128), KernelCost(tile), machine)
    assert [event.cta for event in timeline.transfers] == [0, 0]
    assert timeline.us == pytest.approx(max(2 * tile, tile + transfer))


@pytest.mark.parametrize(("tile", "transfer"), [(10.0, 4.0), (10.0, 35.0)])
def test_grouped_sum_by_hand(tile, transfer):
    """Two tiles make the group that a transfer waits for; the two of the own block wait for it, before they add."""
    machine = plain_machine(2 * 128 * 128 * 2 / transfer)
    timeline = predict(sum_schedule(256), KernelCost(tile), machine)
    assert [event.begin_us for event in timeline.transfers] == pytest.approx([2 * tile] * 2)
    assert timeline.us == pytest.approx(max(4 * tile, 2 * tile + transfer + tile))


def test_engine_operations_by_hand():
    """A stream waits for a word, copies, and raises its flags one after another; the kernel waits for its end."""
    latencies = dataclasses.replace(NO_LATENCY, stream_wait=3.0, engine_op=1.0, flag_local=0.5)
    machine = plain_machine(2 * 128 * 128 * 2 / 30, latencies=latencies)
    timeline = predict(sum_schedule(256, realization="copy_engine"), KernelCost(10.0), machine)
    # Two tiles, the flag of their group, the wait, the copy.
    assert timeline.transfers[0].end_us == pytest.approx(20 + 0.5 + 3 + 30)
    # Its flag reaches the other rank; a tile adds, another is computed and adds.
    assert timeline.us == pytest.approx(53.5 + 1 + 10)


def test_full_ring_holds_tiles_up():
    """One CTA: while the role is at the first tile, four wait in the ring, and the one behind them waits for room."""
    schedule = sum_schedule(128, m=128 * 12, splits=6)
    machine = plain_machine(128 * 128 * 2 / 1000.0, ring_slots=4)
    timeline = predict(schedule, KernelCost(10.0), machine)
    # The last of six records is there at 60, and finds room when the role takes the second, at 1010.
    assert timeline.tile_begin[0][:6] == pytest.approx([0, 10, 20, 30, 40, 50])
    assert timeline.tile_stall[0][5] == pytest.approx(1010 - 60)
    free = predict(schedule, KernelCost(10.0), dataclasses.replace(machine, ring_slots=0))
    assert free.tile_stall[0][5] == 0


def test_transfers_share_a_link():
    """Co-located roles of one rank and an engine use the same link: each gets half."""
    plan = syncopate.Plan("two", [2])
    a = plan.buffer("a", (256, 64), "bf16")
    plan.input(a[:], rank=0)
    plan.input(a[0:1], rank=1)
    plan.put(a[0:128], a[128:256], src_rank=0, dst_rank=1, realization="copy_engine")
    one = {"src_rank": 0, "dst_rank": 1, "realization": "ldst_colocated"}
    other = plan.buffer("other", (128, 64), "bf16")
    plan.put(a[128:256], other[:], **one)
    config, strategy = GemmConfig(128, 128, num_ctas=1), syncopate.Strategy(pause=0, splits=1)
    c = plan.buffer("c", (128, 128), "bf16")
    schedule = schedule_gemm(plan, 128, config, strategy, k=64, c=c)
    nbytes = 128 * 64 * 2
    machine = plain_machine(nbytes / 10, link_bytes_per_us=nbytes / 20)
    timeline = predict(schedule, KernelCost(1.0), machine, in_place=True)
    assert [event.end_us for event in timeline.transfers] == pytest.approx([40.0, 40.0])
    (link,) = timeline.link_bytes
    assert timeline.link_use(link) == pytest.approx(40 / timeline.us)


def test_interference_slows_tiles():
    program = hand_tables.all_gather(2, num_ctas=16)
    role = Realization.LDST_COLOCATED
    machine = plain_machine(SHARD / 100, interference={role: 0.5})
    timeline = predict(program, KernelCost(10.0), machine)
    # The link is full while tiles of the own shard run, so they take half as long again.
    assert timeline.tile_end[0][:8] == pytest.approx([15.0] * 8)
    assert timeline.us == pytest.approx(110)


def test_few_tiles_run_faster_and_long_ones_slower():
    program = hand_tables.all_gather(2, num_ctas=16)
    fast = plain_machine(1e9, sms=16, idle_gain=0.4)
    # All sixteen tiles run at once: eight wait for next to nothing.
    assert predict(program, KernelCost(10.0), fast).us == pytest.approx(10.0, rel=1e-2)
    one = hand_tables.all_gather(2, num_ctas=1)
    assert predict(one, KernelCost(10.0), fast).us == pytest.approx(
        160 * (1 - 0.4 * 15 / 16), rel=1e-2
    )
    slow = plain_machine(1e9, burst_us=40.0, sustained_slowdown=2.0)
    assert predict(one, KernelCost(10.0), slow).us == pytest.approx(40 + 2 * 120, rel=1e-2)


def test_pause_makes_pushing_roles_slower():
    plan = syncopate.Plan("push", [2])
    a = plan.buffer("a", (256, 64), "bf16", shard_axis=0)
    plan.all_gather(a)
    config = GemmConfig(128, 128, num_ctas=1)
    nbytes = 128 * 64 * 2
    machine = plain_machine(nbytes / 8, block_bytes=2048)
    ends = []
    for pause in (0, 500):
        schedule = schedule_gemm(plan, 128, config, syncopate.Strategy(pause=pause), a=a)
        ends.append(predict(schedule, KernelCost(1.0), machine).transfers[0].end_us)
    # Eight blocks of 2 KiB, each with half a microsecond behind it.
    assert ends == pytest.approx([8.0, 12.0])


def test_tables_that_wait_for_nothing_are_refused():
    program = hand_tables.all_gather(2)
    program.name = "gather"
    for tables in program.per_rank:
        tables["commands"] = [
            (*row[:13], 0, 0, *row[15:]) for row in tables["commands"]
        ]  # No command raises its flag.
    with pytest.raises(SyncopateError, match=r"ranks \[0, 1\] never end"):
        predict(program, KernelCost(10.0), plain_machine(SHARD))


def test_missing_curve_is_named():
    machine = dataclasses.replace(plain_machine(SHARD), curves=())
    with pytest.raises(SyncopateError, match="no curve of ldst_colocated push copy"):
        predict(hand_tables.all_gather(2), KernelCost(10.0), machine)


def large(workload, realization="ldst_colocated", *, world=2, m=2048, n=2048, **choices):
    plan = syncopate.Plan("large", [world])
    config, strategy = GemmConfig(), syncopate.Strategy(realization=realization, **choices)
    if workload == "gather":
        a = plan.buffer("a", (m, 1024), "bf16", shard_axis=0)
        plan.all_gather(a)
        return schedule_gemm(plan, n, config, strategy, a=a)
    c = plan.buffer("c", (m, n), "bf16")
    (reduce_scatter_tiles if workload == "scatter" else all_reduce_tiles)(plan, c, strategy)
    return schedule_gemm(plan, n, config, strategy, k=1024, c=c)


CASES = [
    (workload, realization)
    for workload in ("gather", "scatter", "reduce")
    for realization in ("copy_engine", "ldst_colocated", "tma_colocated", "tma_dedicated")
]


@pytest.mark.parametrize(("workload", "realization"), CASES)
def test_prediction_is_deterministic_and_not_below_bound(workload, realization):
    schedule = large(workload, realization, m=2304, n=1904)
    machine = find_preset("h200-w2")
    cost = gemm_cost(machine, 1024, block_m=128, block_n=256, block_k=64)
    one, other = (predict(schedule, cost, machine) for _ in range(2))
    assert one.us == other.us
    assert one.transfers == other.transfers
    assert find_lower_bound(schedule, cost, machine).us <= one.us
    # Every tile and every command once.
    assert all(
        (ends > begins).all() for ends, begins in zip(one.tile_end, one.tile_begin, strict=True)
    )
    commands = sum(len(schedule.rank_tables(rank)["commands"].values) for rank in range(2))
    assert len({(event.by, event.command) for event in one.transfers}) == commands


@pytest.mark.parametrize(("workload", "realization"), CASES)
def test_faster_hardware_is_never_slower(workload, realization):
    """Without anything by which transfers and tiles slow each other down, everything is a maximum of sums."""
    schedule = large(workload, realization)
    draw = random.Random(f"{workload} {realization}")
    machine = plain_machine(100.0, link_bytes_per_us=1e12, latency_us=5.0)
    before = predict(schedule, KernelCost(40.0), machine).us
    for _ in range(4):
        faster = plain_machine(
            100.0 * draw.uniform(1, 1000), link_bytes_per_us=1e12, latency_us=draw.uniform(0, 5)
        )
        cost = KernelCost(draw.uniform(1, 40))
        assert predict(schedule, cost, faster).us <= before + 1e-6


def test_busiest_link_bounds_prediction():
    schedule = large("gather", "copy_engine")
    machine = plain_machine(1e6, link_bytes_per_us=1000.0)
    bound = find_lower_bound(schedule, KernelCost(1e-3), machine)
    assert bound.us == bound.link_us == pytest.approx(1024 * 1024 * 2 / 1000)
    assert predict(schedule, KernelCost(1e-3), machine).us == pytest.approx(bound.us, rel=0.01)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(random_plans.plans())
def test_random_plans_end(text):
    """Tables that the passes have checked never wait for what nobody does."""
    schedule = schedule_plan(text)
    timeline = predict(schedule, KernelCost(3.0), find_preset("h200-w2"))
    assert 0 < timeline.us < float("inf")
    assert find_lower_bound(schedule, KernelCost(3.0), find_preset("h200-w2")).us <= timeline.us


def test_two_ranks_of_a_thousand_tiles_are_fast():
    machine = find_preset("h200-w2")
    schedule = large("scatter", m=8192, n=4096)
    assert len(schedule.rank_tables(0)["tiles"].values) == 1024
    cost = gemm_cost(machine, 4096, block_m=128, block_n=256, block_k=64)
    times = []
    for _ in range(5):
        begin = time.process_time()
        predict(schedule, cost, machine)
        times.append(time.process_time() - begin)
    # A tuner ranks hundreds of candidates. One takes some 10 ms.
    assert min(times) < 0.1


def test_example_of_documentation_runs():
    page = (Path(__file__).parents[2] / "docs/model.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names = {}
    exec(compile(code, "docs/model.md", "exec"), names)
    assert names["page"].startswith("<!DOCTYPE html>")
    # docs/results/models-w2-h200.md: 687 µs.
    assert names["timeline"].us == pytest.approx(687, rel=0.05)
