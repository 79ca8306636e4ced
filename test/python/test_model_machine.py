"""Curves, links and machines as data."""

import dataclasses
import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_machines import plain_machine
from syncopate.abi import Realization
from syncopate.errors import SyncopateError
from syncopate.model import (
    CollectiveCurve,
    Combining,
    Curve,
    FlowDirection,
    GemmRate,
    KernelCost,
    Machine,
    Provenance,
    Topology,
    TopologyKind,
    TransferCurve,
    find_machine,
    find_preset,
    gemm_cost,
    load_machine,
    machine_path,
    predict_gemm_us,
    preset_names,
    save_machine,
)
from syncopate.model.curve import TransferRates
from syncopate.model.flows import share_links

pytestmark = pytest.mark.any_triton


def test_curve_is_straight_between_points():
    curve = Curve((1000.0, 3000.0, 4000.0), (6.0, 10.0, 11.0))
    assert curve.latency_us == 4.0
    assert [curve.time_us(n) for n in (0, 500, 1000, 2000, 3500, 6000)] == [4, 5, 6, 8, 10.5, 13]
    assert curve.rate(3000) == pytest.approx(500)


@given(
    st.lists(st.floats(1, 1e9), min_size=2, max_size=6, unique=True),
    st.lists(st.floats(0.001, 1e4), min_size=6, max_size=6),
    st.floats(0, 2e9),
    st.floats(0, 2e9),
)
def test_curve_is_monotone(sizes, steps, one, other):
    times = np.cumsum(steps[: len(sizes)])
    curve = Curve(tuple(sorted(sizes)), tuple(times.tolist()))
    low, high = sorted((one, other))
    assert 0 <= curve.latency_us <= curve.time_us(low) * (1 + 1e-9)
    assert curve.time_us(low) <= curve.time_us(high) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("sizes", "times"),
    [((1,), (1,)), ((1, 1), (1, 2)), ((1, 2), (2, 1)), ((1, 2), (1, 1)), ((-1, 2), (1, 2))],
)
def test_malformed_curve_is_refused(sizes, times):
    with pytest.raises(SyncopateError, match=r"curve: (nbytes: )?expects"):
        Curve(sizes, times)


def test_rates_grow_with_ctas():
    key = (Realization.TMA_DEDICATED, FlowDirection.PUSH, Combining.COPY)
    rates = TransferRates(
        [TransferCurve(*key, ctas, Curve.of_rate(3.0, gbps)) for ctas, gbps in ((8, 200), (4, 120))]
    )

    def gbps(ctas):
        curve, scale = rates.find(*key, ctas)
        return curve.rate(2**26) * scale / 1e3

    assert [gbps(ctas) for ctas in (1, 2, 4, 6, 8, 100)] == pytest.approx(
        [30, 60, 120, 160, 200, 200]
    )


@given(st.data())
def test_shares_are_fair(data):
    """No link is overfull, and who gets less than it asks for has a full link on which nobody gets more."""
    links = data.draw(st.integers(1, 5))
    capacities = data.draw(st.lists(st.floats(1, 100), min_size=links, max_size=links))
    flows = data.draw(st.integers(1, 6))
    routes = [
        sorted(data.draw(st.sets(st.integers(0, links - 1), max_size=3))) for _ in range(flows)
    ]
    demands = data.draw(st.lists(st.floats(0.1, 200), min_size=flows, max_size=flows))
    rates = share_links(demands, routes, capacities)
    used = [
        sum(rate for rate, route in zip(rates, routes, strict=True) if link in route)
        for link in range(links)
    ]
    for total, capacity in zip(used, capacities, strict=True):
        assert total <= capacity * (1 + 1e-6)
    for rate, demand, route in zip(rates, demands, routes, strict=True):
        assert rate <= demand * (1 + 1e-9)
        if rate < demand * (1 - 1e-6):
            assert any(
                used[link] >= capacities[link] * (1 - 1e-6)
                and all(
                    other <= rate * (1 + 1e-6)
                    for other, its in zip(rates, routes, strict=True)
                    if link in its
                )
                for link in route
            )


@pytest.mark.parametrize("name", preset_names())
def test_presets_survive_files(name, tmp_path):
    machine = find_preset(name)
    path = tmp_path / "folder" / "machine.json"
    save_machine(machine, path)
    assert load_machine(path) == machine
    assert ("predicted" in name) == (machine.source is Provenance.DATA_SHEET)
    assert ("predicted" in machine.name) == (machine.source is Provenance.DATA_SHEET)


def test_files_that_are_no_machines_are_refused(tmp_path):
    data = plain_machine(100.0).to_json()
    assert Machine.from_json(json.loads(json.dumps(data))) == plain_machine(100.0)
    with pytest.raises(
        SyncopateError, match="expects a file of version 2, but got 7; measure it again"
    ):
        Machine.from_json({**data, "version": 7})
    with pytest.raises(SyncopateError, match="malformed"):
        Machine.from_json({name: value for name, value in data.items() if name != "curves"})
    with pytest.raises(SyncopateError, match="malformed"):
        Machine.from_json({**data, "source": "guessed"})
    path = tmp_path / "x.json"
    with pytest.raises(SyncopateError, match=r"cannot read .*x\.json"):
        load_machine(path)
    path.write_text("[1]")
    with pytest.raises(SyncopateError, match="holds no machine"):
        load_machine(path)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("sms",), 0, "sms: expects an integer of at least 1, but got 0"),
        (("sms",), True, "sms: expects an integer of at least 1, but got True"),
        (("memory_gbps",), -1, "memory_gbps: expects a finite number above 0, but got -1"),
        (("latencies", "call"), float("nan"), "latencies: call: expects a finite number of at"),
        (("gemm_rates", 0, "step_us"), 0, "gemm_rates: step_us: expects a finite number above 0"),
        (("gemm_rates", 0, "block_m"), "x", "gemm_rates: block_m: expects an integer"),
        (("topology", "link_gbps"), float("inf"), "link_gbps: expects a finite number above 0"),
        (("curves", 0, "ctas"), float("inf"), "curves: ctas: expects an integer of at least 0"),
        (("curves", 0, "curve", "us", 0), float("nan"), "curve: us: expects a finite number"),
        (("collectives", 0, "world_size"), 0, "collectives: world_size: expects an integer"),
        (("burst_us",), -1, "burst_us: expects a finite number of at least 0"),
        (("idle_gain",), None, "idle_gain: expects a finite number above -1, but got None"),
        (("interference", "nccl"), -3, "interference: nccl: expects a finite number"),
        (("row_slowdowns",), [[0, 1.5]], "row_slowdowns: bytes: expects an integer of at least 1"),
        (("name",), [], "name: expects a text, but got []"),
    ],
)
def test_numbers_that_are_none_are_refused(path, value, message):
    data = find_preset("h200-w2").to_json()
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(SyncopateError, match=re.escape(message)):
        Machine.from_json(data)


def test_measurement_goes_before_preset(tmp_path, monkeypatch):
    monkeypatch.setenv("SYNCOPATE_CACHE_DIR", str(tmp_path))
    assert find_machine("NVIDIA H200", 2).name == find_preset("h200-w2").name
    save_machine(plain_machine(100.0), machine_path("NVIDIA H200", 2))
    assert find_machine("NVIDIA H200", 2) == plain_machine(100.0)
    assert find_machine("NVIDIA H100 80GB HBM3", 8).source is Provenance.DATA_SHEET
    with pytest.raises(
        SyncopateError, match="nothing is known of 3 ranks on NVIDIA H200; measure it"
    ):
        find_machine("NVIDIA H200", 3)
    with pytest.raises(SyncopateError, match="expects one of h200-w2"):
        find_preset("abacus")


def test_gemm_in_rounds():
    machine = plain_machine(100.0, sms=4, gemm_rates=(GemmRate(128, 128, 64, "bf16", 0.5, 2.0),))
    cost = gemm_cost(machine, 1000, block_m=128, block_n=128, block_k=64)
    assert cost == KernelCost(2.0 + 16 * 0.5, 128 * 128 * 2, 2.0, 128 * 128 * 4)
    assert predict_gemm_us(machine, cost, 8) == pytest.approx(20)
    # One tile of a last round, on one of four multiprocessors.
    faster = dataclasses.replace(machine, idle_gain=0.4)
    assert predict_gemm_us(faster, cost, 9) == pytest.approx(20 + 10 * (1 - 0.4 * 0.75))
    warm = dataclasses.replace(machine, burst_us=15.0, sustained_slowdown=2.0)
    assert predict_gemm_us(warm, cost, 8) == pytest.approx(15 + 2 * 5)
    aligned = dataclasses.replace(machine, row_slowdowns=((128, 1.1), (32, 1.5)))
    times = [
        gemm_cost(aligned, k, block_m=128, block_n=128, block_k=64).tile_us
        for k in (1024, 1008, 1000)
    ]
    assert times == pytest.approx([2 + 8, 2 + 8 * 1.1, 2 + 8 * 1.5])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tiles": -1}, "tiles: expects an integer of at least 0, but got -1"),
        ({"ctas": 0}, "ctas: expects an integer of at least 1, but got 0"),
        ({"parts": 0}, "parts: expects an integer of at least 1, but got 0"),
    ],
)
def test_gemm_of_impossible_numbers_is_refused(change, message):
    machine = plain_machine(100.0, sms=4, gemm_rates=(GemmRate(128, 128, 64, "bf16", 0.5, 2.0),))
    with pytest.raises(SyncopateError, match="k: expects an integer of at least 1, but got 0"):
        gemm_cost(machine, 0, block_m=128, block_n=128, block_k=64)
    cost = gemm_cost(machine, 1, block_m=128, block_n=128, block_k=64)
    assert predict_gemm_us(machine, cost, 0) == 0
    with pytest.raises(SyncopateError, match=message):
        predict_gemm_us(machine, cost, **{"tiles": 5, **change})


def test_unmeasured_configurations_scale_by_area():
    rates = (GemmRate(128, 256, 64, "bf16", 0.8, 2.0), GemmRate(128, 128, 64, "bf16", 0.5, 1.5))
    machine = plain_machine(100.0, gemm_rates=rates)
    assert machine.find_gemm_rate(128, 256, 64) == rates[0]
    small = machine.find_gemm_rate(64, 128, 32)
    assert (small.step_us, small.tile_us) == pytest.approx((0.125, 0.75))
    with pytest.raises(SyncopateError, match="has no GEMM rate for f8E4M3FN, only for bf16"):
        machine.find_gemm_rate(128, 256, 64, "f8E4M3FN")


def test_collectives_of_other_worlds_are_scaled():
    curve = Curve.of_rate(10.0, 100.0)
    pair = CollectiveCurve("all_reduce", 2, curve)
    machine = plain_machine(100.0, collectives=(pair,))
    assert machine.find_collective("all_reduce", 2) == curve
    # Three times the latency for eight ranks, and 7/8 of the tensor in place of a half of it.
    eight = machine.find_collective("all_reduce", 8)
    assert eight.latency_us == pytest.approx(30)
    assert eight.time_us(1e6) == pytest.approx(30 + 10 * 7 / 4)
    # Four nodes: each rank's adapter carries an eighth of 3/4 of the tensor, at a tenth of the rate.
    nodes = Topology(TopologyKind.TWO_LEVEL, 400.0, node_size=8, node_gbps=40.0)
    cluster = dataclasses.replace(machine, topology=nodes)
    assert cluster.find_collective("all_reduce", 8) == eight
    many = cluster.find_collective("all_reduce", 32)
    assert many.time_us(1e6) == pytest.approx(50 + 10 * max(31 / 32, 10 * 3 / 4 / 8) * 2)
    with pytest.raises(SyncopateError, match="has no curve of all_gather, only of all_reduce"):
        machine.find_collective("all_gather", 2)
