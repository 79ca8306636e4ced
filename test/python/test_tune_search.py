"""The space of a workload, and the search in it by a model."""

import dataclasses
import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tune_fakes import DEFAULT, SPACE, FakeSubject, candidate, made_up_us

from syncopate import GemmWorkload, Strategy, Target, abi
from syncopate.choices import Combine, Direction, Realization, Shots
from syncopate.errors import SyncopateError
from syncopate.kernels import GemmConfig
from syncopate.model import find_preset
from syncopate.strategy import COMM_CTAS
from syncopate.tune import Axis, Candidate, GemmSubject, Space
from syncopate.tune.report import count_reasons
from syncopate.tune.search import Findings, Prepared, Unknown, search
from syncopate.tune.space import TILES, choose_diverse, gemm_space
from syncopate.workloads import GemmKind

MACHINE = find_preset("h200-w2")


def count_by_hand(space: Space) -> int:
    """Goes through all points of all axes."""
    choices = set()
    for points in itertools.product(*(axis.values for axis in space.axes)):
        chosen = {}
        for axis, point in zip(space.axes, points, strict=True):
            if all(chosen.get(name) in values for name, values in axis.given.items()):
                chosen.update(zip(axis.names, point, strict=True))
        choices.add(tuple(chosen.items()))
    return len(choices)


def test_size_counts_what_means_something():
    assert SPACE.size == count_by_hand(SPACE) == (2 + 2 + 2 * 2) * 4 * 3
    workload = GemmWorkload("gemm_rs", 8192, 3584, 8192, 2)
    axes = gemm_space(workload, Candidate(Strategy(), GemmConfig())).axes
    some = {"realization", "splits", "comm_ctas", "waves", "slots", "pause"}
    space = Space(DEFAULT, tuple(axis for axis in axes if axis.names[0] in some))
    assert len(space.axes) == len(some) and space.size == count_by_hand(space)


def test_space_is_described_with_all_its_axes():
    workload = GemmWorkload("gemm_ar", 8192, 8192, 3584, 4)
    space = gemm_space(workload, Candidate(Strategy(), GemmConfig()))
    said = space.describe()
    names = {name for axis in space.axes for name in axis.names}
    expected = {
        "realization", "direction", "combine", "shots", TILES, "splits", "algorithm", "comm_ctas", "waves", "slots",
        "order", "pause", "group_m", "reducing", "gathering",
    }  # fmt: skip
    assert names == expected
    assert all(name in said for name in names)
    assert "group_m: 4 | 8 | 16; by measurement alone" in said
    assert "waves: default | 1 | 2 | 1+2 | 4; with realization nccl" in said


@pytest.mark.parametrize("kind", list(GemmKind))
def test_library_moves_pieces_before_a_gemm_and_takes_tiles_behind_it(kind):
    workload = GemmWorkload(kind, 512, 512, 512, 2)
    space = gemm_space(workload, Candidate(Strategy(), GemmConfig()))
    by_nccl = candidate(realization="nccl")
    names = {name for axis in space.axes if list(axis.moves(by_nccl)) for name in axis.names}
    assert any(Realization.NCCL in point for point in space.axes[0].values)
    assert ("splits" in names) is kind.is_before
    assert ({"waves", "slots"} <= names) is not kind.is_before
    assert {"comm_ctas", "order"} <= names


@pytest.mark.parametrize("kind", list(GemmKind))
def test_between_nodes_the_default_is_the_library(kind):
    flat = gemm_space(GemmWorkload(kind, 512, 512, 512, 4), DEFAULT)
    assert not any("between" in axis.names for axis in flat.axes)
    for size in (1, 2):
        workload = GemmWorkload(kind, 512, 512, 512, 4, node_size=size)
        subject = GemmSubject(workload, Target(), GemmConfig(block_m=64, block_n=64))
        default = subject.space.default
        assert default.strategy.between is Realization.NCCL
        (axis,) = (axis for axis in subject.space.axes if "between" in axis.names)
        assert {move.strategy.between for move in axis.moves(default)} == {
            None,
            Realization.NCCL,
        }
        schedule = workload.schedule(default.strategy, default.config)
        # In any rank's tables, what another node has comes by NCCL, and all else by loads and stores.
        commands = [row for table in schedule.tables for row in table["commands"].rows()]
        nodes = [(row["src_rank"] // size, row["dst_rank"] // size) for row in commands]
        far = [row for row, (a, b) in zip(commands, nodes, strict=True) if a != b]
        near = [row for row, (a, b) in zip(commands, nodes, strict=True) if a == b]
        assert far and {row["realization"] for row in far} == {abi.Realization.NCCL}
        assert abi.Realization.NCCL not in {row["realization"] for row in near}
        assert schedule.num_ctas == Target().num_sms - COMM_CTAS[Realization.NCCL, Direction.PUSH]


@pytest.mark.parametrize("kind", list(GemmKind))
def test_sums_without_an_order_are_asked_for(kind):
    workload = GemmWorkload(kind, 512, 512, 512, 2)
    default = Candidate(Strategy(), GemmConfig())

    def adders(**options):
        axes = gemm_space(workload, default, **options).axes
        return {point for axis in axes if axis.names == ("combine",) for point in axis.values}

    assert (Combine.DESTINATION,) not in adders()
    assert ((Combine.DESTINATION,) in adders(unordered=True)) is kind.sums


def test_candidates_are_read_back():
    some = [
        DEFAULT,
        candidate(realization="nccl", waves=(1, 2), slots="tiles"),
        candidate(combine=Combine.ROLE, shots=Shots.TWO, reducing="ldst_dedicated", pause=0),
        Candidate(Strategy(group_m=4), GemmConfig(block_m=64, num_stages=5, parts=2)),
    ]
    for one in some:
        assert Candidate.from_json(one.to_json()) == one
    assert DEFAULT.to_json() == {"strategy": {}}
    for wrong in ({}, {"strategy": {"fast": 1}}, {"strategy": {"waves": 3}}, {"strategy": None}):
        with pytest.raises(SyncopateError):
            Candidate.from_json(wrong)
    with pytest.raises(SyncopateError, match="block_q"):
        Candidate.from_json({"strategy": {}, "config": {"block_q": 1}})


def test_name_tells_tiles():
    one = Candidate(Strategy(), GemmConfig(block_n=128, num_warps=4, num_stages=4))
    assert one.name == "ldst_colocated/push/by size on 128x128x64, 4 warps, 4 stages"


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6))
def test_search_is_never_worse_than_where_it_starts(seed):
    predicted = lambda one: 50.0 + hash((seed, one.name)) % 997  # noqa: E731
    findings = search(SPACE, lambda one: Prepared(one.name, lambda: predicted(one)))
    best_us, best = findings.ranked()[0]
    assert best_us == predicted(best) <= predicted(DEFAULT)
    assert DEFAULT in findings.predicted


def test_search_finds_the_best_where_axes_do_not_depend_on_each_other():
    weights = {"realization": 30, "direction": 7, "splits": 5}

    def predicted(one):
        spelled = {
            "realization": list(Realization).index(one.strategy.realization) * -1,
            "direction": one.strategy.direction.value == "push",
            "splits": abs(one.strategy.splits - 2),
        }
        return 500 + sum(weights[name] * value for name, value in spelled.items())

    subject = FakeSubject(predicted=predicted)
    findings = search(SPACE, lambda one: subject.prepare(one, None))
    best = findings.ranked()[0][1]
    assert best.strategy.realization is Realization.LDST_COLOCATED
    assert best.strategy.direction.value == "pull" and best.strategy.splits == 2
    assert len(subject.asked) == len(set(subject.asked)) < SPACE.size / 2


def test_search_is_the_same_every_time():
    results = []
    for _ in range(2):
        subject = FakeSubject()
        findings = search(SPACE, lambda one, subject=subject: subject.prepare(one, None))
        results.append((subject.asked, findings.predicted))
    assert results[0] == results[1]


def test_search_ends_when_its_work_is_done(monkeypatch):
    monkeypatch.setattr("syncopate.tune.search.LEAST_LOOKS", 4)
    subject = FakeSubject()
    prepare = lambda one: subject.prepare(one, None)  # noqa: E731
    assert len(search(SPACE, prepare, work=1000, most_work=1).predicted) == 4
    assert len(search(SPACE, prepare, work=1000, most_work=7000).predicted) == 7
    assert len(search(SPACE, prepare).predicted) > 7


def test_candidates_that_are_one_program_count_once():
    prepare = lambda one: Prepared(one.strategy.realization.value, lambda: 1.0)  # noqa: E731
    findings = search(SPACE, prepare)
    assert len(findings.predicted) == 3
    assert findings.same and set(findings.same.values()) <= set(findings.predicted)
    assert findings.considered == len(findings.predicted) + len(findings.same)


def test_checks_and_model_leave_candidates_out_for_different_reasons():
    engine = candidate(realization="copy_engine")
    findings = Findings()
    subject = FakeSubject(refused={engine}, unknown=lambda one: one.strategy.splits == 4)
    for one in (DEFAULT, engine, candidate(splits=4), engine):
        us = findings.look(one, lambda one: subject.prepare(one, None))
        assert (us is None) is (one != DEFAULT)
    assert list(findings.refused) == [engine] and list(findings.unknown) == [candidate(splits=4)]
    assert subject.asked.count(engine) == 1
    assert count_reasons(findings.refused) == {"is not legal": 1}


def test_what_is_measured_is_of_more_than_one_kind():
    ranked = [(float(n), candidate(pause=n)) for n in range(10)]
    ranked += [(20.0, candidate(realization="copy_engine"))]
    chosen = choose_diverse(ranked, 6)
    assert chosen == [candidate(pause=n) for n in range(3)] + [candidate(realization="copy_engine")]


@pytest.mark.parametrize("kind", list(GemmKind))
def test_checks_leave_out_what_a_workload_lacks(kind):
    subject = GemmSubject(GemmWorkload(kind, 2048, 1024, 1024, 2), Target())
    findings = search(subject.space, lambda one: subject.prepare(one, MACHINE), work=subject.work)
    default = findings.predicted[subject.space.default]
    assert findings.ranked()[0][0] <= default
    assert all(math.isfinite(us) for us in findings.predicted.values())
    refused = " ".join(findings.refused.values())
    if kind in (GemmKind.AG_GEMM, GemmKind.A2A_GEMM):
        assert "op expects" in refused


def test_target_leaves_out_what_it_lacks():
    subject = GemmSubject(GemmWorkload("ag_gemm", 2048, 1000, 1000, 2, "f32"), Target(80, 108))
    one = dataclasses.replace(subject.space.default.strategy, realization="tma_dedicated")
    with pytest.raises(SyncopateError) as error:
        subject.prepare(Candidate(one, subject.space.default.config), MACHINE)
    assert not isinstance(error.value, Unknown)


def test_model_does_not_rank_tiles_that_were_not_measured():
    subject = GemmSubject(GemmWorkload("ag_gemm", 4096, 4096, 1024, 2), Target())
    for config in (
        GemmConfig(block_m=256, block_n=128),
        GemmConfig(block_n=128, num_warps=8, num_stages=4),
    ):
        with pytest.raises(Unknown, match="has no rate for"):
            subject.prepare(Candidate(Strategy(), config), MACHINE)


def test_tiles_that_are_given_stay():
    config = GemmConfig(block_m=64, block_n=64)
    subject = GemmSubject(GemmWorkload("ag_gemm", 4096, 4096, 1024, 2), Target(), config)
    assert all(TILES not in axis.names for axis in subject.space.axes)
    assert subject.space.default.config == config
    assert subject.data["tiles"] == {"block_m": 64, "block_n": 64}
    other = Candidate(Strategy(splits=2), GemmConfig())
    assert subject.adapt(other) == Candidate(Strategy(splits=2), config)


def test_axis_moves_along_itself_alone():
    axis = Axis(("comm_ctas",), ((4,), (0,)), {"realization": (Realization.LDST_DEDICATED,)})
    assert not list(axis.moves(DEFAULT))
    dedicated = candidate(realization="ldst_dedicated")
    assert list(axis.moves(dedicated)) == [candidate(realization="ldst_dedicated", comm_ctas=4)]
    assert made_up_us(DEFAULT) == made_up_us(candidate())
