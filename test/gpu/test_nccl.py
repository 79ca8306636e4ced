"""GEMMs with library calls: on two GPUs with NCCL, and on several ranks of one GPU with the group's own library."""

import pytest
from processes import expect_all_pass

pytest.importorskip("torch")
pytest.importorskip("triton")
import levels
import torch
from library_calls import KINDS, build, relative_error

from syncopate.runtime import load


@pytest.mark.gpu(2)
def test_two_processes():
    expect_all_pass("run_two_gpus.py", "--limit", "60", "--calls")


@pytest.mark.gpu(1)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("world", [2, 3, 4])
@pytest.mark.parametrize("slots", ["rows", "tiles"])
@pytest.mark.parametrize("waves", [(), (1, 2)])
def test_ranks_on_one_gpu(groups, kind, world, slots, waves):
    group = groups(world)
    rows = 256 * world if kind == "all_to_all" else 200 * world + 13
    shape = (rows, 648, 136)
    work = build(kind, world, shape, group.sms_per_rank(0), waves=waves, slots=slots)
    with load(work.program, group) as loaded:
        for call in range(20):
            a, b = work.inputs(call)
            outputs = loaded(a=a, b=b)
            for rank, out in enumerate(outputs):
                error = relative_error(out, work.expected(a, b, rank))
                assert error < 1e-2, f"call {call}, rank {rank}: {error}"
        loaded.synchronize()


@pytest.mark.gpu(1)
@pytest.mark.parametrize("kind", levels.KINDS)
@pytest.mark.parametrize("mesh", [(2, 1), (2, 2)])
@pytest.mark.parametrize("realization", ["ldst_colocated", "copy_engine"])
def test_two_levels_on_one_gpu(groups, kind, mesh, realization):
    world = mesh[0] * mesh[1]
    group = groups(world)
    shape = (256 * world, 384, 200)
    work = levels.build(kind, mesh, shape, group.sms_per_rank(0), realization)
    with load(work.program, group) as loaded:
        for call in range(20):
            a, b = work.inputs(call)
            outputs = loaded(**{work.input: a, "b": b})
            for rank, out in enumerate(outputs):
                error = relative_error(out, work.expected(a, b, rank))
                assert error < 1e-2, f"call {call}, rank {rank}: {error}"
        loaded.synchronize()


@pytest.mark.gpu(2)
def test_two_hosts():
    expect_all_pass("two_hosts.py", limit_s=900)


@pytest.mark.gpu(1)
@pytest.mark.parametrize("kind", KINDS)
def test_graph_on_one_gpu(groups, kind):
    group = groups(2)
    work = build(kind, 2, (512, 384, 136), group.sms_per_rank(0), waves=(1,), slots="tiles")
    with load(work.program, group) as loaded:
        a, b = work.inputs(0)
        loaded(a=a, b=b)
        loaded.synchronize()
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured, capture_error_mode="thread_local"):
            outputs = loaded(a=a, b=b)
        for replay in range(1, 101):
            more = work.inputs(replay)
            for old, new in zip((*a, *b), (*more[0], *more[1]), strict=True):
                old.copy_(new)
            captured.replay()
            for rank, out in enumerate(outputs):
                error = relative_error(out, work.expected(*more, rank))
                assert error < 1e-2, f"replay {replay}, rank {rank}: {error}"
        loaded.synchronize()
