"""The demonstration and the examples in Python, as far as they run without a GPU."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

from syncopate import demo
from syncopate.cli import main
from syncopate.sim import Gemm, execute_tables

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def no_gpus(monkeypatch):
    monkeypatch.setattr(demo, "_count_gpus", lambda: 0)


def _import(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_demo_saves_every_stage_and_checks_the_schedule(tmp_path, capsys):
    assert main(["demo", "--out", str(tmp_path), "--seeds", "1"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"max relative error \d\.\de-07: right", said)
    names = re.findall(rf"{tmp_path}/(\S+)", said)
    assert sorted(names) == sorted(path.name for path in tmp_path.iterdir())
    assert "chunk.all_gather" in (tmp_path / "plan.mlir").read_text()
    assert "chunk.schedule" in (tmp_path / "lowered.mlir").read_text()
    assert (tmp_path / "fused.cubin").read_bytes().startswith(b"\x7fELF")
    tables = (tmp_path / "tables.json").read_text()
    assert len(json.loads(tables)) == demo.CHECK_RANKS
    command = json.loads(tables)["rank 3"]["commands"]["rows"][0]
    assert f"    {json.dumps(command)}," in tables.splitlines()
    assert (tmp_path / "explain.txt").read_bytes().endswith(b"and 2\n")
    assert "rank 3, calls" in (tmp_path / "tables.txt").read_text()


def test_demo_fails_when_the_schedule_is_wrong(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(demo, "_check_on_cpu", lambda program, seeds: 1)
    assert main(["demo", "--out", str(tmp_path), "--algorithm", "ring_push"]) == 1


def test_ag_gemm_example_checks_itself_without_a_gpu(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["ag_gemm.py", "--splits", "2"])
    _import(EXAMPLES / "ag_gemm.py").main()
    said = capsys.readouterr().out
    assert "rank 3: 32 tiles, 8 of them (25 %) before the first wait" in said
    assert re.search(r"executed with numpy: \d\.\de-07", said)


@pytest.mark.parametrize("shape", [(512, 256, 256), (1000, 500, 200)])
def test_kernel_from_outside_the_package_compiles_and_its_schedule_is_right(shape):
    program = _import(EXAMPLES / "external_kernel.py").compile_program(3, *shape)
    assert program.image.cubin.startswith(b"\x7fELF")
    assert execute_tables(program, Gemm((128, 128), shape[1])).max_error < 1e-5
    assert "gets x[" in program.explain()


def test_kernel_of_the_documentation_is_fused_as_it_says(tmp_path):
    page = (EXAMPLES.parent / "docs" / "kernels.md").read_text()
    kernel, binding = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[:2]
    (tmp_path / "page.py").write_text(
        "import syncopate\nfrom syncopate import Descriptor, Tensor\n"
        f"{kernel}\nM, N, BM, BN = 512, 256, 64, 64\n"
        'plan = syncopate.Plan("double", mesh=[2])\n'
        'x = plan.buffer("x", (M, N), "bf16", shard_axis=0)\n'
        f"plan.all_gather(x)\n{binding}"
    )
    program = _import(tmp_path / "page.py").program
    assert program.localized == "x"
    assert "tiles read a rank's own rows where the caller keeps them" in program.explain()
