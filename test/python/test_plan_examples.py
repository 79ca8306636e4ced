"""Every plan in examples/: parses, prints, lowers, and its tables compute the right thing."""

import subprocess
from pathlib import Path

import pytest

from syncopate._tools import find_tool
from syncopate.errors import PlanError
from syncopate.ir import new_context, parse
from syncopate.show.plan_file import lower_plan, schedule_plan
from syncopate.sim import Gemm, execute_tables

PLANS = sorted((Path(__file__).parents[2] / "examples" / "plans").glob("*.mlir"))


def _run(schedule, seeds=2):
    gemm = Gemm((schedule.tile_shape[0], 8), 8 * schedule.tiles[-1])
    return max(execute_tables(schedule, gemm, seed=seed).max_error for seed in range(seeds))


@pytest.mark.parametrize("plan", PLANS, ids=lambda p: p.stem)
def test_plan_round_trips_through_text(plan):
    context = new_context()
    once = str(parse(plan.read_text(), context))
    assert str(parse(once, context)) == once


@pytest.mark.parametrize("plan", PLANS, ids=lambda p: p.stem)
def test_plan_lowers_in_the_tool_as_in_python(plan):
    command = [find_tool("syncopate-opt"), "--syncopate-plan-pipeline", plan]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed.strip() == lower_plan(plan.read_text()).strip()


@pytest.mark.parametrize("plan", PLANS, ids=lambda p: p.stem)
@pytest.mark.parametrize("options", ["", "splits=3", "order=grouped"])
def test_plan_computes_the_right_thing(plan, options):
    assert _run(schedule_plan(plan.read_text(), options)) < 1e-5


ALL_GATHER = """
chunk.plan @p mesh [{world}] {{
  %a = chunk.buffer "a" : !chunk.buffer<{rows}x64xbf16>
  {inputs}
  %t = chunk.all_gather %a axis 0 group {group} : !chunk.buffer<{rows}x64xbf16>
  chunk.kernel @k tiles [{tiles}, 3] ctas 4 args(%a as "a") after(%t)
      : !chunk.buffer<{rows}x64xbf16> {{
    chunk.footprint read "a" at affine_map<(m, n) -> (m * 32, 0)> sizes [32, 64]
  }}
}}
"""


def _all_gather(world, rows):
    block = -(-rows // world)
    inputs = [
        f"chunk.input %a[{r * block}, 0] sizes [{min(block, rows - r * block)}, 64] on {r} "
        f": !chunk.buffer<{rows}x64xbf16>"
        for r in range(world)
    ]
    return ALL_GATHER.format(
        world=world,
        rows=rows,
        inputs="\n".join(inputs),
        group=list(range(world)),
        tiles=-(-rows // 32),
    )


@pytest.mark.parametrize("realization", ["ldst_colocated", "copy_engine"])
@pytest.mark.parametrize("algorithm", ["direct_push", "direct_pull", "ring_push", "ring_pull"])
@pytest.mark.parametrize(("world", "rows", "splits"), [(2, 128, 1), (3, 200, 2), (8, 300, 3)])
def test_all_gather_of_every_kind(algorithm, realization, world, rows, splits):
    options = f"algorithm={algorithm} realization={realization} splits={splits}"
    assert _run(schedule_plan(_all_gather(world, rows), options)) < 1e-5


def test_plan_without_kernel_is_refused():
    with pytest.raises(PlanError, match=r"chunk\.kernel"):
        schedule_plan("chunk.plan @p mesh [2] {}")
