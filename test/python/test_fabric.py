"""Links as one graph, for the cost model and for synthesis."""

import dataclasses
import json
import time

import numpy as np
import pytest

from model_machines import NO_LATENCY, plain_machine
from syncopate.cli import main
from syncopate.errors import SyncopateError
from syncopate.model import (
    KernelCost,
    Topology,
    TopologyKind,
    find_lower_bound,
    load_machine,
    predict,
    save_machine,
)
from syncopate.model.fabric_file import find_fabric
from syncopate.synthesis import Fabric, Wire
from syncopate.workloads import GemmWorkload

pytestmark = pytest.mark.any_triton

TREE = Topology(TopologyKind.PCIE_TREE, 25, node_size=4, node_gbps=20, node_latency_us=1)
NODES = Topology(TopologyKind.TWO_LEVEL, 400, node_size=8, node_gbps=46, node_latency_us=5)


def test_shapes_are_links_of_any_number_of_ranks():
    def names(topology, ranks, src, dst):
        fabric = Fabric.of(topology, ranks, latency_us=2.0)
        wires = [fabric.wires[wire] for wire in fabric.hop(src, dst).wires]
        return [(wire.src, wire.dst, wire.gbps) for wire in wires]

    switch = Topology(TopologyKind.SWITCH, 400)
    assert names(switch, 8, 2, 5) == [("rank 2", "switch", 400), ("switch", "rank 5", 400)]
    pair = Topology(TopologyKind.ALL_TO_ALL, 400)
    assert names(pair, 3, 1, 0) == [("rank 1", "rank 0", 400)]
    assert names(TREE, 7, 1, 3) == [("rank 1", "socket 0", 25), ("socket 0", "rank 3", 25)]
    assert names(TREE, 7, 1, 6)[1] == ("socket 0", "socket 1", 20)
    assert names(NODES, 1001, 9, 15) == [("rank 9", "switch 1", 400), ("switch 1", "rank 15", 400)]
    assert names(NODES, 1001, 1000, 7) == [("rank 1000", "network", 46), ("network", "rank 7", 46)]
    # Nothing leads to where nobody is: one node needs no network, and a rank alone in a node no switch.
    ends = {wire.dst for wire in Fabric.of(NODES, 8, latency_us=2.0).wires}
    assert "network" not in ends and "switch 0" in ends
    assert "switch 1" not in {wire.dst for wire in Fabric.of(NODES, 9, latency_us=2.0).wires}
    with pytest.raises(SyncopateError, match="two_level expects a positive node_size"):
        Topology(TopologyKind.TWO_LEVEL, 400)


def random_fabric(draw):
    """A ring, so that all are connected, with wires between anything; many ways are equally long."""
    ranks, middles = int(draw.integers(2, 6)), int(draw.integers(0, 4))
    names = [f"rank {rank}" for rank in range(ranks)] + [
        f"switch {each}" for each in range(middles)
    ]
    pairs = {(names[rank], names[(rank + 1) % ranks]) for rank in range(ranks)}
    pairs |= {(src, dst) for src in names for dst in names if src != dst and draw.random() < 0.3}
    wires = [Wire(*pair, *map(float, draw.integers(1, 4, 2))) for pair in sorted(pairs)]
    return Fabric("random", ranks, tuple(wires))


def ways(fabric, at, used, seen):
    """All ways from a vertex that end at a rank, without going in circles."""
    for number, wire in enumerate(fabric.wires):
        if wire.src == at and wire.dst not in seen:
            if wire.dst.startswith("rank "):
                yield wire.dst, [*used, number]
            else:
                yield from ways(fabric, wire.dst, [*used, number], {*seen, wire.dst})


@pytest.mark.parametrize("seed", range(20))
def test_hops_are_the_best_of_all_ways(seed):
    fabric = random_fabric(np.random.default_rng(seed))
    best = {}
    for src in range(fabric.ranks):
        for end, way in ways(fabric, f"rank {src}", [], {f"rank {src}"}):
            wires = [fabric.wires[number] for number in way]
            cost = sum(wire.latency_us for wire in wires), -min(wire.gbps for wire in wires)
            ends = src, int(end.removeprefix("rank "))
            best[ends] = min(best.get(ends, cost), cost)
    assert {ends: (hop.latency_us, -hop.gbps) for ends, hop in fabric.hops.items()} == best
    assert fabric.nearest_us == min(latency for latency, _ in best.values())
    for (src, dst), hop in fabric.hops.items():
        assert fabric.hop(src, dst) is hop
        wires = [fabric.wires[number] for number in hop.wires]
        chain = [f"rank {src}", *(wire.dst for wire in wires)]
        assert [wire.src for wire in wires] == chain[:-1] and chain[-1] == f"rank {dst}"


def test_thousands_of_ranks_take_seconds(capsys):
    begin = time.process_time()
    assert main(["fabric", "h100-w1024-predicted", "--ranks", "4096"]) == 0
    assert len(json.loads(capsys.readouterr().out)["wires"]) == 4 * 4096
    fabric = find_fabric("rtx4090-pcie-w8-predicted", 512)
    far = fabric.hop(5, 511)
    assert len(far.wires) == 3 and fabric.nearest_us < far.latency_us
    # A look at each pair of ranks would take minutes.
    assert time.process_time() - begin < 20
    assert main(["fabric", "h200-w2", "--ranks", "2000"]) == 1
    assert "all_to_all expects at most 2097152 links" in capsys.readouterr().err


def predictions(machine, ranks):
    workload = GemmWorkload("gemm_rs", 512 * ranks, 512, 512, ranks)
    config = workload.choose_config()
    strategy = dataclasses.replace(workload.default_strategy(config), realization="copy_engine")
    schedule = workload.schedule(strategy, config)
    cost = KernelCost(3.0)
    return predict(schedule, cost, machine), find_lower_bound(schedule, cost, machine)


@pytest.mark.parametrize("topology", [TREE, NODES], ids=lambda topology: topology.kind.value)
def test_machines_have_links_of_a_shape_or_of_a_file(topology, tmp_path):
    latencies = dataclasses.replace(NO_LATENCY, flag_remote=2.0)
    shaped = plain_machine(1e5, topology=topology, latencies=latencies)
    # What NVML or a file says is the links of one number of ranks, with latencies of their own.
    given = dataclasses.replace(shaped, topology=Fabric.of(topology, 10, latency_us=7.0))
    save_machine(given, tmp_path / "machine.json")
    read = load_machine(tmp_path / "machine.json")
    assert read == given
    for one, other in zip(predictions(shaped, 10), predictions(read, 10), strict=True):
        assert one.us == pytest.approx(other.us)
    timeline, bound = predictions(read, 10)
    slow = dataclasses.replace(read, topology=read.topology.at_rate(read.topology.link_gbps / 100))
    later, higher = predictions(slow, 10)
    assert later.us > 10 * timeline.us and higher.link_us == pytest.approx(100 * bound.link_us)
    assert find_fabric(str(tmp_path / "machine.json")) == given.topology
    with pytest.raises(SyncopateError, match="by hand: has the links of 10 ranks, but got 4"):
        predictions(read, 4)
