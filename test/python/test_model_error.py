"""The fitted machine, on measured rows on which it was not fitted."""

import random
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.any_triton

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def predictions():
    sys.path.insert(0, str(ROOT))
    try:
        from benchmark.common import predictions
    finally:
        sys.path.remove(str(ROOT))
    return predictions


def test_shapes_are_fitted_or_validated(predictions):
    """A shape of a GEMM is never in both, whatever the workload, so that no rate is checked where it was fitted."""
    rows = list(predictions.read_rows(ROOT / "docs/results"))
    fitted = {row.shape for row in rows if predictions.is_fitted(row)}
    others = {row.shape for row in rows if not predictions.is_fitted(row)}
    assert fitted and others and fitted.isdisjoint(others)
    assert sum(not predictions.is_fitted(row) for row in rows) > len(rows) / 2


def test_error_of_other_shapes_is_small(predictions):
    """A sample of each workload; benchmark/model_error.py has all rows."""
    from syncopate.model import find_preset

    machine = find_preset("h200-w2")
    rows = [
        row
        for row in predictions.read_rows(ROOT / "docs/results")
        if not predictions.is_fitted(row)
    ]
    draw = random.Random(11)
    sample = [
        row
        for workload in dict.fromkeys(row.workload for row in rows)
        for row in draw.sample([row for row in rows if row.workload is workload], 5)
    ]
    errors = [abs(predictions.predict_row(machine, row).us / row.us - 1) for row in sample]
    assert np.mean(errors) < 0.05
