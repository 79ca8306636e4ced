"""Programs with several ranks on one GPU: correctness over many calls, graphs, and time limits."""

import random
import time

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
import torch
from workloads import (
    GATHER_CASES,
    GATHER_SHAPES,
    GEMM_CASES,
    GEMM_SIZES,
    MIXED_CASES,
    gather_workload,
    gemm_sizes,
    gemm_workload,
    mixed_workload,
    random_matrix,
)

from syncopate.abi import Realization, StateWord
from syncopate.errors import DeviceWaitTimeout, SyncopateError
from syncopate.runtime import load

pytestmark = pytest.mark.gpu(1)

ODD = GATHER_SHAPES[1]
LDST, ENGINE = Realization.LDST_COLOCATED, Realization.COPY_ENGINE


def gather(group, algorithm, realization, shape, **options):
    ctas = options.pop("num_ctas", group.sms_per_rank(0))
    return gather_workload(group.world_size, algorithm, realization, shape, ctas, **options)


def gemm(group, algorithm, realization, splits, size):
    ctas = group.sms_per_rank(0)
    return gemm_workload(group.world_size, algorithm, realization, size, ctas, splits=splits)


def arguments(work, group, whole):
    """A call's arguments, outputs poisoned."""
    per_rank = [work.tensors(rank) for rank in group.local_ranks]
    return {
        "a": [work.shard(whole, rank) for rank in group.local_ranks],
        work.output: [work.poisoned() for _ in group.local_ranks],
        **{name: [tensors[name] for tensors in per_rank] for name in per_rank[0]},
    }


def wrong_ranks(work, outputs, whole):
    return [rank for rank, out in enumerate(outputs) if work.wrong(out, whole, rank)]


def delay(group, dice):
    """Holds up one rank's stream for up to some 100 us."""
    rank = dice.randrange(group.world_size)
    with torch.cuda.stream(torch.cuda.ExternalStream(group.stream(rank))):
        torch.cuda._sleep(dice.randrange(1, 200_000))


def run_many_calls(work, group, batches=10, calls=20):
    dice = random.Random(group.world_size)
    with load(work.program, group) as loaded:
        for batch in range(batches):
            # Ranks drift apart within a batch, and calls overlap: what flags and guards are for.
            kept = []
            with loaded.detached():
                for call in range(calls):
                    whole = work.random(100 * batch + call)
                    passed = arguments(work, group, whole)
                    delay(group, dice)
                    loaded(**passed)
                    kept.append((whole, passed))
            loaded.synchronize()
            for call, (whole, passed) in enumerate(kept):
                assert not wrong_ranks(work, passed[work.output], whole), (batch, call)


def run_graph(work, group, replays=1000):
    with load(work.program, group) as loaded:
        passed = arguments(work, group, work.random(0))
        loaded(**passed)
        loaded.synchronize()
        stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        with torch.cuda.stream(stream), torch.cuda.graph(graph, stream=stream):
            loaded(**passed)
        for replay in range(replays):
            whole = work.random(replay)
            for rank, tensor in enumerate(passed["a"]):
                tensor.copy_(work.shard(whole, rank))
            for tensor in passed[work.output]:
                tensor.fill_(float("nan"))
            graph.replay()
            assert replay % 10 or not wrong_ranks(work, passed[work.output], whole), replay
        loaded.synchronize()
        # Ordinary calls go on where the replays stopped.
        whole = work.random(5000)
        assert not wrong_ranks(work, loaded(**arguments(work, group, whole)), whole)


@pytest.mark.parametrize("world", [2, 3, 4, 8])
@pytest.mark.parametrize(("algorithm", "realization"), GATHER_CASES)
@pytest.mark.parametrize("shape", GATHER_SHAPES)
def test_gather_is_right_call_after_call(groups, world, algorithm, realization, shape):
    run_many_calls(gather(groups(world), algorithm, realization, shape), groups(world))


@pytest.mark.parametrize("world", [2, 3, 4, 8])
@pytest.mark.parametrize(("algorithm", "realization", "splits"), GEMM_CASES)
@pytest.mark.parametrize("size", GEMM_SIZES)
def test_gemm_is_right_call_after_call(groups, world, algorithm, realization, splits, size):
    if size not in gemm_sizes(realization):
        pytest.skip("TMA needs rows of a multiple of 16 bytes")
    run_many_calls(gemm(groups(world), algorithm, realization, splits, size), groups(world))


@pytest.mark.parametrize("world", [2, 3, 4, 8])
@pytest.mark.parametrize(("algorithm", "mix"), MIXED_CASES)
def test_mixed_plan_is_right_call_after_call(groups, world, algorithm, mix):
    group = groups(world)
    ctas = group.sms_per_rank(0)
    run_many_calls(mixed_workload(world, algorithm, mix, gemm_sizes(*mix)[-1], ctas), group)


@pytest.mark.parametrize(("algorithm", "mix"), MIXED_CASES)
def test_mixed_plan_in_a_graph(groups, algorithm, mix):
    group = groups(2)
    ctas = group.sms_per_rank(0)
    run_graph(mixed_workload(2, algorithm, mix, GEMM_SIZES[1], ctas), group)


@pytest.mark.parametrize("realization", [Realization.LDST_COLOCATED, Realization.COPY_ENGINE])
def test_gather_in_a_graph_ten_thousand_times(groups, realization):
    run_graph(gather(groups(2), "push", realization, ODD), groups(2), replays=10_000)


@pytest.mark.parametrize(("algorithm", "realization"), GATHER_CASES)
def test_gather_in_a_graph(groups, algorithm, realization):
    run_graph(gather(groups(2), algorithm, realization, ODD), groups(2))


@pytest.mark.parametrize(("algorithm", "realization", "splits"), GEMM_CASES)
def test_gemm_in_a_graph(groups, algorithm, realization, splits):
    run_graph(gemm(groups(2), algorithm, realization, splits, GEMM_SIZES[1]), groups(2))


@pytest.mark.parametrize(("algorithm", "realization"), GATHER_CASES)
def test_zero_copy_input_is_read_in_place(groups, algorithm, realization):
    group = groups(3)
    work = gather(group, algorithm, realization, ODD)
    with load(work.program, group) as loaded:
        for call in range(50):
            whole = work.random(call)
            loaded.acquire()
            for rank in group.local_ranks:
                loaded.input("a", rank).copy_(work.shard(whole, rank))
            out = loaded(out=[work.poisoned() for _ in group.local_ranks])
            assert not wrong_ranks(work, out, whole), call
        loaded.synchronize()


def test_two_programs_take_turns_and_run_together(groups):
    group = groups(2)
    half = group.sms_per_rank(0) // 2
    first = gather(group, "push", LDST, ODD, num_ctas=half)
    second = gather(group, "pull", ENGINE, ODD, num_ctas=half)
    with load(first.program, group) as one, load(second.program, group) as two:
        side = torch.cuda.Stream()
        for call in range(100):
            a, b = first.random(call), second.random(1000 + call)
            passed = arguments(second, group, b)
            side.wait_stream(torch.cuda.current_stream())
            out_one = one(**arguments(first, group, a))
            with torch.cuda.stream(side if call % 2 else torch.cuda.current_stream()):
                out_two = two(**passed)
            torch.cuda.current_stream().wait_stream(side)
            assert not wrong_ranks(first, out_one, a), call
            assert not wrong_ranks(second, out_two, b), call


@pytest.mark.parametrize(("algorithm", "realization"), GATHER_CASES)
def test_missing_rank_is_an_error_and_nothing_hangs(groups, algorithm, realization):
    group = groups(3)
    work = gather(group, algorithm, realization, ODD, timeout_ns=500_000_000)
    loaded = load(work.program, group)
    # Rank 2 does not take part: what a failed process looks like to the others.
    absent = loaded._ranks.pop(2)
    passed = {name: tensors[:2] for name, tensors in arguments(work, group, work.random(0)).items()}
    start = time.monotonic()
    loaded(**passed)
    with pytest.raises(DeviceWaitTimeout) as caught:
        loaded.synchronize()
    torch.cuda.synchronize()
    assert time.monotonic() - start < 10
    assert caught.value.rank in (0, 1)
    # In a ring, rank 1 may be the first to notice, and it waits for rank 0 to pass on what rank 2 owes.
    assert algorithm == "ring" or "rank 2" in str(caught.value)
    with pytest.raises(DeviceWaitTimeout):
        loaded(**passed)
    loaded._ranks[2] = absent
    loaded.close()


@pytest.mark.parametrize(("algorithm", "realization"), GATHER_CASES)
def test_calls_behind_a_fault_leave_peers_alone(groups, algorithm, realization):
    group = groups(3)
    work = gather(group, algorithm, realization, ODD, timeout_ns=300_000_000)
    layout = work.program.signal_layout
    loaded = load(work.program, group)
    absent = loaded._ranks.pop(2)
    passed = {name: tensors[:2] for name, tensors in arguments(work, group, work.random(0)).items()}
    # Three calls are enqueued before the first one can be given up.
    for _ in range(3):
        loaded(**passed)
    with pytest.raises(DeviceWaitTimeout):
        loaded.synchronize()
    torch.cuda.synchronize()
    for state in loaded._ranks.values():
        words = state._state.tolist()
        assert words[StateWord.EPOCH] == 1
        assert words[StateWord.ABORTED] != 0
        assert words[StateWord.ENGINE_EPOCH : StateWord.ENGINE_ONE + 1] == [0, 0]
    flags = absent._memory[: 4 * layout.total].view(torch.int32).tolist()
    assert max(flags[: layout.ready_twin]) <= 1
    assert max(flags[layout.done : layout.done_twin]) == 0
    loaded._ranks[2] = absent
    loaded.close()


def test_device_synchronize_returns_after_a_fault(groups):
    group = groups(2)
    work = gather(group, "push", ENGINE, GATHER_SHAPES[0], timeout_ns=300_000_000)
    loaded = load(work.program, group)
    absent = loaded._ranks.pop(1)
    passed = {name: tensors[:1] for name, tensors in arguments(work, group, work.random(0)).items()}
    for _ in range(3):
        loaded(**passed)
    torch.cuda.synchronize()
    with pytest.raises(DeviceWaitTimeout):
        loaded.check()
    loaded._ranks[1] = absent
    loaded.close()


def test_arguments_are_checked_before_anything_runs(groups):
    group = groups(2)
    work = gather(group, "push", LDST, GATHER_SHAPES[0])
    whole = work.random(0)
    good = arguments(work, group, whole)["a"]
    with load(work.program, group) as loaded:
        for bad, text in [
            (good[0][:-1], r"a: expects shape \[256, 256\], but got \[255, 256\]"),
            (good[0].float(), r"a: expects dtype torch\.bfloat16, but got torch\.float32"),
            (good[0].cpu(), r"a: expects a tensor on cuda:0, but got one on cpu"),
        ]:
            with pytest.raises(SyncopateError, match=text):
                loaded(a=[bad, good[1]])
        with pytest.raises(SyncopateError, match="b: not an argument; the program takes a, out"):
            loaded(a=good, b=good)
        with pytest.raises(SyncopateError, match="out: expects strides"):
            loaded(a=good, out=[random_matrix((256, 512), 0).T] * 2)
        assert not wrong_ranks(work, loaded(a=good), whole)


def test_too_many_ctas_are_refused(groups):
    work = gather(groups(2), "push", LDST, GATHER_SHAPES[0], num_ctas=100)
    with pytest.raises(SyncopateError, match="compile it for at most"):
        load(work.program, groups(2))


def test_wrong_group_is_refused(groups):
    work = gather(groups(2), "push", LDST, GATHER_SHAPES[0])
    with pytest.raises(SyncopateError, match="group: expects 2 ranks"):
        load(work.program, groups(3))
