"""The form of benchmark results, which every suite shares."""

import importlib
import json
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.any_triton


@pytest.fixture(scope="module")
def report():
    sys.path.insert(0, str(Path(__file__).parents[2]))
    return importlib.import_module("benchmark.common.report")


def make_row(report, **changes):
    fields = {
        "suite": "ag_gemm", "workload": "w", "world_size": 2, "dtype": "bf16", "M": 8192, "N": 3584, "K": 8192,
        "variant": "copy_engine/pull/1", "realization": "copy_engine", "direction": "pull", "splits": 1,
        "default": False, "us": 660.0,
        "gemm_us": 600.0, "local_gemm_us": 610.0, "comm_us": 300.0, "link_us": 180.0,
        "baselines": {"cublas_nccl": 990.0, "split_streams": 825.0, "async_tp": None},
        "rel_err": 0.00287654321, "calls_checked": 200, "spread": 0.01, "host_us": 12.0,
    }  # fmt: skip
    return report.Row(**{**fields, **changes})


def test_speedup_is_over_the_best_baseline_that_ran(report):
    row = make_row(report)
    assert row.speedup == pytest.approx(825 / 660)
    assert row.efficiency == pytest.approx(600 / 660)
    assert make_row(report, link_us=650.0).efficiency == pytest.approx(650 / 660)


@pytest.mark.parametrize(("us", "verdict"), [(660.0, "win"), (824.0, "tie"), (900.0, "loss")])
def test_a_difference_within_the_spread_is_a_tie(report, us, verdict):
    assert make_row(report, us=us).verdict == verdict


def test_json_has_the_agreed_fields(report, tmp_path):
    path = tmp_path / "out" / "x.json"
    report.write_json(path, {"gpu": "NVIDIA H200"}, [make_row(report)])
    data = json.loads(path.read_text())
    assert data["meta"] == {"gpu": "NVIDIA H200"}
    wanted = (
        "suite workload world_size dtype M N K realization direction splits us gemm_us comm_us baselines "
        "speedup efficiency rel_err"
    )
    assert set(wanted.split()) <= set(data["rows"][0])
    assert data["rows"][0]["baselines"]["async_tp"] is None
    assert data["rows"][0]["rel_err"] == 0.0028765


def test_table_shows_losses_and_missing_baselines(report):
    text = report.format_table({}, [make_row(report, default=True), make_row(report, us=900.0)])
    assert "cublas_nccl 990, split_streams 825, async_tp -" in text
    assert "| copy_engine/pull/1 | 900 | 1.500 | 0.92x |" in text
    assert "| copy_engine/pull/1 (default) | 660 | 1.100 | 1.25x |" in text
    assert text.count("| win |") == text.count("| loss |") == 1


def test_file_name(report):
    assert report.file_stem("ag_gemm", 2, "NVIDIA H200") == "ag_gemm-w2-h200"
