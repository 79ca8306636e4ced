"""The local kernels compile for the GPUs they are meant for, within their budgets."""

import pytest
from triton.backends.compiler import GPUTarget

from syncopate.bridge import KernelSpec, compile_with, divisible
from syncopate.kernels import GemmConfig, gemm, gemm_pointers

SHARED_MEMORY = {80: 166912, 90: 232448}


@pytest.fixture(autouse=True)
def own_caches(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


def compiled(kernel, signature, config, attrs=None, arch=90):
    target = GPUTarget("cuda", arch, 32)
    spec = KernelSpec(kernel, signature, config.constexprs(), attrs or {}, target, config.options())
    return compile_with(spec, lambda _, ttgir: ttgir, "identity")


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp8e4nv"])
def test_gemm_compiles(dtype):
    config = GemmConfig(num_ctas=132)
    kernel = compiled(gemm, config.descriptor_signature(dtype), config)
    assert kernel.asm["cubin"]
    assert "wgmma.mma_async" in kernel.asm["ptx"]
    assert "cp.async.bulk.tensor" in kernel.asm["ptx"]
    assert kernel.metadata.shared <= SHARED_MEMORY[90]


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("multiple", [1, 2, 16])
def test_gemm_pointers_compiles(multiple, arch):
    config = GemmConfig(block_n=128, num_ctas=132)
    signature = config.pointer_signature()
    pointers = {"a_ptr": 16, "b_ptr": 16, "c_ptr": 16}
    numbers = dict.fromkeys(("M", "N", "K", "stride_a", "stride_b", "stride_c"), multiple)
    kernel = compiled(
        gemm_pointers, signature, config, divisible(list(signature), {**pointers, **numbers}), arch
    )
    assert kernel.asm["cubin"]
    # Rows of an odd number of 16-bit elements are too little aligned for any asynchronous copy.
    assert ("cp.async" in kernel.asm["ptx"]) == (multiple > 1)
    assert kernel.metadata.shared <= SHARED_MEMORY[arch]


def test_config_counts_tiles():
    assert GemmConfig().tiles(8200, 3600) == (65, 15)
