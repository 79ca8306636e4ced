"""The gradients of attention run on the simulator: sound, right, and the same bits every time."""

import dataclasses

import numpy as np
import pytest
from sim_backward import BACKWARD, BackwardCase, differentiate
from sim_sequences import attend
from sim_table import options_of

from syncopate import Strategy
from syncopate.sim.simulate import simulate

TOLERANCE = {"f16": 3e-3, "bf16": 2e-2}
"""Weights and their gradients are rounded to f16, or to the 8 bits of bf16, before they are multiplied; relative to the
largest element."""
DELTA = 1e-5
"""Products of rounded numbers, added in float32; relative likewise."""


def _error(found: object, expected: np.ndarray) -> float:
    difference = np.abs(np.asarray(found, np.float64) - expected)
    return float(difference.max(initial=0) / max(np.abs(expected).max(initial=0), 1e-9))


def test_reference_is_the_derivative():
    """Along a random direction, the loss changes as the gradients say."""
    generator = np.random.default_rng(3)
    places, firsts = np.array([2, 5, 6, -1]), np.array([0, 3, 3, 0])
    dlse = generator.standard_normal((4, 4))
    q, do, dq = generator.standard_normal((3, 4, 4 * 16))
    k, v, dk, dv = generator.standard_normal((4, 7, 2 * 16))

    def loss(step: float) -> float:
        moved = q + step * dq, k + step * dk, v + step * dv
        out, lse = attend(*moved, places, 16, firsts)
        return float((out * do).sum() + (lse * dlse)[:, :3].sum())

    of_q, of_kv = differentiate(q, k, v, do, places, 16, firsts, dlse)
    said = (of_q * dq).sum() + (
        of_kv * np.stack([dk, dv]).reshape(2, 7, 2, 16).transpose(1, 2, 0, 3)
    ).sum()
    assert said == pytest.approx((loss(1e-5) - loss(-1e-5)) / 2e-5, rel=1e-7)


def _run(program, inputs, seed):
    options = options_of(seed)
    options.pop("calls")
    result = simulate(program, [inputs], **options)
    assert result.verdict.ok, result.verdict
    (outputs,) = result.outputs
    return outputs


def _tables(case: BackwardCase, program: int) -> dict[str, list[np.ndarray]]:
    if case.world == 1:
        return {}
    given = [case.gradients.tables(rank, case.config)[program] for rank in range(case.world)]
    return {name: [own[name] for own in given] for name in given[0]}


def _run_q(case: BackwardCase, given, seed):
    inputs = {"q": given.q, "o": given.o, "do": given.do, "lse": given.lse}
    if given.dlse:
        inputs["dlse"] = given.dlse
    inputs |= _tables(case, 0)
    return _run(case.build()[0], inputs | case.keys(given, kept=case.world == 1), seed)


def _run_kv(case: BackwardCase, given, of_q, seed):
    inputs = {"q": given.q, "do": given.do, "lse": given.lse, "delta": of_q["delta"]}
    keys = {name: of_q[name] for name in "kv" if name in of_q} or case.keys(given, kept=case.kept)
    inputs |= _tables(case, 1)
    outputs = _run(case.build()[1], inputs | keys, seed)
    return next(iter(outputs.values()))


@pytest.mark.parametrize("case", BACKWARD.values(), ids=BACKWARD)
def test_gradients_are_sound_and_right(case):
    given = case.draw(seed=2)
    of_q, of_kv = case.expected(given)
    found = _run_q(case, given, seed=0)
    for rank, expected in enumerate(of_q):
        has = case.shards.positions(rank) >= 0
        assert _error(np.asarray(found["dq"][rank])[has], expected) < TOLERANCE[case.dtype]
        products = given.do[rank].astype(np.float64) * given.o[rank]
        delta = products.reshape(len(has), case.heads, -1).sum(axis=2).T
        if given.dlse:
            delta -= given.dlse[rank]
        assert _error(np.asarray(found["delta"][rank])[:, has], delta[:, has]) < DELTA
    sums = _run_kv(case, given, found, seed=1)
    for rank, got in enumerate(sums):
        places = case.shards.positions(rank)
        has = places >= 0
        got = np.asarray(got, np.float64).reshape(-1, case.kv_heads, 2, case.head_dim)
        assert _error(got[has[: len(got)]], of_kv[places[has]]) < TOLERANCE[case.dtype]


def test_gradients_are_the_same_bits_every_time():
    case = dataclasses.replace(BACKWARD["ring, causal"], kept=True)
    given = case.draw(seed=4)
    of_q = _run_q(case, given, seed=0)
    first, *others = (_run_kv(case, given, of_q, seed) for seed in range(3))
    for other in others:
        assert all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_what_others_wait_for_is_computed_before_own_gradients():
    """Around the ring, the sum of the keys of the rank before sets out first; the own keys' comes home last."""
    case = BackwardCase(
        4, 256, heads=1, kept=True, strategy=Strategy(algorithm="ring", direction="pull")
    )
    _, of_kv = case.build()
    for rank in range(4):
        tiles = of_kv.rank_tables(rank)["tiles"].rows()
        owners = [tile["c1"] * case.config.block_n // case.shards.block for tile in tiles]
        assert owners[:2] == [(rank - 1) % 4] * 2
        assert owners[-2:] == [rank] * 2
