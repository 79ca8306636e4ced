"""Modules go out of Triton and back, and Triton compiles what a transformation made of them."""

import importlib.util
import sys

import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget

from syncopate.bridge import (
    BridgeError,
    KernelSpec,
    capture_ttgir,
    compile_with,
    divisible,
    export_module,
    import_module,
    make_wrapper,
    new_context,
    self_check,
)
from syncopate.errors import SyncopateError
from syncopate.kernels import GemmConfig, gemm, gemm_pointers

SMALL = GemmConfig(block_m=64, block_n=64, block_k=32, num_warps=4, num_stages=2, num_ctas=4)


@pytest.fixture(autouse=True)
def own_caches(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    monkeypatch.setenv("SYNCOPATE_CACHE_DIR", str(tmp_path / "syncopate"))


def gemm_spec(arch=90):
    signature = {"sy_context": "*i64", **SMALL.descriptor_signature()}
    return KernelSpec(
        make_wrapper(gemm, "bridged"),
        signature,
        SMALL.constexprs(),
        target=GPUTarget("cuda", arch, 32),
        options=SMALL.options(),
    )


def pointer_spec(arch=90):
    signature = {"sy_context": "*i64", **SMALL.pointer_signature()}
    return KernelSpec(
        make_wrapper(gemm_pointers, "bridged"),
        signature,
        SMALL.constexprs(),
        target=GPUTarget("cuda", arch, 32),
        options=SMALL.options(),
    )


@pytest.mark.parametrize("arch", [80, 90, 100])
@pytest.mark.parametrize("make_spec", [gemm_spec, pointer_spec])
def test_round_trip_is_exact(make_spec, arch):
    if make_spec is gemm_spec and arch < 90:
        pytest.skip("no TMA")
    spec = make_spec(arch)
    captured = capture_ttgir(spec)
    context = new_context(spec.target)
    for text in (captured.ttir, captured.ttgir):
        assert text.count('"builtin.module"') == 1
        assert "llvm.data_layout" not in text
        assert export_module(import_module(text, context)) == text


def test_argument_names_survive():
    text = capture_ttgir(gemm_spec()).ttgir
    for name in ("sy_context", "a_desc", "b_desc", "c_desc", "M"):
        assert f'loc("{name}"(' in text


def test_import_of_an_invalid_module_names_the_version():
    context = new_context(GPUTarget("cuda", 90, 32))
    with pytest.raises(BridgeError, match=triton.__version__.replace(".", r"\.")):
        import_module('"builtin.module"() ({ "tt.nonsense"() : () -> () }) : () -> ()', context)


def test_compile_uses_the_transformed_module():
    def rename(ttir, ttgir):
        assert '"tt.dot"' in ttir
        assert '"ttng.warp_group_dot"' in ttgir
        return ttgir.replace('sym_name = "bridged"', 'sym_name = "renamed"')

    kernel = compile_with(gemm_spec(), rename, "rename")
    assert ".entry renamed" in kernel.asm["ptx"]
    assert kernel.asm["cubin"]
    assert len(kernel.metadata.tensordesc_meta) == 3


def test_compile_is_cached_by_key():
    calls = []

    def transform(_, ttgir):
        calls.append(ttgir)
        return ttgir

    spec = gemm_spec()
    for key in ("one", "two", "one"):
        compile_with(spec, transform, key)
    assert len(calls) == 2


def test_hook_is_restored_after_an_error(monkeypatch):
    seen = []

    def theirs(*arguments):
        seen.append(len(arguments))
        return None if arguments else ("theirs", "theirs")

    monkeypatch.setattr(triton.knobs.runtime, "add_stages_inspection_hook", theirs)

    def fail(_, ttgir):
        raise KeyError("transformation")

    with pytest.raises(KeyError, match="transformation"):
        compile_with(gemm_spec(), fail, "fail")
    assert triton.knobs.runtime.add_stages_inspection_hook is theirs
    assert 5 in seen


def test_compiles_nest():
    def transform(_, ttgir):
        assert '"ttng.warp_group_dot"' not in capture_ttgir(pointer_spec(80)).ttgir
        return ttgir

    assert compile_with(gemm_spec(), transform, "nest").asm["cubin"]


def test_self_check_names_the_version(monkeypatch):
    def forgetful(text, context):
        return import_module(text.replace("value = 63 : i32", "value = 62 : i32"), context)

    context = new_context(GPUTarget("cuda", 90, 32))
    text = capture_ttgir(gemm_spec()).ttgir.replace("value = 31 : i32", "value = 63 : i32")
    module = import_module(text, context)
    monkeypatch.setattr("syncopate.bridge.module._checked", set())
    monkeypatch.setattr("syncopate.bridge.module.import_module", forgetful)
    version = triton.__version__.replace(".", r"\.")
    with pytest.raises(BridgeError, match=rf"not exact.*came back as.*{version}"):
        self_check(module)


def test_wrapper_takes_a_kernel_from_anywhere(tmp_path):
    path = tmp_path / "elsewhere.py"
    path.write_text(
        "import triton\nimport triton.language as tl\n\n\n@triton.jit\n"
        "def scale(x, N, FACTOR: tl.constexpr):\n"
        "    i = tl.program_id(0)\n"
        "    if i < N:\n"
        "        tl.store(x + i, tl.load(x + i) * FACTOR)\n"
    )
    module_spec = importlib.util.spec_from_file_location("elsewhere", path)
    module = importlib.util.module_from_spec(module_spec)
    sys.modules["elsewhere"] = module
    module_spec.loader.exec_module(module)
    wrapper = make_wrapper(module.scale, "outer")
    assert wrapper.arg_names == ["sy_context", "x", "N", "FACTOR"]
    assert [p.is_constexpr for p in wrapper.params] == [False, False, False, True]
    signature = {"sy_context": "*i64", "x": "*fp32", "N": "i32", "FACTOR": "constexpr"}
    text = capture_ttgir(KernelSpec(wrapper, signature, {"FACTOR": 3.0})).ttgir
    assert '"tt.call"' not in text
    assert "3.000000e+00" in text


@triton.jit
def taken(sy_context):
    tl.store(sy_context, 0)


@pytest.mark.parametrize(
    ("kernel", "name", "error", "message"),
    [
        (lambda x: x, "k", SyncopateError, "kernel must be a @triton.jit function"),
        (gemm, "no name", SyncopateError, "name must be a Python identifier"),
        (taken, "k", SyncopateError, "'sy_context' of taken"),
    ],
)
def test_wrapper_rejects(kernel, name, error, message):
    with pytest.raises(error, match=message):
        make_wrapper(kernel, name)


def test_divisible_is_a_power_of_two_up_to_16():
    values = {"a": 0, "b": 48, "c": 8190, "d": 8189}
    attrs = divisible(["x", "a", "b", "c", "d"], values)
    assert attrs == {
        (1,): [["tt.divisibility", 16]],
        (2,): [["tt.divisibility", 16]],
        (3,): [["tt.divisibility", 2]],
    }
