"""Profiles of calls on several ranks of one GPU."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
import torch
from profiled import STEP_US, check_profile, profiled_program
from workloads import random_matrix

from syncopate.errors import SyncopateError
from syncopate.profile import SpanKind
from syncopate.runtime import load

pytestmark = pytest.mark.gpu(1)


def inputs(kind, world):
    rows = 2048 // world if kind == "ag_gemm" else 2048
    return {
        "a": [random_matrix((rows, 512), rank) for rank in range(world)],
        "b": [random_matrix((1024, 512), 100 + rank) for rank in range(world)],
    }


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize(
    ("kind", "realization"),
    [
        ("ag_gemm", "ldst_colocated"),
        ("ag_gemm", "tma_colocated"),
        ("ag_gemm", "tma_dedicated"),
        ("ag_gemm", "copy_engine"),
        ("gemm_rs", "ldst_colocated"),
        ("gemm_rs", "ldst_dedicated"),
    ],
)
def test_profile_of_a_call(groups, world, kind, realization):
    group = groups(world)
    program = profiled_program(kind, realization, world, 24 // world)
    given = inputs(kind, world)
    with load(program, group) as loaded:
        before = [out.clone() for out in loaded(**given)]
        profile = loaded.profile(**given)
        # Ranks on one GPU have one clock.
        check_profile(program, profile, within_us=STEP_US)
        assert "one clock" in profile.run.clock
        moved = {s.key for t in profile.run.tracks for s in t.of_kind(SpanKind.TRANSFER)}
        assert bool(moved) == (realization != "copy_engine")
        again = loaded.profile(**given)
        assert len(again.runs) == 1 and again.run.us != profile.run.us
        after = [out.clone() for out in loaded(**given)]
        loaded.synchronize()
        assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_full_lanes_are_counted(groups, monkeypatch):
    monkeypatch.setattr("syncopate.runtime.rank_state.DEFAULT_RECORDS", 4)
    program = profiled_program("ag_gemm", "ldst_colocated", 2, 12)
    with load(program, groups(2)) as loaded:
        profile = loaded.profile(**inputs("ag_gemm", 2))
        loaded.synchronize()
    assert profile.dropped > 0
    assert all(len(lane.records) <= 4 for own in profile.ranks for lane in own.lanes)
    assert "records did not fit" in profile.explain()


def test_a_program_without_records_is_refused(groups):
    from syncopate import GemmWorkload, Strategy
    from syncopate.kernels import GemmConfig

    workload = GemmWorkload("ag_gemm", m=512, n=256, k=256, world_size=2)
    strategy = Strategy(realization="ldst_colocated")
    program = workload.compile(strategy, config=GemmConfig(block_n=128, num_ctas=4))
    with (
        load(program, groups(2)) as loaded,
        pytest.raises(SyncopateError, match="compile it with profile=True"),
    ):
        loaded.profile()
