"""What measures a machine: probes are sound programs, and from their times a machine comes back."""

import dataclasses

import numpy as np
import pytest

from model_machines import plain_machine
from syncopate.abi import Realization
from syncopate.errors import SyncopateError
from syncopate.kernels import GemmConfig
from syncopate.model import (
    CollectiveCurve,
    Combining,
    Curve,
    FlowDirection,
    GemmRate,
    KernelCost,
    Provenance,
    TransferCurve,
    find_preset,
    gemm_cost,
    predict,
    predict_gemm_us,
)
from syncopate.model.calibration import (
    GemmTime,
    fit_gemm_rate,
    fit_idle_gain,
    fit_parts,
    fit_sustained,
    make_curve,
    match,
    merge_curves,
)
from syncopate.model.measure import measure_machine
from syncopate.model.probes import TransferProbe, build_idle, build_transfer


def test_idle_probe_is_sound():
    result = build_idle(2, 4).simulate(calls=2)
    assert result.verdict.ok, result.verdict


@pytest.mark.parametrize("direction", [FlowDirection.PUSH, FlowDirection.PULL])
@pytest.mark.parametrize(
    "realization", [Realization.COPY_ENGINE, Realization.LDST_DEDICATED, Realization.TMA_COLOCATED]
)
def test_transfer_probe_brings_all_blocks(realization, direction):
    program = build_transfer(TransferProbe(realization, direction, 256 * 24, 3), 3)
    result = program.simulate(calls=2)
    assert result.verdict.ok, result.verdict
    for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
        starts = np.stack([np.asarray(block, np.float32)[0] for block in inputs["a"]])
        for out in outputs["c"]:
            np.testing.assert_array_equal(np.asarray(out, np.float32), starts)


def test_curve_of_times_loses_what_is_fixed():
    curve = make_curve({1 << 20: 30.0, 8 << 20: 58.0, 64 << 20: 57.0}, 12.0)
    assert curve.us[:2] == (18.0, 46.0)
    # Noise makes no larger transfer the faster one, and nothing free.
    assert curve.us[2] == pytest.approx(46.0, rel=1e-5)
    assert make_curve({1 << 20: 10.0, 2 << 20: 11.0}, 12.0).us[0] > 0
    with pytest.raises(SyncopateError, match="two or more sizes"):
        make_curve({1 << 20: 10.0}, 0.0)


def test_gemm_rate_comes_back():
    draw = np.random.default_rng(5)
    step, tile, launch = 0.7, 2.5, 4.0
    times = [
        GemmTime(
            132 * rounds,
            steps,
            launch + rounds * (tile + step * steps) * draw.uniform(0.999, 1.001),
        )
        for rounds, steps in ((4, 16), (4, 64), (2, 128), (3, 128))
    ]
    rate = fit_gemm_rate(times, (128, 256, 64), 132, launch)
    assert (rate.step_us, rate.tile_us) == (
        pytest.approx(step, rel=0.01),
        pytest.approx(tile, rel=0.1),
    )
    with pytest.raises(SyncopateError, match="expects multiples of 132 tiles"):
        fit_gemm_rate([GemmTime(100, 16, 1.0), GemmTime(132, 8, 1.0)], (128, 256, 64), 132, 0.0)


@pytest.mark.parametrize(("burst", "slowdown"), [(2500.0, 1.15), (float("inf"), 1.0), (900.0, 1.4)])
def test_clocks_that_drop_come_back(burst, slowdown):
    machine = plain_machine(1.0, burst_us=burst, sustained_slowdown=slowdown, idle_gain=0.3)
    cost = KernelCost(100.0)
    full = GemmTime(528, 1, predict_gemm_us(machine, cost, 528))
    few = GemmTime(8, 1, predict_gemm_us(machine, cost, 8))
    assert fit_idle_gain(full, few, 132, 0.0) == pytest.approx(0.3)
    calm = dataclasses.replace(machine, burst_us=float("inf"))
    times = [
        tuple(predict_gemm_us(some, cost, tiles) for some in (calm, machine))
        for tiles in (132 * 5, 132 * 50, 132 * 90)
    ]
    assert fit_sustained(times) == (pytest.approx(burst), pytest.approx(slowdown))


def test_cost_of_parts_comes_back():
    def times(store, add):
        return [(1 / 8, parts / 8, (store + parts * add) / 8) for parts in (2, 3, 8)]

    assert fit_parts(times(30.0, 7.0)) == pytest.approx((30.0, 7.0))
    # What noise makes negative is nothing, and the other number does for both.
    assert fit_parts(times(40.0, -1.0)) == pytest.approx((40.0 - 13 / 3, 0.0))
    assert fit_parts(times(-3.0, 7.0)) == pytest.approx((0.0, 7.0 - 3.0 * 13 / 77))
    assert fit_parts(times(-30.0, 1.0)) == (0.0, 0.0)


def test_matching_stops_at_ends():
    assert match(7.0, 0.0, 4.0, lambda x: 1 + 2 * x, 40) == pytest.approx(3.0)
    assert match(100.0, 0.0, 4.0, lambda x: 1 + 2 * x, 40) == pytest.approx(4.0)
    assert match(0.0, 0.0, 4.0, lambda x: 1 + 2 * x, 40) == pytest.approx(0.0, abs=1e-9)


def test_measured_curves_replace_others():
    def entry(direction, ctas, gbps):
        return TransferCurve(
            Realization.TMA_DEDICATED, direction, Combining.COPY, ctas, Curve.of_rate(1, gbps)
        )

    old = [entry(FlowDirection.PUSH, 7, 100), entry(FlowDirection.PULL, 7, 100)]
    new = [entry(FlowDirection.PUSH, 4, 50), entry(FlowDirection.PUSH, 16, 200)]
    assert merge_curves(new, old) == (*new, old[1])


class FakeRanks:
    """Times what a known machine would take, instead of running anything."""

    def __init__(self, truth):
        self.truth = truth
        self.gpu, self.sms, self.rank, self.world_size = "Fake", truth.sms, 0, 2
        self.left_out = []

    def attempt(self, what, measure):
        if "GEMM (64" in what:
            self.left_out.append(what)
            return None
        return measure()

    def time_gemm(self, config, rounds, columns, k):
        cost = self.cost(config, k)
        return predict_gemm_us(self.truth, cost, rounds * columns, parts=config.parts or 1)

    def cost(self, config, k):
        return gemm_cost(
            self.truth, k, block_m=config.block_m, block_n=config.block_n, block_k=config.block_k
        )

    def measure_program(self, what, build, **tensors):
        program = build()
        return program, self.time_program(program, **tensors)

    def time_program(self, program, **tensors):
        gemm = "b" in tensors
        cost = self.cost(GemmConfig(), 8192) if gemm else KernelCost(1e-3)
        return predict(program, cost, self.truth, in_place=not gemm).us

    def time_collective(self, kind, nbytes, ctas):
        return self.truth.find_collective(kind.name.lower(), 2, ctas).time_us(nbytes)

    def random(self, *shape):
        return np.empty(shape, np.int8)

    def say(self, text):
        pass


def test_machine_comes_back_from_its_times():
    """From a base that is wrong everywhere, to a machine that predicts what the known one would."""
    measured = (Realization.COPY_ENGINE, Realization.LDST_COLOCATED)
    preset = find_preset("h200-w2")
    truth = dataclasses.replace(
        preset,
        gemm_rates=(
            GemmRate(128, 256, 64, "bf16", 0.55, 1.9), GemmRate(128, 128, 64, "bf16", 0.29, 1.2),
        ),
        interference={
            Realization.COPY_ENGINE: 0.06, Realization.LDST_COLOCATED: 0.11, Realization.NCCL: 0.08,
        },
        collectives=tuple(
            CollectiveCurve(name, 2, Curve.of_rate(20.0, min(20.0 * (ctas or 32), 300.0)), ctas)
            for name in ("all_reduce", "reduce_scatter", "all_to_all")
            for ctas in (4, 8, 16, 0)
        ),
        latencies=dataclasses.replace(
            preset.latencies, call=9.0, produce=3.0, launch=5.0, store_part=90.0, add_part=40.0
        ),
        burst_us=4000.0,
        sustained_slowdown=1.2,
    )  # fmt: skip
    base = dataclasses.replace(
        preset,
        gemm_rates=(
            GemmRate(128, 256, 64, "bf16", 1.0, 5.0),
            GemmRate(64, 128, 64, "bf16", 0.3, 1.0),
        ),
        interference={},
    )
    ranks = FakeRanks(truth)
    machine = measure_machine(ranks, base, measured, (1 << 20, 32 << 20))
    assert set(ranks.left_out) == {"GEMM (64, 128, 64)"}
    assert (machine.source, machine.name) == (Provenance.MEASURED, "Fake, 2 ranks")
    # What a tile of one step takes counts as launch, or the other way round.
    assert machine.latencies.launch == pytest.approx(5.0, abs=1.0)
    large = machine.find_gemm_rate(128, 256, 64)
    assert large.step_us == pytest.approx(0.55, rel=0.02)
    # A microsecond of the launch is 8 for each MiB.
    assert machine.latencies.store_part == pytest.approx(90.0, abs=10.0)
    assert machine.latencies.add_part == pytest.approx(40.0, rel=0.05)
    assert machine.idle_gain == pytest.approx(truth.idle_gain, abs=0.02)
    assert machine.burst_us == pytest.approx(4000, rel=0.1)
    assert machine.sustained_slowdown == pytest.approx(1.2, rel=0.02)
    # What failed is still that of the base.
    assert machine.find_gemm_rate(64, 128, 64) == base.gemm_rates[1]
    for name, ctas in (("all_reduce", 8), ("reduce_scatter", 4), ("all_to_all", 0)):
        curves = (some.find_collective(name, 2, ctas) for some in (machine, truth))
        found, wanted = (curve.time_us(16 << 20) for curve in curves)
        assert found == pytest.approx(wanted, rel=1e-3)
    for realization in (*measured, Realization.NCCL):
        assert machine.interference[realization] == pytest.approx(
            truth.interference[realization], abs=0.03
        )
    for realization in measured:
        for direction in (FlowDirection.PUSH, FlowDirection.PULL):
            program = build_transfer(TransferProbe(realization, direction, 16 << 20, truth.sms), 2)
            us, wanted = (
                predict(program, KernelCost(1e-3), some, in_place=True).us
                for some in (machine, truth)
            )
            assert us == pytest.approx(wanted, rel=0.05), (realization, direction)
