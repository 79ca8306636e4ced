"""Programs that exchange blocks before or after a GEMM, on several ranks of one GPU: many calls in a row."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
from sim_exchanges import EXCHANGES, Exchange
from workloads import random_matrix

from syncopate.runtime import load

pytestmark = pytest.mark.gpu(1)

CALLS = 40
SETS = 3


@pytest.mark.parametrize("case", EXCHANGES, ids=lambda case: case.name)
def test_exchanges_are_right(groups, case):
    m, n, k = case.shape
    world = case.world
    rows = [m] * world
    if case.exchange is Exchange.AG_GEMM_RS:
        block = -(-m // world)
        rows = [min(m, block * (rank + 1)) - block * rank for rank in range(world)]
    inputs = [
        [random_matrix((rows[rank], k), 10 * number + rank) for rank in range(world)]
        for number in range(SETS)
    ]
    weights = [random_matrix((n, k), 7000 + rank) for rank in range(world)]
    expected = [
        case.expect([a.double() for a in given], [b.double() for b in weights]) for given in inputs
    ]
    with load(case.build(), groups(world)) as loaded:
        for call in range(CALLS):
            outputs = loaded(a=inputs[call % SETS], b=weights)
            for out, right in zip(outputs, expected[call % SETS], strict=True):
                error = ((out.double() - right).norm() / right.norm()).item()
                assert error < 1e-2, f"call {call}"
        loaded.synchronize()
