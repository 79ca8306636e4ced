"""The local kernels compile for the GPUs they are meant for, within their budgets."""

import pytest
from triton.backends.compiler import GPUTarget

from syncopate.bridge import KernelSpec, compile_with, divisible
from syncopate.kernels import AttentionConfig, GemmConfig, attention, gemm, gemm_pointers

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


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("head_dim", [64, 128, 256])
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_attention_compiles(dtype, head_dim, causal):
    config = AttentionConfig.choose(head_dim)
    blocks = {"q": config.block_m, "k": config.block_n, "v": config.block_n, "o": config.block_m}
    constexprs = {
        "BLOCK_M": config.block_m,
        "BLOCK_N": config.block_n,
        "HEAD_DIM": head_dim,
        "CAUSAL": causal,
        "RAGGED": False,
        "PACKED": False,
        "NUM_SMS": 132,
        "o_ptr": None,
        "tiles_ptr": None,
    }
    signature = {
        **{
            f"{name}_desc": f"tensordesc<{dtype}[{rows},{head_dim}]>"
            for name, rows in blocks.items()
        },
        "lse_ptr": "*fp32",
        "positions_ptr": "*i32",
        "scale": "fp32",
        **dict.fromkeys(("HEADS", "GROUP", "TILES_M", "SQ", "SK"), "i32"),
        **dict.fromkeys(constexprs, "constexpr"),
    }
    options = {"num_warps": config.num_warps, "num_stages": config.num_stages}
    target = GPUTarget("cuda", 90, 32)
    spec = KernelSpec(attention, signature, constexprs, {}, target, options)
    kernel = compile_with(spec, lambda _, ttgir: ttgir, "identity")
    ptx = kernel.asm["ptx"]
    assert "wgmma.mma_async" in ptx and "cp.async.bulk.tensor" in ptx
    assert kernel.metadata.shared <= SHARED_MEMORY[90]
    # The loop over steps is pipelined: its marker stands before the loop as well, once for each stage in flight.
    assert ptx.count("// syncopate.step\n") == config.num_stages
    # Products run on while exponentials are computed: the loop waits once for all that are in flight.
    _, _, loop = kernel.asm["ttgir"].partition("iter_args")
    loop, _, _ = loop.partition("scf.yield %higher")
    assert loop.count("isAsync = true") == 2
    assert loop.count("ttng.warp_group_dot_wait") == 1
