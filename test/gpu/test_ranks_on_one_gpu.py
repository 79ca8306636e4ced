"""The runtime with several ranks on one GPU: correctness over many calls, graphs, and time limits."""

import random
import time

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
import torch
from gather import CASES, gather_program

from syncopate.errors import DeviceWaitTimeout, SyncopateError
from syncopate.runtime import LocalGroup, load
from syncopate.runtime.interface import Realization

pytestmark = pytest.mark.gpu(1)

SHAPES = [(512, 256), (509, 250)]
"""Even, and odd in every respect: rows that the ranks do not divide and that are not 16 bytes."""


@pytest.fixture(scope="module")
def groups():
    made = {}

    def get(world):
        if world not in made:
            made[world] = LocalGroup(world)
        return made[world]

    return get


def make(group, algorithm, realization, shape, **options):
    ctas = options.pop("num_ctas", group.ctas_per_rank(0))
    return gather_program(group.world_size, algorithm, realization, shape, num_ctas=ctas, **options)


def shards(program, whole):
    """The input of every rank, cut out of the whole matrix."""
    regions = [regions[0] for regions in program.buffers[0].inputs]
    return [whole[r.offsets[0] : r.offsets[0] + r.sizes[0]].clone() for r in regions]


def random_matrix(shape, seed):
    generator = torch.Generator("cuda").manual_seed(seed)
    return torch.randn(shape, generator=generator, device="cuda").bfloat16()


def poisoned(group, shape):
    return [
        torch.full(shape, float("nan"), dtype=torch.bfloat16, device="cuda")
        for _ in group.local_ranks
    ]


def delay(group, dice):
    """Holds up one rank's stream for up to some 100 us."""
    rank = dice.randrange(group.world_size)
    with torch.cuda.stream(torch.cuda.ExternalStream(group.stream(rank))):
        torch.cuda._sleep(dice.randrange(1, 200_000))


@pytest.mark.parametrize("world", [2, 3, 4, 8])
@pytest.mark.parametrize(("algorithm", "realization"), CASES)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_rank_gathers_everything_call_after_call(
    groups, world, algorithm, realization, shape
):
    group = groups(world)
    program = make(group, algorithm, realization, shape)
    dice = random.Random(world)
    with load(program, group) as loaded:
        for batch in range(10):
            # Ranks drift apart within a batch, and calls overlap: what flags and guards are for.
            kept = []
            with loaded.detached():
                for call in range(20):
                    whole = random_matrix(shape, 100 * batch + call)
                    inputs, out = shards(program, whole), poisoned(group, shape)
                    delay(group, dice)
                    loaded(a=inputs, out=out)
                    kept.append((whole, inputs, out))
            loaded.synchronize()
            for call, (whole, _, out) in enumerate(kept):
                for rank, tensor in enumerate(out):
                    assert torch.equal(tensor, whole), (batch, call, rank)


@pytest.mark.parametrize(("algorithm", "realization"), CASES)
def test_zero_copy_input_is_read_in_place(groups, algorithm, realization):
    group, shape = groups(3), (509, 250)
    program = make(group, algorithm, realization, shape)
    with load(program, group) as loaded:
        for call in range(50):
            whole = random_matrix(shape, call)
            loaded.acquire()
            for rank, shard in enumerate(shards(program, whole)):
                loaded.input("a", rank).copy_(shard)
            out = loaded(out=poisoned(group, shape))
            assert all(torch.equal(tensor, whole) for tensor in out)
        loaded.synchronize()


@pytest.mark.parametrize(("algorithm", "realization"), CASES)
def test_graph_replays_with_changing_inputs(groups, algorithm, realization):
    group, shape = groups(2), (509, 250)
    program = make(group, algorithm, realization, shape)
    with load(program, group) as loaded:
        inputs, out = shards(program, random_matrix(shape, 0)), poisoned(group, shape)
        loaded(a=inputs, out=out)
        loaded.synchronize()
        stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        with torch.cuda.stream(stream), torch.cuda.graph(graph, stream=stream):
            loaded(a=inputs, out=out)
        for replay in range(1000):
            whole = random_matrix(shape, replay)
            for shard, tensor in zip(shards(program, whole), inputs, strict=True):
                tensor.copy_(shard)
            for tensor in out:
                tensor.fill_(float("nan"))
            graph.replay()
            if replay % 10 == 0:
                assert all(torch.equal(tensor, whole) for tensor in out), replay
        loaded.synchronize()
        # Ordinary calls go on where the replays stopped.
        whole = random_matrix(shape, 5000)
        assert all(torch.equal(t, whole) for t in loaded(a=shards(program, whole)))


def test_two_programs_take_turns_and_run_together(groups):
    group, shape = groups(2), (509, 250)
    half = group.ctas_per_rank(0) // 2
    first = make(group, "push", Realization.LDST_COLOCATED, shape, num_ctas=half)
    second = make(group, "pull", Realization.COPY_ENGINE, shape, num_ctas=half)
    with load(first, group) as one, load(second, group) as two:
        side = torch.cuda.Stream()
        for call in range(100):
            a, b = random_matrix(shape, call), random_matrix(shape, 1000 + call)
            inputs, out_two = shards(second, b), poisoned(group, shape)
            side.wait_stream(torch.cuda.current_stream())
            out_one = one(a=shards(first, a))
            with torch.cuda.stream(side):
                two(a=inputs, out=out_two)
            torch.cuda.current_stream().wait_stream(side)
            assert all(torch.equal(tensor, a) for tensor in out_one), call
            assert all(torch.equal(tensor, b) for tensor in out_two), call


@pytest.mark.parametrize(("algorithm", "realization"), CASES)
def test_missing_rank_is_an_error_and_nothing_hangs(groups, algorithm, realization):
    group, shape = groups(3), (509, 250)
    program = make(group, algorithm, realization, shape, timeout_ns=500_000_000)
    loaded = load(program, group)
    # Rank 2 does not take part: what a failed process looks like to the others.
    absent = loaded._ranks.pop(2)
    inputs = shards(program, random_matrix(shape, 0))
    start = time.monotonic()
    loaded(a=inputs[:2], out=poisoned(group, shape)[:2])
    with pytest.raises(DeviceWaitTimeout) as caught:
        loaded.synchronize()
    torch.cuda.synchronize()
    assert time.monotonic() - start < 10
    assert caught.value.rank in (0, 1)
    # In a ring, rank 1 may be the first to notice, and it waits for rank 0 to pass on what rank 2 owes.
    assert algorithm == "ring" or "rank 2" in str(caught.value)
    with pytest.raises(DeviceWaitTimeout):
        loaded(a=inputs[:2])
    loaded._ranks[2] = absent
    loaded.close()


def test_device_synchronize_returns_after_a_fault(groups):
    group, shape = groups(2), (512, 256)
    program = make(group, "push", Realization.COPY_ENGINE, shape, timeout_ns=300_000_000)
    loaded = load(program, group)
    absent = loaded._ranks.pop(1)
    inputs = shards(program, random_matrix(shape, 0))
    for _ in range(3):
        loaded(a=inputs[:1], out=poisoned(group, shape)[:1])
    torch.cuda.synchronize()
    with pytest.raises(DeviceWaitTimeout):
        loaded.check()
    loaded._ranks[1] = absent
    loaded.close()


def test_arguments_are_checked_before_anything_runs(groups):
    group, shape = groups(2), (512, 256)
    program = make(group, "push", Realization.LDST_COLOCATED, shape)
    whole = random_matrix(shape, 0)
    good = shards(program, whole)
    with load(program, group) as loaded:
        for bad, text in [
            (good[0][:-1], r"a: expects shape \[256, 256\], but got \[255, 256\]"),
            (good[0].float(), "a: expects dtype torch.bfloat16, but got torch.float32"),
            (good[0].cpu(), "a: expects a tensor on cuda:0, but got one on cpu"),
        ]:
            with pytest.raises(SyncopateError, match=text):
                loaded(a=[bad, good[1]])
        with pytest.raises(SyncopateError, match="b: not an argument; the program takes a, out"):
            loaded(a=good, b=good)
        with pytest.raises(SyncopateError, match="out: expects strides"):
            loaded(a=good, out=[torch.empty(256, 512, dtype=torch.bfloat16, device="cuda").T] * 2)
        assert all(torch.equal(tensor, whole) for tensor in loaded(a=good))


def test_too_many_ctas_are_refused(groups):
    group = groups(2)
    program = make(group, "push", Realization.LDST_COLOCATED, (512, 256), num_ctas=100)
    with pytest.raises(SyncopateError, match="compile it for at most"):
        load(program, group)


def test_wrong_group_is_refused(groups):
    program = make(groups(2), "push", Realization.LDST_COLOCATED, (512, 256))
    with pytest.raises(SyncopateError, match="group: expects 2 ranks"):
        load(program, groups(3))
