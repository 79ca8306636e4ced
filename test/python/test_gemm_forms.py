"""The GEMMs of `syncopate.kernels` in all their forms: which targets they compile for, and what is refused."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import syncopate
from syncopate import Strategy, SyncopateError, Tensor
from syncopate.kernels import (
    Activation,
    GemmConfig,
    Precision,
    bind_gemm,
    bind_gemm_pointers,
    gemm,
    gemm_pointers,
)
from syncopate.plan.templates import reduce_scatter_tiles

CONFIG = GemmConfig(block_m=64, block_n=64, block_k=32, num_warps=4, num_ctas=4)
TARGETS = ("sm_80", "sm_89", "sm_90", "sm_100")
DTYPES = ("bf16", "f16", "f32", "f8E5M2", "f8E4M3FN")
LAYOUTS = list(itertools.product((False, True), repeat=2))
M, N, K = 256, 112, 80
FIRST_TARGET_ONLY = [("sm_80", "f8E5M2"), ("sm_80", "f8E4M3FN")]
"""Triton 3.6 converts FP8 for all targets of a process as for the first, which sm_80 cannot do as newer ones do."""


def gemm_rs(target: str, dtype: str, *, descriptors: bool = False, **options: Any) -> Any:
    """GEMM + reduce-scatter on two ranks; N and K are not whole blocks."""
    plan = syncopate.Plan("gemm_rs", [2])
    c = plan.buffer("c", (M, N), "bf16" if dtype.startswith("f8") else dtype)
    strategy = Strategy(realization="copy_engine", reducing="ldst_dedicated", comm_ctas=2)
    reduce_scatter_tiles(plan, c, strategy)
    a = Tensor("a", (K, M) if options.get("transpose_a") else (M, K), dtype)
    bind = (bind_gemm if descriptors else bind_gemm_pointers)(a, N, CONFIG, c=c, **options)
    kernel = gemm if descriptors else gemm_pointers
    return syncopate.compile(kernel, plan, **bind, target=target)


@pytest.mark.parametrize(
    ("target", "dtype"),
    [pair for pair in itertools.product(TARGETS, DTYPES) if pair not in FIRST_TARGET_ONLY],
)
def test_element_types_compile(target, dtype):
    # Each target and each type meets every layout.
    transpose_a, transpose_b = LAYOUTS[(TARGETS.index(target) + DTYPES.index(dtype)) % 4]
    options = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    assert gemm_rs(target, dtype, **options).image.cubin
    if target not in ("sm_80", "sm_89"):
        assert gemm_rs(target, dtype, descriptors=True, **options).image.cubin


def test_fp8_compiles_for_the_oldest_target_in_a_process_of_its_own():
    code = "from test_gemm_forms import gemm_rs; assert gemm_rs('sm_80', 'f8E5M2').image.cubin"
    paths = os.pathsep.join(map(os.path.abspath, [Path(__file__).parent, *sys.path]))
    subprocess.run(
        [sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": paths}
    )


def test_fp8_that_the_oldest_target_lacks_is_refused():
    with pytest.raises(SyncopateError, match="type fp8e4nv not supported in this architecture"):
        gemm_rs("sm_80", "f8E4M3FN")


@pytest.mark.parametrize(("precision", "word"), [("IEEE", "fma.rn.f32"), ("TF32", "tf32")])
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_precision_of_float32_is_what_is_asked_for(target, precision, word):
    ptx = gemm_rs(target, "f32", precision=Precision[precision]).ir["ptx"]
    assert word in ptx
    assert ("tf32" in ptx) == (precision == "TF32")


@pytest.mark.parametrize("target", TARGETS)
def test_epilogues_compile(target):
    plan = syncopate.Plan("ag_gemm", [2])
    a = plan.buffer("a", (M, K), "bf16", shard_axis=0)
    plan.all_gather(a)
    for activation in Activation:
        bind = bind_gemm_pointers(a, N, CONFIG, bias=True, activation=activation)
        program = syncopate.compile(
            gemm_pointers,
            plan,
            **bind,
            target=target,
            strategy=Strategy(realization="copy_engine"),
        )
        assert program.image.cubin
        assert "bias" in [getattr(param, "tensor", None) for param in program.params]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"activation": "relu"}, "activation: expects a member of syncopate.kernels.Activation"),
        ({"precision": "tf32"}, "precision: expects a member of syncopate.kernels.Precision"),
    ],
)
def test_choices_are_members_of_enumerations(options, message):
    with pytest.raises(SyncopateError, match=message):
        gemm_rs("sm_90", "bf16", **options)


def test_buffer_of_another_shape_is_named():
    plan = syncopate.Plan("gemm_rs", [2])
    c = plan.buffer("c", (M, N), "bf16")
    with pytest.raises(
        SyncopateError, match=r"c: expects a buffer of \[80, 112\].* has \[256, 112\]"
    ):
        bind_gemm_pointers(Tensor("a", (M, K), "bf16"), N, CONFIG, c=c, transpose_a=True)
