"""Programs whose tiles and ranks are held up at random: whatever the order of things, results are right.

Calls overlap, so that a rank may be far behind while its peers are in the next call.
"""

import dataclasses
import random

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
import torch
from slow_gemm import bind_slow_gemm, slow_gemm
from workloads import random_matrix

import syncopate
from syncopate.abi import Realization
from syncopate.kernels import GemmConfig
from syncopate.plan.templates import all_reduce_tiles, all_to_all_tiles, reduce_scatter_tiles
from syncopate.runtime import load

pytestmark = pytest.mark.gpu(1)

REALIZATIONS = [realization for realization in Realization if realization is not Realization.NCCL]
SUMS = {"gemm_rs": reduce_scatter_tiles, "gemm_ar": all_reduce_tiles}
BATCHES, CALLS, SETS = 5, 12, 3
LONGEST_NS = 300_000
N, K = 256, 128


def build(workload, realization, direction, world, ctas):
    m = 128 * world
    comm_ctas = 4 if realization.is_dedicated else 0
    config = GemmConfig(block_m=64, block_n=64, num_warps=4, num_ctas=ctas - comm_ctas)
    strategy = syncopate.Strategy(
        realization=realization.spelling, direction=direction, splits=2, comm_ctas=4
    )
    plan = syncopate.Plan(workload, [world])
    a, c = syncopate.Tensor("a", (m, K), "bf16"), None
    if workload == "ag_gemm":
        a = plan.buffer("a", (m, K), "bf16", shard_axis=0)
        plan.all_gather(a)
    elif workload == "a2a_gemm":
        given = plan.buffer("a", (m, K), "bf16")
        a = plan.buffer("arrived", (m, K), "bf16")
        for rank in range(world):
            plan.input(given[:], rank=rank)
        plan.all_to_all(given, a)
    else:
        c = plan.buffer("c", (m, N), "bf16")
        if workload == "gemm_a2a":
            all_to_all_tiles(plan, c, plan.buffer("received", (m, N), "bf16"))
        else:
            reducing = "ldst_dedicated" if realization.is_dedicated else "ldst_colocated"
            strategy = dataclasses.replace(strategy, reducing=reducing)
            SUMS[workload](plan, c, strategy)
    return syncopate.compile(
        slow_gemm, plan, **bind_slow_gemm(a, N, config, c=c), strategy=strategy, timeout=20.0
    )


def expect(workload, inputs, weights):
    world = len(inputs)

    def exchange(parts):
        blocks = [part.chunk(world) for part in parts]
        return [torch.cat([mine[rank] for mine in blocks]) for rank in range(world)]

    a = [part.float() for part in inputs]
    if workload == "ag_gemm":
        a = [torch.cat(a)] * world
    elif workload == "a2a_gemm":
        a = exchange(a)
    products = [part @ b.float().T for part, b in zip(a, weights, strict=True)]
    if workload in SUMS:
        total = sum(products)
        return [total] * world if workload == "gemm_ar" else list(total.chunk(world))
    return exchange(products) if workload == "gemm_a2a" else products


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("direction", ["push", "pull"])
@pytest.mark.parametrize("workload", ["ag_gemm", "a2a_gemm", "gemm_a2a", *SUMS])
@pytest.mark.parametrize("realization", REALIZATIONS, ids=lambda r: r.spelling)
def test_random_delays(groups, realization, workload, direction, world):
    group = groups(world)
    dice = random.Random(f"{realization} {workload} {direction} {world}")
    rows = 128 if workload == "ag_gemm" else 128 * world
    sets = [[random_matrix((rows, K), 10 * i + rank) for rank in range(world)] for i in range(SETS)]
    weights = [random_matrix((N, K), 7000 + rank) for rank in range(world)]
    expected = [expect(workload, inputs, weights) for inputs in sets]
    program = build(workload, realization, direction, world, min(group.sms_per_rank(0), 24))
    tiles = program.tiles[0] * program.tiles[1]
    with load(program, group) as loaded:
        for batch in range(BATCHES):
            # Tensors of calls that may still run have to live.
            kept, alive = [], []
            with loaded.detached():
                for call in range(CALLS):
                    delays = [held_up(tiles, dice) for _ in range(world)]
                    hold_rank(group, dice)
                    outputs = loaded(a=sets[call % SETS], b=weights, delays=delays)
                    alive += [delays, outputs]
                    kept.append([keep(group, rank, out) for rank, out in enumerate(outputs)])
            loaded.synchronize()
            for call, outputs in enumerate(kept):
                for out, right in zip(outputs, expected[call % SETS], strict=True):
                    error = ((out.float() - right).norm() / right.norm()).item()
                    assert error < 1e-2, (batch, call)


def held_up(tiles, dice):
    """Some tiles' delays; most rest not at all."""
    delays = [dice.randrange(LONGEST_NS) if dice.random() < 0.15 else 0 for _ in range(tiles)]
    return torch.tensor(delays, dtype=torch.int32, device="cuda")


def hold_rank(group, dice):
    """Holds up one rank's stream for up to some 100 us."""
    with torch.cuda.stream(
        torch.cuda.ExternalStream(group.stream(dice.randrange(group.world_size)))
    ):
        torch.cuda._sleep(dice.randrange(1, 200_000))


def keep(group, rank, out):
    """A copy made on the rank's stream, before its next call writes the output again."""
    with torch.cuda.stream(torch.cuda.ExternalStream(group.stream(rank))):
        return out.clone()
