"""Tiles that hand what they compute over to the warps beside them, on several ranks of one GPU: many calls in a row."""

import os

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
import torch
from workloads import random_matrix

import syncopate
from syncopate.choices import Combine
from syncopate.kernels import GemmConfig, bind_gemm, gemm
from syncopate.plan.templates import all_reduce_tiles, reduce_scatter_tiles
from syncopate.runtime import load
from syncopate.runtime.handover import ring_role

pytestmark = pytest.mark.gpu(1)

CALLS = int(os.environ.get("SYNCOPATE_CALLS", "40"))
COLOCATED = ["ldst_colocated", "tma_colocated"]


def check_calls(program, group, given, expected, same_bits=True):
    """Makes calls with inputs in turn; outputs are right and, where they should be, the same bits every time."""
    first = {}
    with load(program, group) as loaded:
        for call in range(CALLS):
            which = call % len(given)
            outputs = [
                out.clone() for out in loaded(**dict(zip(("a", "b"), given[which], strict=True)))
            ]
            for out, right in zip(outputs, expected[which], strict=True):
                error = ((out.float() - right).norm() / right.norm()).item()
                assert error < 1e-2, f"call {call}"
            for out, before in zip(outputs, first.setdefault(which, outputs), strict=True):
                assert not same_bits or torch.equal(out, before), f"call {call} gives other bits"
        loaded.synchronize()


@pytest.mark.parametrize("world", [2, 3, 4])
@pytest.mark.parametrize("realization", COLOCATED)
@pytest.mark.parametrize(("m", "n"), [(512, 512), (456, 328)])
def test_every_tile_reaches_every_rank(groups, world, realization, m, n):
    k = 256
    config = GemmConfig(block_n=128, num_ctas=24 // world)
    plan = syncopate.Plan("spread", [world])
    part = plan.buffer("c", (m, n), "bf16")
    whole = plan.buffer("d", (world * m, n), "bf16")
    for rank in range(world):
        made = plan.produce(part[:], rank=rank)
        for row in range(0, m, config.block_m):
            for column in range(0, n, config.block_n):
                end, last = min(row + config.block_m, m), min(column + config.block_n, n)
                for distance in range(world):
                    plan.put(
                        part[row:end, column:last],
                        whole[rank * m + row : rank * m + end, column:last],
                        src_rank=rank,
                        dst_rank=(rank + distance) % world,
                        after=[made],
                        realization=realization,
                    )
    for rank in range(world):
        plan.output(whole[:], rank=rank)
    a = syncopate.Tensor("a", (m, k), "bf16")
    program = syncopate.compile(gemm, plan, **bind_gemm(a, n, config, c=part), timeout=10.0)
    assert ring_role(program.rank_tables(0)).spelling == realization
    weights = [random_matrix((n, k), 7000 + rank) for rank in range(world)]
    given = [
        ([random_matrix((m, k), 10 * i + rank) for rank in range(world)], weights) for i in range(3)
    ]
    expected = [
        [torch.cat([a.float() @ b.float().T for a, b in zip(*pair, strict=True)])] * world
        for pair in given
    ]
    check_calls(program, groups(world), given, expected)


@pytest.mark.parametrize("world", [2, 3, 4])
@pytest.mark.parametrize("realization", COLOCATED)
@pytest.mark.parametrize("combine", Combine)
@pytest.mark.parametrize("template", [reduce_scatter_tiles, all_reduce_tiles])
def test_sums_of_tiles_that_are_handed_over(groups, world, realization, combine, template):
    """Pieces of one tile each, added by the same role, or by the tiles."""
    m, n, k = 256 * world, 128, 256
    config = GemmConfig(block_n=128, num_ctas=12 // world)
    plan = syncopate.Plan("sum", [world])
    parts = plan.buffer("c", (m, n), "bf16")
    strategy = syncopate.Strategy(
        realization=realization,
        splits=256 // config.block_m,
        combine=combine,
        reducing="ldst_colocated",
    )
    template(plan, parts, strategy)
    a = syncopate.Tensor("a", (m, k), "bf16")
    program = syncopate.compile(gemm, plan, **bind_gemm(a, n, config, c=parts), timeout=10.0)
    # Where tiles wait for what the role itself has added behind tiles, it hears of tiles by flags; and where what it
    # sends is added to another rank's tile, since that has to be there.
    # So it is with the transfers of a collective that the plan has.
    by_flags = combine in (Combine.DESTINATION, Combine.COLLECTIVE) or (
        combine is Combine.TILES and world > 2 and realization == "ldst_colocated"
    )
    assert (ring_role(program.rank_tables(0)) is None) == by_flags
    weights = [random_matrix((n, k), 7000 + rank) for rank in range(world)]
    given = [
        ([random_matrix((m, k), 10 * i + rank) for rank in range(world)], weights) for i in range(3)
    ]
    expected = []
    for pair in given:
        total = sum(a.float() @ b.float().T for a, b in zip(*pair, strict=True))
        blocks = [total] * world
        if template is reduce_scatter_tiles:
            blocks = list(total.split(m // world))
        expected.append(blocks)
    # Parts of more than one other rank are added at the destination in the order in which they come.
    check_calls(
        program, groups(world), given, expected, combine is not Combine.DESTINATION or world == 2
    )
