"""GEMMs with imported files before or behind them, on several ranks of one GPU: many calls in a row."""

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
from import_programs import all_gemms
from workloads import random_matrix

from syncopate.runtime import load

pytestmark = pytest.mark.gpu(1)

CALLS = 40
SETS = 3


@pytest.mark.parametrize(
    "case",
    [*all_gemms(2), *all_gemms(4)],
    ids=lambda case: f"{case.name}-{case.ranks}-{case.source.value}",
)
def test_imported_files_are_right(groups, case):
    _, n, k = case.shape
    inputs = [
        [random_matrix((case.rows, k), 10 * number + rank) for rank in range(case.ranks)]
        for number in range(SETS)
    ]
    weights = [random_matrix((n, k), 7000 + rank) for rank in range(case.ranks)]
    expected = [
        case.expect(
            [a.double().cpu().numpy() for a in given], [b.double().cpu().numpy() for b in weights]
        )
        for given in inputs
    ]
    program, imported = case.build()
    with load(program, groups(case.ranks)) as loaded:
        for call in range(CALLS):
            given = {case.given_name(imported): inputs[call % SETS], "b": weights}
            outputs = loaded(**given)
            for out, right in zip(outputs, expected[call % SETS], strict=True):
                error = np.linalg.norm(out.double().cpu().numpy() - right) / np.linalg.norm(right)
                assert error < 1e-2, f"call {call}"
        loaded.synchronize()
