"""Operands and results of imported plans, and their plain executions on ranks of torch.distributed."""

import contextlib

import numpy as np
import torch
import torch.distributed as dist
from studies import load
from torch_ranks import WORLD

cases = load("common.imported_cases")
plain_run = load("common.plain_run")

SIZES = (128, 64, 32)


def draw(case):
    """By rank, A as a call takes it, and B as [K, N]."""
    m, n, k = case.shape
    generator = np.random.default_rng(case.ranks)
    rows = m // case.ranks if case.reads else m
    shapes = ((rows, k), (k, n))
    return [
        [generator.normal(size=shape).astype(np.float32) for shape in shapes]
        for _ in range(case.ranks)
    ]


def expect(case, given):
    """What ranks have in the end."""
    if case.reads:
        whole = np.concatenate([a for a, _ in given])
        return [whole @ b for _, b in given]
    total = sum(a @ b for a, b in given)
    return (
        np.split(total, case.ranks) if case.collective == "reduce_scatter" else [total] * case.ranks
    )


def own(case, rank, c):
    return np.split(c, case.ranks)[rank] if case.collective == "reduce_scatter" else c


def read_all(case):
    return [case.read_sequence(), *(case.read(splits) for splits in case.splits)]


class _Lanes:
    """Everything on one lane, as CPUs do it."""

    def side(self):
        return contextlib.nullcontext()

    def mark(self, on_side):
        return None

    def wait(self, event, on_side):
        pass


def check_case(name):
    case = cases.make_case(name, WORLD, *SIZES)
    rank = dist.get_rank()
    given = draw(case)
    a, b = map(torch.from_numpy, given[rank])
    right = expect(case, given)[rank]
    for plan in read_all(case):
        mover = plain_run.SendReceive(plan, torch.float32, "cpu")
        run = plain_run.PlainRun(
            plan, rank, mover, _Lanes(), lambda x, y, out: out.copy_(torch.mm(x, y))
        )
        for _ in range(2):
            moved, c = mover.buffers[plan.kernel.buffer], torch.full(case.shape[:2], torch.nan)
            moved.fill_(torch.nan)
            if case.reads:
                moved.chunk(WORLD)[rank].copy_(a)
            run(*((None, b, c) if case.reads else (a, b, None)))
            result = own(case, rank, (c if case.reads else moved).numpy())
            np.testing.assert_allclose(result, right, rtol=1e-3, atol=1e-3)
