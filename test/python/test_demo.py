"""The demonstration and the examples in Python, as far as they run without a GPU."""

import importlib.util
import json
import re
from pathlib import Path

import numpy as np
import pytest

from syncopate import demo
from syncopate.cli import main
from syncopate.compiler import Program
from syncopate.sim import Finding, Kind

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def no_gpus(monkeypatch):
    monkeypatch.setattr(demo, "count_gpus", lambda: 0)


def _import(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_demo_saves_every_stage_and_simulates(tmp_path, capsys):
    assert main(["demo", "--out", str(tmp_path), "--seeds", "1"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"1 interleavings? of 3 calls each, \d+ steps, \d+\.\d s\n", said)
    assert "races, deadlocks and other findings: 0\n" in said
    assert re.search(r"max relative error [1-3]\.\de-03: right", said)
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


def test_demo_fails_when_something_is_found(monkeypatch, tmp_path, capsys):
    def simulate(program, **options):
        result = whole(program, **options)
        result.verdict.findings.append(Finding(Kind.RACE, "a race"))
        return result

    whole = Program.simulate
    monkeypatch.setattr(Program, "simulate", simulate)
    assert main(["demo", "--out", str(tmp_path), "--algorithm", "ring"]) == 3
    said = capsys.readouterr().out
    assert "race: a race\n" in said
    assert "WRONG" in said


@pytest.mark.parametrize("difference", [1, np.nan])
def test_demo_fails_when_a_result_is_wrong(monkeypatch, tmp_path, capsys, difference):
    def simulate(program, **options):
        result = whole(program, **options)
        result.outputs[2]["c"][3][400, 100] += difference
        return result

    whole = Program.simulate
    monkeypatch.setattr(Program, "simulate", simulate)
    assert main(["demo", "--out", str(tmp_path), "--seeds", "1"]) == 3
    assert "WRONG" in capsys.readouterr().out


def test_ag_gemm_example_checks_itself_without_a_gpu(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["ag_gemm.py", "--splits", "2"])
    _import(EXAMPLES / "ag_gemm.py").main()
    said = capsys.readouterr().out
    assert "rank 3: 32 tiles, 8 of them (25 %) before the first wait" in said
    assert "simulated: sound\n" in said
    assert len(re.findall(r"relative error against numpy: [1-3]\.\de-03\n", said)) == 2


def test_gemm_rs_example_checks_itself_without_a_gpu(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["gemm_rs.py", "--realization", "copy_engine"])
    _import(EXAMPLES / "gemm_rs.py").main()
    said = capsys.readouterr().out
    assert "puts c[256:384, 0:128] to rank 1 by copy_engine" in said
    assert (
        "4 of its tiles add to what has arrived, and wait for that only before they store" in said
    )
    assert "simulated: sound\n" in said
    assert len(re.findall(r"relative error against numpy: [1-9]\.\de-03\n", said)) == 2


def test_gemm_ar_rms_norm_example_checks_itself_without_a_gpu(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["gemm_ar_rms_norm.py", "--realization", "ldst_dedicated"])
    _import(EXAMPLES / "gemm_ar_rms_norm.py").main()
    said = capsys.readouterr().out
    assert said.count("simulated: sound\n") == 2
    assert len(re.findall(r"relative error against numpy: [1-9]\.\de-03\n", said)) == 2


@pytest.mark.parametrize("shape", [(512, 256, 256), (1000, 500, 200)])
def test_kernel_from_outside_the_package_is_right(shape):
    program = _import(EXAMPLES / "external_kernel.py").compile_program(3, *shape)
    assert program.image.cubin.startswith(b"\x7fELF")
    result = program.simulate(ranks=3, calls=2)
    assert result.verdict.ok, str(result.verdict)
    for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
        whole = np.concatenate(inputs["x"]).astype(np.float64)
        for w, bias, y in zip(inputs["w"], inputs["bias"], outputs["y"], strict=True):
            expected = np.maximum(whole @ w.T + bias, 0)
            assert np.abs(y - expected).max() < 2**-8 * expected.max()
    assert "gets x[" in program.explain()


def _blocks(*words):
    """The pieces of Python in docs/kernels.md that hold these words."""
    page = (EXAMPLES.parent / "docs" / "kernels.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    return [next(block for block in blocks if word in block) for word in words]


def test_kernel_with_steps_of_the_documentation_is_right(tmp_path):
    (kernel,) = _blocks("def row_sums")
    (tmp_path / "steps.py").write_text(
        "import triton\nimport triton.language as tl\nimport syncopate.language as sy\n"
        f"import syncopate\nfrom syncopate import Descriptor, Pointer, Tensor\n{kernel}\n"
        'plan = syncopate.Plan("sums", mesh=[2])\n'
        'x = plan.buffer("x", (128, 336), "bf16", shard_axis=1)\n'
        "plan.all_gather(x, axis=1)\n"
        'bind = {"x": Descriptor(x, (64, 32)), "y": Pointer(Tensor("y", (128,), "f32", output=True))}\n'
        'bind |= {"K": 336, "BM": 64, "BK": 32}\n'
        "program = syncopate.compile(row_sums, plan, bind=bind, tiles=(2,), ctas=2)\n"
    )
    program = _import(tmp_path / "steps.py").program
    assert "before step 0, after 5 of 11" in program.explain()
    result = program.simulate(calls=2)
    assert result.verdict.ok, str(result.verdict)
    for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
        expected = np.concatenate(inputs["x"], axis=1).astype(np.float64).sum(axis=1)
        for y in outputs["y"]:
            assert np.abs(y - expected).max() < 1e-4


def test_kernel_of_the_documentation_is_fused_as_it_says(tmp_path):
    kernel, binding = _blocks("def double", "program = syncopate.compile(\n    double")
    (tmp_path / "page.py").write_text(
        "import syncopate\nfrom syncopate import Ctas, Descriptor, Tensor\n"
        f"{kernel}\nM, N, BM, BN = 512, 256, 64, 64\n"
        'plan = syncopate.Plan("double", mesh=[2])\n'
        'x = plan.buffer("x", (M, N), "bf16", shard_axis=0)\n'
        f"plan.all_gather(x)\n{binding}"
    )
    program = _import(tmp_path / "page.py").program
    assert program.localized == "x"
    assert "tiles read a rank's own rows where the caller keeps them" in program.explain()
