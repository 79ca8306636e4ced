"""Predicted library calls: FlashOverlap's closed form where it holds, and what it leaves out."""

import random

import pytest

import syncopate
from model_machines import plain_machine
from syncopate.abi import Realization
from syncopate.errors import SyncopateError
from syncopate.kernels import GemmConfig
from syncopate.model import CollectiveCurve, Curve, KernelCost, WaveModel, predict
from syncopate.model.schedules import schedule_gemm
from syncopate.plan.templates import all_reduce_tiles, all_to_all_tiles, reduce_scatter_tiles

SMS, LIBRARY = 20, 4
TARGET = syncopate.Target(num_sms=SMS)
TILE, TILE_BYTES = 10.0, 128 * 256 * 2


def schedule(kind, tiles, waves=(), slots="tiles", ctas=SMS - LIBRARY, world=2):
    """A GEMM of tiles in one row of columns, and calls of what they compute."""
    m, n = (128 * tiles, 256) if kind == "all_reduce" else (128 * tiles * world, 256)
    strategy = syncopate.Strategy(
        realization="nccl", waves=waves, slots=slots, group_m=1, comm_ctas=LIBRARY
    )
    plan = syncopate.Plan(kind, [world])
    c = plan.buffer("c", (m, n), "bf16")
    if kind == "all_reduce":
        all_reduce_tiles(plan, c, strategy)
    elif kind == "reduce_scatter":
        reduce_scatter_tiles(plan, c, strategy)
    else:
        all_to_all_tiles(plan, c, plan.buffer("received", (m, n), "bf16"))
    config = GemmConfig(num_ctas=ctas, parts=1)
    return schedule_gemm(plan, n, config, strategy, k=64, c=c, target=TARGET)


def machine(curve, names=("all_reduce",), world=2, **changes):
    collectives = tuple(CollectiveCurve(name, world, curve) for name in names)
    return plain_machine(1e6, sms=SMS, collectives=collectives, **changes)


@pytest.mark.parametrize("seed", range(12))
def test_equal_waves_are_the_closed_form(seed):
    draw = random.Random(seed)
    tiles, world = draw.randrange(17, 150), draw.choice([2, 3])
    curve = Curve.of_rate(draw.uniform(1, 30), draw.uniform(1, 60))
    model = WaveModel(
        gemm_us=TILE * -(-tiles // SMS),
        tiles=tiles,
        tile_bytes=TILE_BYTES,
        sms=SMS,
        curve=curve,
        comm_sms=LIBRARY,
    )
    left, groups = model.waves, []
    while left:
        groups.append(draw.randrange(1, left + 1))
        left -= groups[-1]
    if len(groups) == 1:
        groups = [1, model.waves - 1]
    found = predict(
        schedule("all_reduce", tiles, tuple(groups), world=world),
        KernelCost(TILE),
        machine(curve, world=world),
    )
    assert found.us == pytest.approx(model.predict_us(groups)), (tiles, groups)
    calls = [event for event in found.transfers if event.by == 0]
    assert len(calls) == len(groups)
    assert all(event.realization is Realization.NCCL for event in calls)


def test_calls_start_when_the_last_rank_is_there():
    """Ranks whose tiles take longer hold up the others."""
    program = schedule("all_reduce", 32, (1,))
    cost = KernelCost(tuple([TILE] * 16 + [3 * TILE] * 16))
    curve = Curve.of_rate(5.0, 1e3)
    found = predict(program, cost, machine(curve))
    first, second = (event for event in found.transfers if event.by == 0)
    assert (first.begin_us, second.begin_us) == pytest.approx((TILE, 4 * TILE))
    assert found.us == pytest.approx(4 * TILE + curve.time_us(16 * TILE_BYTES))


def test_without_free_multiprocessors_calls_come_last():
    curve = Curve.of_rate(5.0, 1e3)
    some, none = (
        predict(schedule("all_reduce", 80, (1,), ctas=ctas), KernelCost(TILE), machine(curve))
        for ctas in (SMS - 1, SMS)
    )
    assert none.us == pytest.approx(4 * TILE + 4 * curve.time_us(20 * TILE_BYTES))
    calls = [event for event in some.transfers if event.by == 0]
    assert calls[0].end_us < 3 * TILE
    assert min(event.end_us for event in none.transfers) > 4 * TILE


@pytest.mark.parametrize("kind", ["reduce_scatter", "all_to_all"])
def test_bytes_are_those_of_the_whole_tensor(kind):
    curve = Curve.of_rate(0.0, 1.0)
    found = predict(schedule(kind, 16, (1,)), KernelCost(TILE), machine(curve, (kind,)))
    assert found.us == pytest.approx(TILE + 32 * TILE_BYTES / 1e3, rel=1e-6)


def test_calls_slow_tiles_down():
    curve = Curve.of_rate(0.0, 1e3)
    program = schedule("all_reduce", 160, (1,))
    quiet, loud = (
        predict(
            program,
            KernelCost(TILE),
            machine(curve, interference={Realization.NCCL: slower}),
        )
        for slower in (0.0, 0.5)
    )
    # A call sends its bytes once at the rate of the link, 1e6 bytes a µs; so long tiles take half as long again. The
    # last call has no tiles beside it.
    moved = 16 * TILE_BYTES / 1e6
    assert loud.us - quiet.us == pytest.approx(9 * moved * (1 - 1 / 1.5))


def test_the_curve_is_that_of_the_multiprocessors_that_are_left():
    slow, fast = Curve.of_rate(0.0, 1.0), Curve.of_rate(0.0, 10.0)
    curves = (CollectiveCurve("all_reduce", 2, slow, 2), CollectiveCurve("all_reduce", 2, fast, 8))
    hall = plain_machine(1e6, sms=SMS, collectives=curves)
    assert hall.find_collective("all_reduce", 2, 3) == slow
    assert hall.find_collective("all_reduce", 2) == fast
    few, many = (
        predict(schedule("all_reduce", 12, (1,), ctas=ctas), KernelCost(TILE), hall).us
        for ctas in (SMS - 2, 12)
    )
    nbytes = 12 * TILE_BYTES
    assert (few, many) == pytest.approx((TILE + slow.time_us(nbytes), TILE + fast.time_us(nbytes)))


def test_a_machine_without_the_curve_is_refused():
    with pytest.raises(SyncopateError, match="has no curve of all_reduce"):
        predict(schedule("all_reduce", 32), KernelCost(TILE), plain_machine(1e6, sms=SMS))


def gather(mesh, shape, strategy):
    m, k = shape
    plan = syncopate.Plan("gather", mesh)
    a = plan.buffer("a", (m, k), "bf16", shard_axis=0)
    plan.all_gather(a, axis=0)
    return schedule_gemm(plan, 256, GemmConfig(num_ctas=4), strategy, a=a, target=TARGET)


def test_both_ends_of_a_transfer_go_on_when_it_has_arrived():
    """Two ranks exchange halves in two pieces each; a link moves a piece in 20 µs, and both directions at once."""
    program = gather([2], (1024, 64), syncopate.Strategy(realization="nccl", splits=2))
    piece = 256 * 64 * 2
    hall = plain_machine(piece / 20, sms=SMS)
    found = predict(program, KernelCost(1e-6), hall, in_place=True)
    ends = sorted(event.end_us for event in found.transfers)
    assert ends == pytest.approx([20, 20, 40, 40])
    assert {(event.by, event.src, event.dst) for event in found.transfers} == {(0, 1, 0), (1, 0, 1)}
    assert found.us == pytest.approx(40, abs=1e-3)


def test_two_levels_are_one_after_another():
    strategy = syncopate.Strategy(
        realization="copy_engine", between="nccl", algorithm="hierarchical", splits=1
    )
    program = gather([2, 2], (2048, 64), strategy)
    block = 512 * 64 * 2
    hall = plain_machine(block / 10, sms=SMS)
    found = predict(program, KernelCost(1e-6), hall, in_place=True)
    # Between nodes in 10 µs; then, or meanwhile, own and foreign blocks to the other rank of the node.
    assert found.us == pytest.approx(30, abs=1e-3)
    sent = [event for event in found.transfers if event.realization is Realization.NCCL]
    assert [event.end_us for event in sent] == pytest.approx([10] * 4)
