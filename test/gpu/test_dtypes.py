"""GEMMs of every element type and layout, with an epilogue, as consumers and producers, on several ranks of one GPU."""

import dataclasses

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
import producer_kernels as kernels
import torch
from producer_programs import Producer
from sim_gemms import GemmCase, Program

from syncopate.choices import Combine, Realization
from syncopate.dtypes import DTYPES
from syncopate.kernels import Activation, GemmConfig, Precision
from syncopate.runtime import load

pytestmark = pytest.mark.gpu(1)

_AG, _RS, _AR, _A2A = Program
CALLS, INPUTS = 12, 3
BLOCKS = GemmConfig(block_m=64, block_n=64, block_k=32, num_warps=4, num_stages=3, num_ctas=32)
LDST, DEDICATED = Realization.LDST_COLOCATED.value, Realization.LDST_DEDICATED.value
ENGINE, TMA = Realization.COPY_ENGINE.value, Realization.TMA_COLOCATED.value


def split(num_ctas, parts):
    """So many CTAs, of which several compute each tile of the last round."""
    return dataclasses.replace(BLOCKS, num_ctas=num_ctas, parts=parts)


def case(program, dtype="bf16", out_dtype="bf16", world=2, shape=(384, 200, 168), **options):
    options = {"config": BLOCKS, **options}
    return GemmCase(program, dtype, out_dtype, world, shape, **options)


CASES = [
    # Tiles that store and add by pointers: M of whole tiles for each rank, N and K of nothing.
    case(_RS, shape=(384, 197, 141), realization=ENGINE),
    case(_RS, world=3, shape=(384, 197, 141)),
    case(_AR, world=3, shape=(384, 197, 141), realization=DEDICATED, direction="pull"),
    case(_AR, shape=(384, 200, 168), realization=TMA),
    case(_RS, world=3, shape=(343, 197, 141), combine=Combine.ROLE, direction="pull"),
    case(_AR, shape=(343, 197, 141), combine=Combine.ROLE, realization=ENGINE),
    # Element types.
    case(_RS, "f16", "f16", world=3, shape=(384, 197, 141), tolerance=3e-3),
    case(_AR, "f16", "f16", pointers=False, tolerance=3e-3),
    case(_RS, "f8E4M3FN", "bf16", world=3, shape=(384, 197, 141)),
    case(_AR, "f8E4M3FN", "bf16", pointers=False, shape=(384, 200, 176)),
    case(_RS, "f8E5M2", "f16", pointers=False, shape=(384, 200, 176), tolerance=5e-3),
    case(_AG, "f8E5M2", "f16", shape=(343, 197, 141), tolerance=5e-3),
    case(_RS, "f32", "f32", shape=(384, 197, 141), tolerance=3e-3),
    case(_AR, "f32", "f32", world=3, pointers=False, tolerance=3e-3),
    case(_RS, "f32", "f32", world=3, precision=Precision.IEEE, tolerance=1e-5),
    case(_AG, "f32", "f32", shape=(343, 197, 141), precision=Precision.IEEE, tolerance=1e-5),
    # Layouts of the operands.
    case(_AG, world=3, shape=(343, 197, 141), transpose_a=True),
    case(_AG, shape=(368, 200, 168), transpose_a=True, transpose_b=True, pointers=False),
    case(_RS, world=3, shape=(384, 197, 141), transpose_b=True),
    case(_AR, transpose_a=True, transpose_b=True, pointers=False),
    case(_RS, "f8E4M3FN", "bf16", shape=(384, 208, 176), transpose_b=True, pointers=False),
    case(_AR, "f8E5M2", "bf16", shape=(384, 197, 141), transpose_a=True),
    case(_RS, "f32", "f32", transpose_a=True, transpose_b=True, pointers=False, tolerance=3e-3),
    # A last round of two tiles of 24, each in several parts.
    case(_AG, shape=(384, 197, 141), config=split(11, 5)),
    case(_AG, world=3, pointers=False, shape=(384, 200, 360), config=split(22, None)),
    case(_RS, world=3, pointers=False, config=split(11, 4)),
    case(_AR, shape=(384, 197, 141), realization=ENGINE, config=split(22, 3)),
    case(_A2A, world=3, pointers=False, bias=True, config=split(11, 3)),
    # Bias and activation.
    case(_AG, world=3, shape=(343, 197, 141), bias=True, activation=Activation.GELU),
    case(_AG, bias=True, activation=Activation.RELU, pointers=False),
    case(_A2A, world=3, shape=(384, 197, 141), bias=True, activation=Activation.SILU),
    case(_A2A, "f16", "f16", bias=True, activation=Activation.GELU, pointers=False, tolerance=3e-3),
]


def random_inputs(case, program, seed):
    """By name, a tensor for each rank; those of a gathered A are its shards."""
    generator = torch.Generator("cuda").manual_seed(seed)

    def draw(shape, dtype):
        values = torch.randn(shape, generator=generator, device="cuda")
        return values.to(getattr(torch, DTYPES[dtype].torch))

    m, n, k = case.shape
    ranks = range(case.world)
    inputs = {"b": [draw((k, n) if case.transpose_b else (n, k), case.dtype) for _ in ranks]}
    if case.program is Program.AG:
        sizes = [regions[0].sizes for regions in program.buffers[0].inputs]
    else:
        sizes = [(k, m) if case.transpose_a else (m, k)] * case.world
    inputs["a"] = [draw(size, case.dtype) for size in sizes]
    if case.bias:
        inputs["bias"] = [draw((n,), case.out_dtype) for _ in ranks]
    return inputs


KERNELS = [
    (kernels.device_descriptors, {"FLATTEN": True}),
    (kernels.device_descriptors, {"FLATTEN": False}),
    (kernels.store_halves, {"FLATTEN": True}),
    (kernels.store_in_loop, {"FLATTEN": False}),
    (kernels.copy_in_loop, {"FLATTEN": False, "stages": 1}),
    (kernels.one_tile, {}),
]
"""Kernels that store their tiles in other ways than `syncopate.kernels` do."""


def to_numpy(tensors):
    return {name: [one.double().cpu().numpy() for one in ones] for name, ones in tensors.items()}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_results_are_right_and_repeat(groups, case):
    program = case.build()
    inputs = [random_inputs(case, program, 100 + i) for i in range(INPUTS)]
    first = {}
    with load(program, groups(case.world)) as loaded:
        for call in range(CALLS):
            which = call % INPUTS
            outputs = [out.clone() for out in loaded(**inputs[which])]
            for out, before in zip(outputs, first.setdefault(which, outputs), strict=True):
                assert torch.equal(out, before), f"call {call} gives other bits"
        loaded.synchronize()
    name = "arrived" if case.program is Program.A2A else "c"
    for given, outputs in zip(inputs, first.values(), strict=True):
        error = case.error(to_numpy(given), to_numpy({name: outputs}))
        assert np.isfinite(error)
        assert error < case.tolerance


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize(
    ("kernel", "values"), KERNELS, ids=lambda value: getattr(value, "__name__", None)
)
def test_kernels_store_tiles_in_their_own_ways(groups, kernel, values, world):
    producer = Producer(kernel, world=world, **values)
    generator = torch.Generator("cuda").manual_seed(world)
    with load(producer.program, groups(world)) as loaded:
        for call in range(CALLS):
            inputs = {
                name: [
                    torch.randn(shape, generator=generator, device="cuda").half()
                    for _ in range(world)
                ]
                for name, shape in producer.inputs.items()
            }
            outputs = loaded(**inputs)
            error = producer.error(to_numpy(inputs), to_numpy({"c": outputs})["c"])
            assert error < 1e-2, f"call {call}"
        loaded.synchronize()
