"""What a GPU computes is what the simulator says, for every program of its table: the ranks share one GPU."""

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
import torch
from sim_table import PROGRAMS, Case, Workload

from syncopate.demo import CHECK_RANKS, CHECK_SHAPE, CHECK_TILE, Choices, compile_ag_gemm
from syncopate.dtypes import DTYPES
from syncopate.runtime import load
from syncopate.runtime.interface import TensorParam
from syncopate.sim.simulate import simulate

pytestmark = pytest.mark.gpu(1)

CALLS = 3
SPACING = {"bf16": 2.0**-7, "f16": 2.0**-10, "f32": 2.0**-23}
"""Distance of neighbours of an element type, relative to them: sums in another order may be rounded either way."""


def to_tensor(array, dtype):
    return torch.tensor(np.asarray(array), device="cuda").to(getattr(torch, DTYPES[dtype].torch))


def run_on_gpu(program, group, inputs):
    """Outputs of every call as float64, by name and rank; calls follow each other without a barrier."""
    outputs = {p.tensor: p for p in program.params if isinstance(p, TensorParam) and p.output}
    dtypes = {spec.name: spec.dtype for spec in program.buffers}
    dtypes |= {p.tensor: p.dtype for p in program.params if isinstance(p, TensorParam)}
    passed = []
    for call in inputs:
        tensors = {
            name: [to_tensor(array, dtypes[name]) for array in arrays]
            for name, arrays in call.items()
        }
        for name, param in outputs.items():
            kind = getattr(torch, DTYPES[param.dtype].torch)
            tensors[name] = [
                torch.full(param.shape, float("nan"), dtype=kind, device="cuda")
                for _ in range(program.world_size)
            ]
        passed.append(tensors)
    with load(program, group) as loaded:
        with loaded.detached():
            for tensors in passed:
                loaded(**tensors)
        loaded.synchronize()
    return [
        {name: [tensor.double().cpu().numpy() for tensor in tensors[name]] for name in outputs}
        for tensors in passed
    ]


def slack(case):
    """What the arithmetic itself adds to rounding, relative to the largest output.

    TF32 has 10 bits of what float32 has 23, Hopper adds products of 8-bit floats in fewer bits than float32, and the
    exponentials of a GPU are approximations.
    """
    if case.is_attention or case.dtype == "f32" or case.dtype.startswith("f8"):
        return 2e-3
    return 1e-5


def compare(program, group, output_dtype, slack):
    result = simulate(program, calls=CALLS, seed=1)
    assert result.verdict.ok, str(result.verdict)
    found = run_on_gpu(program, group, result.inputs)
    assert len(found) == len(result.outputs) == CALLS
    for call, (on_gpu, simulated) in enumerate(zip(found, result.outputs, strict=True)):
        for name, arrays in on_gpu.items():
            for rank, (a, b) in enumerate(zip(arrays, simulated[name], strict=True)):
                b = np.asarray(b, np.float64)
                allowed = SPACING[output_dtype] * np.abs(b) + slack * np.abs(b).max()
                assert (np.abs(a - b) <= allowed).all(), (
                    f"call {call}, {name} of rank {rank}: differs by {np.abs(a - b).max()}"
                )


@pytest.mark.parametrize(
    "case", [case for case in PROGRAMS if case.target == "sm_90"], ids=lambda case: case.name
)
def test_gpu_agrees_with_the_simulator(groups, case):
    output = "f16" if case.is_attention else case.out_dtype or case.dtype
    compare(case.build(), groups(case.world), output, slack(case))


@pytest.mark.parametrize("realization", ["ldst_colocated", "copy_engine"])
def test_gpu_agrees_with_the_simulator_on_the_demonstration(groups, realization):
    choices = Choices(realization=realization)
    program = compile_ag_gemm(CHECK_RANKS, CHECK_SHAPE, choices, **CHECK_TILE)
    compare(program, groups(CHECK_RANKS), "bf16", slack(Case(Workload.AG_GEMM)))
