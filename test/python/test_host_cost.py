"""What a call does on the host before it launches anything, with a driver that does nothing."""

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmark import host_cost  # noqa: E402
from benchmark.common.host_driver import HostGroup, stand_in  # noqa: E402

from syncopate import GemmWorkload, Strategy  # noqa: E402
from syncopate.choices import Realization  # noqa: E402
from syncopate.errors import SyncopateError  # noqa: E402
from syncopate.runtime.launch import KernelLauncher  # noqa: E402
from syncopate.runtime.loaded import LoadedProgram  # noqa: E402

pytestmark = pytest.mark.any_triton


def test_host_cost_is_measured_without_a_gpu(capsys):
    assert host_cost.main(["--no-gpu", "--calls", "5", "--ranks", "2"]) == 0
    head, _, *lines = capsys.readouterr().out.splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[:4]]
    assert head.startswith("| strategy | copies |")
    assert [row[1] for row in rows] == ["0", "1", "2", "4"]
    assert all(float(row[2]) > 0 and row[3] == "-" for row in rows)
    assert lines[-1].startswith("A launch takes")


@pytest.fixture(params=[Realization.LDST_COLOCATED, Realization.COPY_ENGINE])
def loaded(request):
    """A program of rank 0 of two whose part of A is square."""
    workload = GemmWorkload("ag_gemm", 256, 64, 128, 2)
    program = workload.compile(Strategy(realization=request.param), machine_code=False)
    with stand_in(), LoadedProgram(program, HostGroup(2)) as made:
        yield made


def test_wrong_arguments_are_refused_before_anything_is_launched(loaded, monkeypatch):
    launched = []
    monkeypatch.setattr(KernelLauncher, "__call__", lambda kernel, stream: launched.append(stream))
    a, b = torch.randn(128, 128).bfloat16(), torch.randn(64, 128).bfloat16()
    own = loaded.input("a")
    wrong = [
        ({"a": a}, "b: missing; the program takes a, b, c"),
        ({"a": a, "b": b, "bias": b}, "bias: not an argument; the program takes a, b, c"),
        ({"a": [1, 2], "b": b}, "a: expects a torch tensor, but got list"),
        ({"a": a[:64], "b": b}, r"a: expects shape \[128, 128\], but got \[64, 128\]"),
        ({"a": own[:64], "b": b}, r"a: expects shape \[128, 128\], but got \[64, 128\]"),
        ({"a": own.view(torch.float16), "b": b}, "a: expects dtype torch.bfloat16, but got"),
        ({"a": a, "b": b.float()}, "b: expects dtype torch.bfloat16, but got torch.float32"),
        ({"a": a, "b": torch.empty(0, 128).bfloat16()}, r"b: expects shape \[64, 128\]"),
        ({"a": a, "b": b.t().contiguous().t()}, r"b: expects strides \[128, 1\], but got \[1, 64\]"),
        ({"a": a, "b": torch.empty(64 * 128 + 1).bfloat16()[1:].view(64, 128)}, "b: expects an address"),
    ]  # fmt: skip
    for tensors, text in wrong:
        with pytest.raises(SyncopateError, match=text):
            loaded(**tensors)
    assert not launched
    loaded(a=a, b=b)
    loaded(b=b)
    assert launched


def test_an_input_that_only_begins_where_the_program_reads_is_copied(loaded):
    """Rows and columns of a square are at one address, whichever are which."""
    a, b = torch.randn(128, 128).bfloat16(), torch.randn(64, 128).bfloat16()
    own = loaded.input("a")
    own.copy_(a)
    loaded(a=own.view(128, 128), b=b)
    assert torch.equal(own, a)
    with pytest.raises(RuntimeError, match="clone"):
        loaded(a=own.t(), b=b)
    loaded(a=a.t(), b=b)
    assert torch.equal(own, a.t())
