"""The checks with one process per GPU, as one test of the suite."""

import pytest
from processes import expect_all_pass

pytestmark = pytest.mark.gpu(2)


def test_two_processes():
    expect_all_pass("run_two_gpus.py", "--limit", "60")


def test_two_processes_go_on():
    expect_all_pass("run_two_gpus.py", "--lifetime", "--limit", "120")
