"""Triton's own sanitizer, where it is there, takes what we make: it can be run on a GPU as a second opinion."""

import pytest
from sim_programs import ag_gemm
from sim_table import TRANSFERS
from triton._C.libtriton import ir, nvidia, passes


@pytest.mark.skipif(
    not hasattr(passes.ttgpuir, "add_global_sanitizer"), reason="this Triton has no gsan"
)
@pytest.mark.parametrize("realization", TRANSFERS)
def test_gsan_instruments_the_fused_kernel(realization, tmp_path):
    fused = ag_gemm(realization.value).ir["fused"]
    path = tmp_path / "fused.ttgir"
    path.write_text(fused)
    context = ir.context()
    ir.load_dialects(context)
    nvidia.load_dialects(context)
    module = ir.parse_mlir_module(str(path), context)
    manager = ir.pass_manager(context)
    passes.ttgpuir.add_global_sanitizer(manager)
    manager.run(module, "gsan")
    text = str(module)
    # One check for each atomic of the kernel, before it or in its place.
    assert text.count("gsan_atomic_rmw") == fused.count('"tt.atomic_rmw"')
    assert "gsan_tensor_access" in text
