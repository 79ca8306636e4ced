"""Operations beyond those of a GEMM: reductions, scans, elementwise functions, masks, 64-bit integers, errors."""

import numpy as np
import pytest
import triton
import triton.language as tl
from sim_compile import compile_program
from sim_programs import ag_gemm, with_fused

import syncopate
import syncopate.language as sy
from syncopate.sim.findings import Kind, SimulationError
from syncopate.sim.simulate import simulate


@triton.jit
def softmax(a_desc, c_desc, scale, TILE: tl.constexpr):
    """Rows of a tile; one tile per CTA."""
    m, _ = sy.tile(tl.program_id(0), tl.program_id(0))
    x = a_desc.load([m * TILE, 0]).to(tl.float32) * scale
    x = x - tl.max(x, axis=1)[:, None]
    e = tl.exp(x)
    c_desc.store([m * TILE, 0], (e / tl.sum(e, axis=1)[:, None]).to(c_desc.dtype))


@triton.jit
def arithmetic(a_desc, c_desc, scale, TILE: tl.constexpr):
    """A bit of everything, elementwise and along rows."""
    m, _ = sy.tile(tl.program_id(0), tl.program_id(0))
    x = a_desc.load([m * TILE, 0]).to(tl.float32)
    counts = tl.cumsum((x > 0).to(tl.int32), axis=1)
    best = tl.argmax(x, axis=1)
    odd = tl.where((counts % 2 == 1) & (x > -1.0), tl.sqrt(tl.abs(x)), tl.exp2(x))
    y = tl.maximum(odd, 0.25) + tl.math.fma(x, scale, -x) + best[:, None].to(tl.float32)
    c_desc.store([m * TILE, 0], y.to(c_desc.dtype))


def build(kernel, scale):
    plan = syncopate.Plan("rows", [2])
    a = plan.buffer("a", (256, 64), "f32", shard_axis=0)
    plan.all_gather(a)
    out = syncopate.Tensor("c", (256, 64), "f32", output=True)
    descriptors = {
        n: syncopate.Descriptor(s, (64, 64)) for n, s in (("a_desc", a), ("c_desc", out))
    }
    strategy = syncopate.Strategy(realization="copy_engine")
    bind = {**descriptors, "scale": scale, "TILE": 64}
    return compile_program(kernel, plan, bind=bind, tiles=(4,), ctas=4, strategy=strategy)


def rows(result):
    x = np.concatenate(result.inputs[0]["a"])
    return x, result.outputs[0]["c"]


def test_reductions():
    result = simulate(build(softmax, 0.5))
    assert result.verdict.ok, str(result.verdict)
    x, outputs = rows(result)
    e = np.exp(0.5 * (x - x.max(axis=1, keepdims=True)))
    for output in outputs:
        np.testing.assert_allclose(output, e / e.sum(axis=1, keepdims=True), rtol=1e-5)


def test_scans_selects_and_functions():
    result = simulate(build(arithmetic, 1.5))
    assert result.verdict.ok, str(result.verdict)
    x, outputs = rows(result)
    counts = np.cumsum(x > 0, axis=1)
    odd = np.where((counts % 2 == 1) & (x > -1), np.sqrt(np.abs(x)), np.exp2(x))
    expected = np.maximum(odd, 0.25) + (1.5 * x - x) + x.argmax(axis=1)[:, None]
    for output in outputs:
        np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-5)


def test_unknown_operations_are_named_with_their_place():
    program = ag_gemm()
    text = program.ir["fused"].replace('"ttng.fence_async_shared"', '"ttng.fence_unheard_of"')
    with pytest.raises(
        SimulationError, match=r"(?s)does not know operation ttng.fence_unheard_of.*gemm\.py:\d+"
    ):
        simulate(with_fused(program, text))


def test_unknown_assembly_is_shown():
    program = ag_gemm()
    text = program.ir["fused"].replace("fence.proxy.async;", "fence.proxy.tensormap;")
    with pytest.raises(SimulationError, match=r"inline assembly 'fence\.proxy\.tensormap"):
        simulate(with_fused(program, text))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scheduler": "fair"}, "scheduler: expects one of random, late, early"),
        ({"calls": 0}, "calls: expects an integer of at least 1, but got 0"),
        ({"calls": "two"}, "calls: expects an integer of at least 1, but got 'two'"),
        ({"seed": "x"}, "seed: expects an integer of at least 0, but got 'x'"),
        ({"seed": -1}, "seed: expects an integer of at least 0, but got -1"),
        ({"first_epoch": 0.5}, r"first_epoch: expects an integer of at least 1, but got 0\.5"),
        ({"inputs": {"a": []}}, "a: expects one array for each of 2 ranks"),
        ({"inputs": {}}, "inputs: a is missing"),
        ({"inputs": [{}], "calls": 2}, "calls: expects 1"),
    ],
)
def test_arguments_are_checked(options, message):
    with pytest.raises(syncopate.SyncopateError, match=message):
        simulate(ag_gemm(), **options)


def test_inputs_may_be_given():
    program = ag_gemm()
    ones = {
        "a": [np.ones((64, 128))] * 2,
        "b": [np.full((128, 128), rank + 1.0) for rank in range(2)],
    }
    result = simulate(program, [ones, {**ones, "a": [np.zeros((64, 128))] * 2}])
    assert result.verdict.ok
    assert (result.outputs[0]["c"][1] == 256).all()
    assert (result.outputs[1]["c"][1] == 0).all()


def test_slots_outside_a_buffer_are_reported():
    program = ag_gemm()
    # The pipeline's buffers become a slot shorter than the code thinks.
    text = program.ir["fused"].replace("memdesc<3x", "memdesc<2x")
    (finding, *_) = simulate(with_fused(program, text)).verdict.findings
    assert finding.kind is Kind.OUT_OF_BOUNDS
    assert "takes slot 2" in finding.message


def test_the_trace_tells_what_moved():
    events = simulate(ag_gemm(), trace=True).trace
    assert {event.what for event in events} == {"raises", "loads", "stores"}
    assert any("chunk a[0:64, 0:128] from rank 0" in event.detail for event in events)
