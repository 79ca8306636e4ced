"""Attention of a sequence that ranks share, on ranks of one GPU and on two GPUs, against torch in float32."""

import pytest
from processes import expect_all_pass

pytest.importorskip("torch")
pytest.importorskip("triton")
import torch
from attention_kinds import DOUBLE_RING, KINDS
from sequences import CALLS, SEQUENCES

from syncopate.runtime import load


@pytest.mark.gpu(2)
def test_two_processes():
    expect_all_pass("run_two_gpus.py", "--limit", "60", "--sequences")


@pytest.mark.gpu(1)
@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("case", SEQUENCES.values(), ids=SEQUENCES)
def test_ranks_on_one_gpu(groups, case, world):
    torch.backends.cuda.matmul.allow_tf32 = False
    program = case.build(world, 96 // world)
    with load(program, groups(world)) as loaded:
        for call in range(CALLS):
            drawn = case.draw(world, call)
            loaded.acquire()
            given = [case.give(world, rank, drawn, loaded) for rank in range(world)]
            results = loaded(**{name: [own[name] for own in given] for name in given[0]})
            for rank, found in enumerate(results):
                case.check(world, rank, drawn, found)
        loaded.synchronize()


@pytest.mark.gpu(1)
@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("case", KINDS.values(), ids=KINDS)
def test_kinds_on_one_gpu(groups, case, world):
    torch.backends.cuda.matmul.allow_tf32 = False
    case.run(groups(world), 96 // world)


@pytest.mark.gpu(1)
def test_double_ring_on_one_gpu(groups):
    torch.backends.cuda.matmul.allow_tf32 = False
    DOUBLE_RING.run(groups(4), 24)
