"""Workloads whose rows of K start anywhere, on several ranks of one GPU: many calls in a row, and a graph."""

import dataclasses

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
import torch
from workloads import random_matrix

from syncopate import GemmWorkload
from syncopate.errors import SyncopateError
from syncopate.kernels import GemmConfig
from syncopate.workloads import GemmKind

pytestmark = pytest.mark.gpu(1)

CALLS = 40
SETS = 3
CONFIG = GemmConfig(block_n=128, num_warps=4)
SHAPES = ((520, 264, 200), (520, 264, 197), (520, 264, 196), (4104, 72, 200), (520, 264, 256))


def make_inputs(workload, seed):
    rows = workload.m
    if workload.kind is GemmKind.AG_GEMM:
        rows //= workload.world_size
    return [
        random_matrix((rows, workload.k), 10 * seed + rank) for rank in range(workload.world_size)
    ]


def expect(workload, a, b):
    world, block = workload.world_size, workload.m // workload.world_size
    a, b = [x.double() for x in a], [x.double() for x in b]
    if workload.kind is GemmKind.AG_GEMM:
        a = [torch.cat(a)] * world
    if workload.kind is GemmKind.A2A_GEMM:
        a = [torch.cat([x[r * block : (r + 1) * block] for x in a]) for r in range(world)]
    c = [x @ y.T for x, y in zip(a, b, strict=True)]
    if workload.kind.sums:
        c = [sum(c)] * world
    if workload.kind is GemmKind.GEMM_RS:
        c = [x[r * block : (r + 1) * block] for r, x in enumerate(c)]
    if workload.kind is GemmKind.GEMM_A2A:
        c = [torch.cat([x[r * block : (r + 1) * block] for x in c]) for r in range(world)]
    return c


def check(outputs, right):
    for out, want in zip(outputs, right, strict=True):
        error = ((out.double() - want).norm() / want.norm()).item()
        assert error < 1e-2


@pytest.mark.parametrize("kind", list(GemmKind))
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("world", [2, 4])
def test_any_k_is_right(groups, kind, shape, world):
    group = groups(world)
    workload = GemmWorkload(kind, *shape, world)
    config = dataclasses.replace(CONFIG, num_ctas=group.sms_per_rank(0))
    sets = [make_inputs(workload, number) for number in range(SETS)]
    weights = [random_matrix((workload.n, workload.k), 7000 + rank) for rank in range(world)]
    expected = [expect(workload, a, weights) for a in sets]
    with workload.load(group, config=config) as loaded:
        packed = [loaded.pack_weight(b, rank) for rank, b in enumerate(weights)]
        for call in range(CALLS):
            b = weights if call % 2 else packed
            check(loaded(a=sets[call % SETS], b=b), expected[call % SETS])
        loaded.synchronize()


def test_rows_may_be_part_of_longer_ones(groups):
    group = groups(2)
    workload = GemmWorkload("gemm_rs", 520, 264, 197, 2)
    config = dataclasses.replace(CONFIG, num_ctas=group.sms_per_rank(0))
    wide = [random_matrix((520, 300), rank)[:, 3:200] for rank in range(2)]
    weights = [random_matrix((264, 197), 7000 + rank) for rank in range(2)]
    with workload.load(group, config=config) as loaded:
        check(loaded(a=wide, b=weights), expect(workload, wide, weights))
        with pytest.raises(SyncopateError, match="expects rows of adjacent elements"):
            loaded(a=[a.T.contiguous().T for a in wide], b=weights)
        with pytest.raises(SyncopateError, match=r"a: expects shape \[520, 197\]"):
            loaded(a=[a[:, 1:] for a in wide], b=weights)
        with pytest.raises(SyncopateError, match="b: expects a list or a mapping"):
            loaded(a=wide, b=weights[0])


def test_graph_copies_again(groups):
    group = groups(2)
    workload = GemmWorkload("ag_gemm", 520, 264, 197, 2)
    config = dataclasses.replace(CONFIG, num_ctas=group.sms_per_rank(0))
    a, b = make_inputs(workload, 0), [random_matrix((264, 197), 7000 + rank) for rank in range(2)]
    with workload.load(group, config=config) as loaded:
        loaded(a=a, b=b)
        loaded.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            outputs = loaded(a=a, b=b)
        for replay in range(1, 50):
            for old, new in zip(a, make_inputs(workload, replay), strict=True):
                old.copy_(new)
            graph.replay()
            check(outputs, expect(workload, a, b))
        loaded.synchronize()
