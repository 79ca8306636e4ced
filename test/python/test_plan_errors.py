"""Plans that are wrong: one clear error, the same from the tool and from Python."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

import syncopate
from syncopate._tools import find_tool
from syncopate.cli import main
from syncopate.errors import PlanError
from syncopate.ir import new_context, parse, run_pipeline
from syncopate.kernels import GemmConfig, bind_gemm, gemm
from syncopate.plan.plan_file import schedule_plan

pytestmark = pytest.mark.any_triton

PLAN = """
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !chunk.buffer<256x64xbf16>
  %f = chunk.buffer "f" : !chunk.buffer<256x64xf32>
  chunk.input %a[0, 0] sizes [128, 64] on 0 : !chunk.buffer<256x64xbf16>
  chunk.input %a[128, 0] sizes [128, 64] on 1 : !chunk.buffer<256x64xbf16>
  %t = chunk.put %a[0, 0] to %a[0, 0] sizes [128, 64] from 0 to 1
    : !chunk.buffer<256x64xbf16> to !chunk.buffer<256x64xbf16>
  %u = chunk.put %a[128, 0] to %a[128, 0] sizes [128, 64] from 1 to 0
    : !chunk.buffer<256x64xbf16> to !chunk.buffer<256x64xbf16>
  chunk.kernel @k tiles [2, 2] ctas 2 args(%a as "a") after(%t, %u)
      : !chunk.buffer<256x64xbf16> {
    chunk.footprint read "a" at affine_map<(m, n) -> (m * 128, 0)> sizes [128, 64]
  }
}
"""

WRONG = {
    "rank": ("from 1 to 0\n", "from 1 to 2\n", "expects dst rank to be in [0, 2), but got 2"),
    "bounds": (
        "put %a[128, 0] to %a[128, 0] sizes [128, 64]",
        "put %a[128, 0] to %a[192, 0] sizes [128, 64]",
        "192",
    ),
    "missing transfer": ("after(%t, %u)", "after(%t)", "tile"),
    "element type": (
        "%a[0, 0] to %a[0, 0] sizes [128, 64] from 0 to 1\n    : !chunk.buffer<256x64xbf16> to "
        "!chunk.buffer<256x64xbf16>",
        "%a[0, 0] to %f[0, 0] sizes [128, 64] from 0 to 1\n    : !chunk.buffer<256x64xbf16> to "
        "!chunk.buffer<256x64xf32>",
        "f32",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_plan_gives_one_error_everywhere(what):
    old, new, said = WRONG[what]
    assert old in PLAN
    text = PLAN.replace(old, new)
    with pytest.raises(PlanError) as caught:
        schedule_plan(text)
    assert said in str(caught.value)
    command = [find_tool("syncopate-opt"), "--syncopate-plan-pipeline", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("error:") == 1
    assert said in done.stderr


LATE = PLAN.replace("from 0 to 1\n", "from 0 to 1 after(%u)\n")
DOES_NOT_STAND_BEFORE = ":7: operand #2 does not dominate this use\n  {0}:9: operand defined here"


@pytest.mark.parametrize("take", [schedule_plan, lambda text: parse(text, new_context())])
def test_text_that_uses_what_stands_behind_is_refused(take):
    with pytest.raises(PlanError, match=re.escape("-" + DOES_NOT_STAND_BEFORE.format("-"))):
        take(LATE)


@pytest.mark.parametrize("command", ["check", "explain", "show"])
def test_file_that_uses_what_stands_behind_is_refused(command, tmp_path, capsys):
    file = tmp_path / "late.mlir"
    file.write_text(LATE)
    assert main([command, str(file)]) == 1
    assert f"{file}{DOES_NOT_STAND_BEFORE.format(file)}" in capsys.readouterr().err


def _make_late() -> tuple[syncopate.Plan, dict[str, Any]]:
    """A plan whose first transfer has been brought behind the one that comes after it, and a kernel for it."""
    plan = syncopate.Plan("late", [2])
    a = plan.buffer("a", (256, 64), "bf16", shard_axis=0)
    first = plan.put(a[0:128], a[0:128], src_rank=0, dst_rank=1)
    second = plan.put(a[128:256], a[128:256], src_rank=1, dst_rank=0, after=[first])
    first.value.owner.move_after(second.value.owner)
    return plan, bind_gemm(a, 64, GemmConfig(64, 64, 64))


def test_compile_refuses_a_plan_that_uses_what_stands_behind():
    plan, bound = _make_late()
    with pytest.raises(
        PlanError, match=rf"{Path(__file__).name}:\d+: operand #2 does not dominate"
    ):
        syncopate.compile(gemm, plan, **bound)


def test_passes_are_not_run_on_a_module_that_uses_what_stands_behind():
    plan, _ = _make_late()
    with pytest.raises(
        PlanError, match=rf"{Path(__file__).name}:\d+: operand #2 does not dominate"
    ):
        run_pipeline(plan.copy_module(), "chunk.plan(chunk-split-transfers)")


def test_right_plan_is_taken():
    assert schedule_plan(PLAN).world_size == 2
