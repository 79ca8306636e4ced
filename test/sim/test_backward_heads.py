"""The gradients of attention of heads that ranks share, on the simulator: sound, right, and each rank's own rows."""

import numpy as np
import pytest
from sim_backward import differentiate
from sim_compile import MACHINE_CODE
from sim_sequences import attend
from sim_table import options_of

from syncopate import Strategy
from syncopate.kernels import AttentionConfig
from syncopate.sim.simulate import simulate
from syncopate.workloads import AttentionGradients, AttentionWorkload

TOLERANCE = 3e-3
"""Weights and their gradients are rounded to f16 before they are multiplied; relative to the largest element."""
SMALL = AttentionConfig(block_m=64, block_n=32, num_warps=4, num_stages=2, num_ctas=3)


def _workload(heads, kv_heads, sequence, world, **more):
    return AttentionWorkload("ulysses", heads, kv_heads, 64, sequence, world, dtype="f16", **more)


CASES = {
    "causal, with gradients of logarithms": (
        AttentionGradients(_workload(4, 2, 101, 2, causal=True), of_lse=True),
        Strategy(),
    ),
    # A rank has one head of four, which another one has, too: their parts of dK and dV are added.
    "batch of two, heads of keys at two ranks, pulled": (
        AttentionGradients(_workload(2, 1, 67, 4, batch=2)),
        Strategy(direction="pull", realization="ldst_dedicated", comm_ctas=2),
    ),
    "three ranks, engines, sums of three in f16": (
        AttentionGradients(_workload(3, 1, 70, 3, causal=True), sums="f16"),
        Strategy(realization="copy_engine", reducing="ldst_dedicated", comm_ctas=2),
    ),
}


def _error(found, expected):
    difference = np.abs(np.asarray(found, np.float64) - expected)
    return difference.max() / np.abs(expected).max()


@pytest.mark.parametrize(("gradients", "strategy"), CASES.values(), ids=CASES)
def test_gradients_of_heads_are_sound_and_right(gradients, strategy):
    work = gradients.workload
    ranks, generator = range(work.world_size), np.random.default_rng(5)

    def random(row):
        return generator.standard_normal((work.sequence, row)).astype(np.float16)

    q, do = random(work.row[0]), random(work.row[0])
    k, v = random(work.row[1]), random(work.row[1])
    places = np.arange(work.sequence) if work.causal else None
    # A batch's heads are further heads.
    o, lse = attend(q, k, v, places, work.head_dim)
    dlse = generator.standard_normal(lse.shape) if gradients.of_lse else np.zeros(lse.shape)
    dq, dkv = differentiate(q, k, v, do, places, work.head_dim, dlse=dlse)

    of_q, of_kv = gradients.compile(
        strategy, config_q=SMALL, config_kv=SMALL, machine_code=MACHINE_CODE
    )

    def run(program, inputs, seed):
        options = options_of(seed)
        options.pop("calls")
        result = simulate(program, [inputs], **options)
        assert result.verdict.ok, result.verdict
        return result.outputs[0]

    rows = [slice(*work.shards.ranges(rank)[0]) for rank in ranks]
    own = work.count_own(work.heads)
    heads = [slice(rank * own, rank * own + own) for rank in ranks]
    whole = {"q": q, "k": k, "v": v, "do": do, "o": o.astype(np.float16)}
    given = {name: [each[part] for part in rows] for name, each in whole.items()}
    logs = {"lse": [lse[part].astype(np.float32) for part in heads]}
    more = {"dlse": [dlse[part].astype(np.float32) for part in heads]} if gradients.of_lse else {}
    found = run(of_q, given | logs | more, seed=0)
    kept = {name: found[f"{name}_heads"] for name in ("q", "do", "k", "v")}
    sums = run(of_kv, kept | logs | {"delta": found["delta"]}, seed=1)["dkv"]
    for rank, part in enumerate(rows):
        assert _error(found["dq"][rank], dq[part]) < TOLERANCE
        assert _error(sums[rank].reshape(-1, *dkv.shape[1:]), dkv[part]) < TOLERANCE
