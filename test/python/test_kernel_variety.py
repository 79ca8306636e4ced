"""Kernels that we did not write: footprints are inferred, and the fused kernel computes what NumPy computes.

What tiles read is wrong if it is too little, which the simulator reports as a race, or too much, which the footprints
themselves show.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import triton
import variety_kernels as kernels

import syncopate
from syncopate import Descriptor, Pointer, Strategy, Tensor

ENGINE = Strategy(direction="pull", realization="copy_engine")
HAS_BLOCK_POINTERS = tuple(map(int, triton.__version__.split(".")[:2])) < (3, 9)
BM, BN, BK = 32, 32, 16


def cdiv(a: int, b: int) -> int:
    return -(-a // b)


def footprints(program: Any) -> list[str]:
    """Footprints as `access argument (d0, ...) -> (...) sizes`."""
    text = program.ir["lowered"]
    maps = dict(re.findall(r"^(#map\d*) = affine_map<(.*)>$", text, re.MULTILINE))
    found = re.findall(r'chunk\.footprint (\w+) "(\w+)" at (#map\d*) sizes (\[[^]]*\])', text)
    return [f"{access} {name} {maps[offsets]} {sizes}" for access, name, offsets, sizes in found]


class Gemm:
    """C = A B on a kernel of three pointers, where A is gathered."""

    def __init__(self, m: int, n: int, k: int, *, transposed: bool = False, by_rows: bool = False):
        self.m, self.n, self.k, self.transposed, self.by_rows = m, n, k, transposed, by_rows

    def compile(self, kernel: Any, world: int = 2, ctas: int = 0, parts: int = 0, **kw: Any) -> Any:
        plan = syncopate.Plan("gemm", [world])
        a = plan.buffer(
            "a", (self.k, self.m) if self.transposed else (self.m, self.k), "f16", shard_axis=0
        )
        plan.all_gather(a)
        tiles = (cdiv(self.m, BM), cdiv(self.n, BN), *([parts] if parts else []))
        names = [parameter.name for parameter in kernel.params]
        values = {
            "a_ptr": Pointer(a),
            "b_ptr": Pointer(
                Tensor("b", (self.n, self.k) if self.by_rows else (self.k, self.n), "f16")
            ),
            "c_ptr": Pointer(Tensor("c", (max(parts, 1) * self.m, self.n), "f32", output=True)),
            "M": self.m,
            "N": self.n,
            "K": self.k,
            "BM": BM,
            "BN": BN,
            "BK": BK,
            "GROUP": 2,
            "stride_am": self.k,
            "stride_ak": 1,
            "stride_bk": self.n,
            "stride_bn": 1,
            "stride_cm": self.n,
            "stride_cn": 1,
            "CTAS": ctas,
            "ACTIVATION": False,
            **kw.pop("values", {}),
        }
        return syncopate.compile(
            kernel,
            plan,
            bind={name: values[name] for name in names},
            tiles=tiles,
            ctas=ctas or int(np.prod(tiles)),
            options={"num_warps": 4, "num_stages": 2},
            **kw,
        )

    def check(self, program: Any, activation: Any = lambda x: x) -> None:
        """Runs a call on fresh data, against NumPy in float64."""
        rng = np.random.default_rng()
        world = program.world_size
        a_shape = (self.k, self.m) if self.transposed else (self.m, self.k)
        a = rng.standard_normal(a_shape).astype(np.float16)
        b_shape = (self.n, self.k) if self.by_rows else (self.k, self.n)
        b = [rng.standard_normal(b_shape).astype(np.float16) for _ in range(world)]
        shard = cdiv(len(a), world)
        inputs = {"a": np.split(a, range(shard, len(a), shard)), "b": b}
        result = program.simulate(inputs, seed=int(rng.integers(1000)))
        assert result.verdict.ok, result.verdict
        whole = a.T if self.transposed else a
        for rank in range(world):
            factor = b[rank].T if self.by_rows else b[rank]
            want = activation(whole.astype(np.float64) @ factor.astype(np.float64))
            got = result.outputs[0]["c"][rank].reshape(-1, self.m, self.n).sum(0)
            error = np.abs(got - want).max() / np.abs(want).max()
            assert error < 1e-5


def leaky_relu(x: Any) -> Any:
    return np.where(x >= 0, x, 0.01 * x)


@pytest.mark.parametrize(
    ("target", "strategy"),
    [("sm_80", ENGINE), ("sm_89", ENGINE), ("sm_90", Strategy()), ("sm_100", Strategy())],
)
def test_tutorial_matmul_waits_for_its_rows_and_those_it_wraps_around_to(target, strategy):
    gemm = Gemm(100, 50, 40)
    values = {"ACTIVATION": True}
    program = gemm.compile(kernels.tutorial_matmul, values=values, target=target, strategy=strategy)
    assert footprints(program) == [
        "read a_ptr (d0, d1) -> (d0 * 32, 0) [32, 40]",
        "read a_ptr (d0, d1) -> (d0 * 32 - 100, 0) [32, 40]",
    ]
    if target != "sm_100":  # the simulator knows no tensor memory
        gemm.check(program, leaky_relu)


def test_rows_that_divide_do_not_wrap_around():
    program = Gemm(128, 64, 48).compile(kernels.tutorial_matmul)
    assert footprints(program) == ["read a_ptr (d0, d1) -> (d0 * 32, 0) [32, 48]"]


def test_persistent_matmul_reads_row_0_in_ragged_tiles_only():
    gemm = Gemm(100, 50, 40)
    program = gemm.compile(kernels.persistent_matmul, world=5, ctas=3)
    own, first = footprints(program)
    assert own == "read a_ptr (d0, d1) -> (d0 * 32, 0) [32, 40]"
    assert first.endswith("[1, 40]")
    # The offset is a row of the buffer in the last tile only, which is ragged.
    rows = first.split("-> (")[1].split(", 0)")[0]
    at = [eval(rows.replace("floordiv", "//"), {"d0": m}) for m in range(4)]
    assert at[3] == 0
    assert max(at[:3]) < -(2**48)
    gemm.check(program)
    whole = Gemm(96, 64, 32).compile(kernels.persistent_matmul, ctas=3)
    assert footprints(whole) == ["read a_ptr (d0, d1) -> (d0 * 32, 0) [32, 32]"]


def test_rows_of_a_transposed_operand_are_its_columns():
    gemm = Gemm(100, 50, 40, transposed=True)
    program = gemm.compile(kernels.transposed_matmul)
    own, last = footprints(program)
    assert own == "read a_ptr (d0, d1) -> (0, d0 * 32) [40, 32]"
    assert last.endswith("[40, 1]")
    gemm.check(program)


@pytest.mark.skipif(not HAS_BLOCK_POINTERS, reason="this Triton has no block pointers")
def test_block_pointers():
    gemm = Gemm(100, 50, 40)
    program = gemm.compile(kernels.block_pointer_matmul)
    assert footprints(program) == ["read a_ptr (d0, d1) -> (d0 * 32, 0) [32, 40]"]
    gemm.check(program)


@pytest.mark.parametrize("pieces", [1, 2])
@pytest.mark.parametrize(
    ("target", "strategy"), [("sm_89", ENGINE), ("sm_90", Strategy()), ("sm_100", Strategy())]
)
def test_descriptors_made_in_the_kernel(target, strategy, pieces):
    gemm = Gemm(100, 64, 48, by_rows=True)
    program = gemm.compile(
        kernels.made_descriptor_matmul,
        ctas=3,
        values={"PIECES": pieces},
        target=target,
        strategy=strategy,
    )
    assert footprints(program) == ["read a_ptr (d0, d1) -> (d0 * 32, 0) [32, 48]"]
    if target != "sm_100":
        gemm.check(program)


def test_a_coordinate_of_k_splits_what_a_tile_reads():
    gemm = Gemm(100, 50, 80)
    program = gemm.compile(kernels.split_k_matmul, ctas=3, parts=3, values={"K_PER_TILE": 32})
    assert footprints(program) == ["read a_ptr (d0, d1, d2) -> (d0 * 32, d2 * 32) [32, 32]"]
    gemm.check(program)


@pytest.mark.parametrize(
    ("kernel", "ctas"), [(kernels.tutorial_matmul, 0), (kernels.persistent_matmul, 3)]
)
def test_sizes_that_nothing_divides(kernel, ctas):
    rng = np.random.default_rng()
    for _ in range(2):
        m, n, k = (int(size) for size in rng.integers((20, 10, 5), (110, 70, 60)))
        gemm = Gemm(m, n, k)
        try:
            gemm.check(gemm.compile(kernel, world=int(rng.integers(2, 4)), ctas=ctas))
        except Exception as error:
            raise AssertionError(f"sizes {m}, {n}, {k}") from error


def attention(length: int, width: int, scale: float) -> Any:
    plan = syncopate.Plan("attention", [2])
    k = plan.buffer("k", (length, width), "f16", shard_axis=0)
    v = plan.buffer("v", (length, width), "f16", shard_axis=0)
    plan.all_gather(k)
    plan.all_gather(v)
    return syncopate.compile(
        kernels.causal_attention,
        plan,
        bind={
            "q_ptr": Pointer(Tensor("q", (length, width), "f16")),
            "k_ptr": Pointer(k),
            "v_ptr": Pointer(v),
            "o_ptr": Pointer(Tensor("o", (length, width), "f32", output=True)),
            "LENGTH": length,
            "scale": scale,
            "D": width,
            "BM": 32,
            "BN": 16,
        },
        tiles=(length // 32,),
        ctas=length // 32,
        options={"num_warps": 4, "num_stages": 2},
    )


def test_causal_attention_waits_up_to_the_diagonal():
    length, width, scale = 128, 16, 0.25
    program = attention(length, width, scale)
    assert footprints(program) == [
        f"read {name} (d0) -> (d0 * 32 - 96, 0) [128, 16]" for name in ("k_ptr", "v_ptr")
    ]
    rng = np.random.default_rng()
    q, k, v = (rng.standard_normal((2, length, width)).astype(np.float16) for _ in range(3))
    inputs = {"q": list(q), "k": np.split(k[0], 2), "v": np.split(v[0], 2)}
    result = program.simulate(inputs, seed=int(rng.integers(1000)))
    assert result.verdict.ok, result.verdict
    for rank in range(2):
        scores = q[rank].astype(np.float64) @ k[0].astype(np.float64).T * scale
        scores[np.triu_indices(length, 1)] = -np.inf
        p = np.exp(scores - scores.max(1, keepdims=True))
        want = p / p.sum(1, keepdims=True) @ v[0].astype(np.float64)
        # Weights are rounded to 16 bits before they meet V.
        assert np.abs(result.outputs[0]["o"][rank] - want).max() < 4e-3


def test_flattened_buffers_are_read_by_whole_rows():
    plan = syncopate.Plan("double", [2])
    x = plan.buffer("x", (33 * 2, 40), "f32", shard_axis=0)
    plan.all_gather(x)
    size = 66 * 40
    program = syncopate.compile(
        kernels.flat_copy,
        plan,
        bind={
            "x_ptr": Pointer(x),
            "y_ptr": Pointer(Tensor("y", (66, 40), "f32", output=True)),
            "size": size,
            "BLOCK": 128,
            "CTAS": 3,
        },
        tiles=(cdiv(size, 128),),
        ctas=3,
        options={"num_stages": 1},
    )
    assert footprints(program) == ["read x_ptr (d0) -> ((d0 * 128) floordiv 40, 0) [4, 40]"]
    values = np.random.default_rng().standard_normal((66, 40)).astype(np.float32)
    result = program.simulate({"x": np.split(values, 2)})
    assert result.verdict.ok, result.verdict
    for y in result.outputs[0]["y"]:
        np.testing.assert_array_equal(y, 2 * values)


def specialized(target: str) -> Any:
    m, n, k = 512, 256, 128
    plan = syncopate.Plan("gemm", [2])
    a = plan.buffer("a", (m, k), "f16", shard_axis=0)
    plan.all_gather(a)
    return syncopate.compile(
        kernels.specialized_matmul,
        plan,
        bind={
            "a_desc": Descriptor(a, (128, 64)),
            "b_desc": Descriptor(Tensor("b", (n, k), "f16"), (128, 64)),
            "c_desc": Descriptor(Tensor("c", (m, n), "f32", output=True), (128, 128)),
            **dict(zip("MNK", (m, n, k), strict=True)),
            "BM": 128,
            "BN": 128,
            "BK": 64,
            "CTAS": 3,
        },
        tiles=(4, 2),
        ctas=3,
        target=target,
        options={"num_warps": 8, "num_stages": 2},
    )


def test_specialized_warps_are_refused_where_triton_specializes_them():
    with pytest.raises(syncopate.PlanError) as caught:
        specialized("sm_100")
    assert caught.match("leave warp_specialize=True out of")
    assert caught.match(r"variety_kernels\.py:\d+: the loop")


def test_warps_that_triton_does_not_specialize_all_walk_the_tiles():
    program = specialized("sm_90")
    Gemm(512, 256, 128, by_rows=True).check(program)
