"""Synthesized schedules: that they are the collective, on any links, and what they take."""

import itertools
import json

import numpy as np
import pytest

import syncopate
from syncopate.cli import main
from syncopate.errors import SyncopateError
from syncopate.importers.names import Source
from syncopate.importers.steps.proof import prove
from syncopate.ir import new_context, parse, run_pipeline
from syncopate.kernels import GemmConfig, bind_gemm, gemm
from syncopate.model import Topology, TopologyKind
from syncopate.model.fabric_file import find_fabric
from syncopate.plan.kinds import Collective
from syncopate.sim.check import check_plan
from syncopate.synthesis import Fabric, Wire, find_bound_us, synthesize, time_steps

pytestmark = pytest.mark.any_triton

CHECKS = "chunk.plan(chunk-split-transfers{splits=2},chunk-check-plan,chunk-check-claims)"
MIB = 1 << 20


def ring(ranks, gbps=50.0):
    pairs = {
        pair: Wire(f"rank {pair[0]}", f"rank {pair[1]}", gbps, 2.0)
        for rank in range(ranks)
        for pair in ((rank, (rank + 1) % ranks), ((rank + 1) % ranks, rank))
    }
    return Fabric("ring", ranks, tuple(pairs.values()))


def line_one_way_back(ranks):
    """Ranks in a row, and one slow link from the last to the first: hops have no reverse."""
    wires = [Wire(f"rank {rank}", f"rank {rank + 1}", 40.0, 1.0) for rank in range(ranks - 1)]
    return Fabric("line", ranks, (*wires, Wire(f"rank {ranks - 1}", "rank 0", 7.0, 3.0)))


def of(kind, ranks, *numbers):
    return Fabric.of(Topology(kind, *numbers), ranks, latency_us=3.0)


FABRICS = [
    of(TopologyKind.ALL_TO_ALL, 3, 100.0),
    of(TopologyKind.SWITCH, 5, 100.0),
    of(TopologyKind.PCIE_TREE, 6, 25.0, 3, 20.0, 1.0),
    of(TopologyKind.TWO_LEVEL, 6, 300.0, 3, 40.0, 5.0),
    ring(5),
    line_one_way_back(4),
]


@pytest.mark.parametrize("fabric", FABRICS, ids=lambda fabric: fabric.name)
@pytest.mark.parametrize("kind", Collective, ids=lambda kind: kind.value)
def test_schedules_are_the_collective_in_memory_of_any_shape(fabric, kind):
    found = synthesize(kind, fabric, MIB, chunks=2, tries=2, root=fabric.ranks - 1)
    # Proved on cells, which the search does not go by, and by the compiler, on rows that do not divide.
    prove(found.steps)
    for source in Source:
        if source is Source.TILES and kind is Collective.BROADCAST:
            continue
        rows = 7 * fabric.ranks + (kind is not Collective.ALL_TO_ALL)
        plan = found.emit((rows, 3), "bf16", source=source).plan
        assert plan.text.count("chunk.claim") == 1
        run_pipeline(parse(plan.text, new_context()), CHECKS)
    assert found.us >= found.bound_us * 0.999
    # Whoever reads the moves alone finds the same time.
    assert time_steps(found.steps, fabric, MIB).us == pytest.approx(found.us)


def test_wires_are_never_shared():
    fabric = FABRICS[2]
    found = synthesize("all_gather", fabric, MIB, chunks=3, tries=3)
    by_wire = {}
    for move, span in zip(found.steps.moves, found.timed.spans, strict=True):
        for wire in fabric.hops[move.src.rank, move.dst.rank].wires:
            by_wire.setdefault(wire, []).append((span.begin_us, span.end_us))
    assert len(by_wire) == len(fabric.wires)
    for spans in by_wire.values():
        for (_, end), (begin, _) in itertools.pairwise(sorted(spans)):
            assert begin >= end * (1 - 1e-9)


def test_seeds_decide_and_repeat():
    fabric = FABRICS[2]

    def moves(seed):
        return synthesize("all_gather", fabric, MIB, chunks=2, seed=seed, tries=2).steps.moves

    assert moves(1) == moves(1)
    assert len({tuple(map(str, moves(seed))) for seed in range(6)}) > 1


def test_best_of_more_tries_is_no_worse():
    times = [synthesize("all_reduce", FABRICS[2], MIB, tries=tries).us for tries in (1, 4, 12)]
    assert times == sorted(times, reverse=True)


def test_judge_decides():
    fabric, seen = FABRICS[2], []

    def slowest(steps):
        seen.append(time_steps(steps, fabric, MIB).us)
        return -seen[-1]

    assert synthesize("all_gather", fabric, MIB, tries=6, judge=slowest).us == max(seen)
    assert len(seen) == 6
    assert max(seen) > min(seen)


def test_two_levels_are_used_as_they_should():
    """Each block crosses to the other node once, though the matcher knows of no nodes."""
    fabric = of(TopologyKind.TWO_LEVEL, 8, 400.0, 4, 40.0, 5.0)
    found = synthesize("all_gather", fabric, 64 * MIB)
    crossing = [move for move in found.steps.moves if move.src.rank // 4 != move.dst.rank // 4]
    assert sorted(cell for move in crossing for _, _, cell in move.src) == list(range(8))


@pytest.mark.parametrize("kind", Collective, ids=lambda kind: kind.value)
def test_programs_find_fewest_epochs(kind):
    pytest.importorskip("scipy")
    fabric = ring(4)
    greedy = synthesize(kind, fabric, MIB, tries=1)
    best = synthesize(kind, fabric, MIB, method="milp", limit_s=30)
    prove(best.steps)
    assert best.is_optimal == (kind is not Collective.ALL_REDUCE)
    assert best.us <= greedy.us * 1.001
    epoch = fabric.hops[0, 1].time_us(MIB if kind is Collective.BROADCAST else MIB / 4)
    # By counting: in an epoch a rank of a ring of four takes two blocks at most, and lacks three.
    epochs = 4 if kind is Collective.ALL_REDUCE else 2
    assert best.us == pytest.approx(epochs * epoch, rel=1e-6)


def test_program_beats_the_matcher_where_that_is_short_sighted():
    pytest.importorskip("scipy")
    found = [
        synthesize("all_to_all", ring(4), MIB, tries=1, method=method)
        for method in ("greedy", "milp")
    ]
    assert found[1].us < found[0].us * 0.7


def test_times_of_a_hop_are_by_hand():
    fabric = of(TopologyKind.PCIE_TREE, 4, 25.0, 2, 20.0, 1.0)
    near, far = fabric.hops[0, 1], fabric.hops[0, 2]
    assert (near.latency_us, near.gbps, len(near.wires)) == (3.0, 25.0, 2)
    assert (far.latency_us, far.gbps, len(far.wires)) == (4.0, 20.0, 3)
    assert far.time_us(20_000) == pytest.approx(4.0 + 1.0)


def test_bound_of_a_broadcast_is_its_slowest_receiver():
    fabric = line_one_way_back(3)
    assert find_bound_us(Collective.BROADCAST, fabric, 40_000) == pytest.approx(1.0 + 1.0)


def test_fabrics_survive_a_file(tmp_path):
    file = tmp_path / "f.json"
    for fabric in FABRICS:
        file.write_text(str(fabric))
        assert find_fabric(str(file)) == fabric


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": 2}, '"version": 1'),
        ({"ranks": 1}, r"ranks: expects a number in \[2, 4096\], but got 1"),
        ({"wires": {}}, "expects a list of wires"),
        ({"wires": [{"src": "rank 0", "dst": "rank 1"}]}, r"wires\[0\]: expects src, dst, gbps"),
        (
            {"wires": [{"src": "rank 0", "dst": "rank 1", "gbps": "1"}]},
            r"wires\[0\]: expects names of ends, and numbers",
        ),
        (
            {"wires": [{"src": "rank 0", "dst": "rank 2", "gbps": 1}]},
            r"wires\[0\]: expects ranks in \[0, 2\), but got 'rank 2'",
        ),
        (
            {"wires": [{"src": "rank 0", "dst": "rank 1", "gbps": 0}]},
            r"wires\[0\]: expects a positive rate",
        ),
        (
            {"wires": [{"src": "rank 0", "dst": "rank 1", "gbps": 10**400}]},
            r"wires\[0\]: expects numbers of at most 10\^308",
        ),
        (
            {"wires": [{"src": "rank 0", "dst": "rank 1", "gbps": 1}]},
            "expects a way to rank 0 from rank 1, but got none",
        ),
        (
            {"wires": [{"src": "rank 0", "dst": "rank 1", "gbps": 1}] * 2},
            r"wires\[1\]: expects one wire between two different ends",
        ),
    ],
)
def test_malformed_fabrics_are_refused(change, said, tmp_path):
    data = {"version": 1, "name": "f", "ranks": 2, "wires": ring(2).to_json()["wires"], **change}
    file = tmp_path / "f.json"
    file.write_text(json.dumps(data))
    with pytest.raises(SyncopateError, match=said):
        find_fabric(str(file))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"collective": "gather"}, "collective: expects one of all_gather, .*, but got 'gather'"),
        ({"method": "magic"}, "method: expects one of greedy, milp, but got 'magic'"),
        ({"chunks": 0}, r"chunks: expects a number in \[1, 4097\), but got 0"),
        ({"root": 3}, r"root: expects a number in \[0, 3\), but got 3"),
        ({"nbytes": -1}, r"nbytes: expects a positive number of at most 10\^30, but got -1"),
        ({"nbytes": 10**400}, "nbytes: expects a positive number of at most"),
        ({"limit_s": "long"}, "limit_s: expects a positive number of .*, but got 'long'"),
        ({"seed": 1.5}, "seed: expects an integer, but got 1.5"),
        ({"reduction": "mean"}, "reduction: expects sum, max or min, but got 'mean'"),
    ],
)
def test_wrong_arguments_are_refused(arguments, said):
    given = {"collective": "broadcast", "fabric": FABRICS[0], "nbytes": MIB, **arguments}
    with pytest.raises(SyncopateError, match=said):
        synthesize(**given)


@pytest.mark.parametrize("kind", ["all_to_all", "reduce_scatter"])
def test_tiles_read_blocks_of_one_size_only(kind):
    found = synthesize(kind, ring(3), MIB, tries=1)
    with pytest.raises(SyncopateError, match="expects a multiple of 3 rows for a kernel"):
        found.emit((10, 5), "bf16", kernel=True)
    assert "chunk.kernel" in found.emit((9, 5), "bf16", kernel=True).plan.text


def test_ranks_without_rows_of_a_sum_give_none_back():
    """Two rows are too few for three ranks."""
    made = synthesize("reduce_scatter", ring(3), MIB, tries=1).emit(
        (2, 5), "bf16", source=Source.TILES, kernel=True
    )
    report = check_plan(made.plan.text, seeds=1)
    assert report.ok, report


def test_found_plan_is_fused_with_a_gemm():
    config = GemmConfig(block_m=32, block_n=32, block_k=32, num_warps=4, num_ctas=2)
    fabric = of(TopologyKind.TWO_LEVEL, 4, 300.0, 2, 40.0, 5.0)
    made = synthesize("reduce_scatter", fabric, MIB).emit((128, 64), "f32", source=Source.TILES)
    a = syncopate.Tensor("a", (128, 32), "f32")
    program = syncopate.compile(gemm, made.plan, **bind_gemm(a, 64, config, c=made.given))
    result = program.simulate(calls=2, seed=1)
    assert result.verdict.ok, result.verdict
    for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
        parts = zip(inputs["a"], inputs["b"], strict=True)
        whole = sum(x.astype(np.float64) @ y.astype(np.float64).T for x, y in parts)
        found = np.concatenate(outputs["data"])
        assert np.abs(found - whole).max() < 5e-3 * np.abs(whole).max()


def test_command_writes_a_plan_that_checks(tmp_path, capsys):
    plan = tmp_path / "p.mlir"
    words = ["synthesize", "all_reduce", "--fabric", "h100-w8-predicted", "--ranks", "3"]
    words += ["--shape", "12x4", "--dtype", "f32", "--source", "tiles", "--kernel"]
    assert main([*words, "--out", str(plan)]) == 0
    assert "12 transfers, " in capsys.readouterr().err
    assert main(["check", str(plan), "--seeds", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"]
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["moves"] == 12


def test_command_prints_links_for_files(tmp_path, capsys):
    file = tmp_path / "f.json"
    assert main(["fabric", "h200-w2", "--ranks", "2", "--out", str(file)]) == 0
    assert main(["synthesize", "all_gather", "--fabric", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["fabric"] == "h200-w2, 2 ranks"
    for words, said in (
        (["fabric", "h200-w2"], "ranks: expects a number, which machine h200-w2 leaves open"),
        (["fabric", "nothing", "--ranks", "2"], "fabric: expects a file that ends in .json"),
        (["fabric", str(file), "--ranks", "3"], "ranks: h200-w2, 2 ranks has 2, but got 3"),
        (["fabric", str(tmp_path / "no.json")], "fabric: cannot read"),
    ):
        assert main(words) == 1
        assert said in capsys.readouterr().err
