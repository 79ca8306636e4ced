import subprocess

import pytest

from syncopate._tools import find_tool
from syncopate.mlir import ir
from syncopate.mlir.passmanager import PassManager

MODULE = """
module {
  %p = "tt.make"() : () -> tensor<4x!tt.ptr<f32>, #ttg.blocked<{order = [0]}>>
  %t = "ttg.async_copy"() : () -> !ttg.async.token
  "ttng.fence_async_shared"() {bCluster = false} : () -> ()
  "nvvm.barrier0"() : () -> ()
  llvm.mlir.global internal @shared() : !llvm.array<4 x i8>
}
"""


def list_opt_flags() -> set[str]:
    command = [str(find_tool("syncopate-opt")), "--help-list-hidden"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {line.split()[0].lstrip("-") for line in text.splitlines() if line.startswith("  ")}


def test_context_parses_what_the_tool_parses(run_opt):
    printed = run_opt(MODULE)
    with ir.Context():
        assert str(ir.Module.parse(MODULE)).strip() == printed.strip()


def test_context_refuses_unknown_dialects():
    with ir.Context(), pytest.raises(ir.MLIRError, match=r"unregistered|not found"):
        ir.Module.parse('"unknown.op"() : () -> ()')


@pytest.mark.parametrize("name", ["canonicalize", "cse", "symbol-dce"])
def test_pass_manager_knows_general_passes(name):
    with ir.Context():
        PassManager.parse(f"builtin.module({name})").run(ir.Module.parse("module {}").operation)


def can_be_scheduled(pipeline: str) -> bool:
    try:
        PassManager.parse(pipeline)
    except ValueError:
        return False
    return True


def test_pass_manager_knows_the_passes_of_the_tool():
    ours = {flag for flag in list_opt_flags() if "chunk-" in flag}
    assert ours
    with ir.Context():
        for name in sorted(ours):
            on_module = can_be_scheduled(f"builtin.module({name})")
            on_plan = can_be_scheduled(f"builtin.module(chunk.plan({name}))")
            assert on_module or on_plan, name
