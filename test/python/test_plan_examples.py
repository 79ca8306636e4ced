"""Every plan in examples/: parses, prints, lowers, and is sound in the simulator; so are gathers of every kind."""

import re
import subprocess
from pathlib import Path

import pytest

import syncopate
from syncopate import Plan
from syncopate._tools import find_tool
from syncopate.choices import Combine
from syncopate.errors import PlanError
from syncopate.ir import new_context, parse, run_pipeline
from syncopate.plan.plan_file import lower_plan, schedule_plan
from syncopate.plan.sequence import SequenceShards, Sharding, gather_sequence
from syncopate.plan.sequence_sums import reduce_sequence
from syncopate.plan.templates import all_reduce_tiles, reduce_scatter_tiles
from syncopate.sim import Kind, simulate
from syncopate.sim.check import check_plan
from syncopate.sim.probe import make_probe

PLANS = sorted((Path(__file__).parents[2] / "examples" / "plans").glob("*.mlir"))


def _check(text, options="", seeds=2):
    report = check_plan(text, options, seeds=seeds)
    assert report.ok, str(report)


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
def test_plan_is_sound(plan, options):
    _check(plan.read_text(), options)


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
@pytest.mark.parametrize("direction", ["push", "pull"])
@pytest.mark.parametrize("algorithm", ["direct", "ring", "bidirectional_ring"])
@pytest.mark.parametrize(("world", "rows", "splits"), [(2, 128, 1), (3, 200, 2), (8, 300, 3)])
def test_all_gather_of_every_kind(algorithm, direction, realization, world, rows, splits):
    options = (
        f"algorithm={algorithm} direction={direction} realization={realization} splits={splits}"
    )
    _check(_all_gather(world, rows), options)


ROUTED = """
!a = !chunk.buffer<36x16xbf16>
!c = !chunk.buffer<5x24xi32>
chunk.plan @p mesh [2, 2] {
  %a = chunk.buffer "a" : !a
  %b = chunk.buffer "b" : !a
  %c = chunk.buffer "c" : !c
  chunk.input %a[0, 0] sizes [36, 16] on 0 : !a
  chunk.input %a[0, 0] sizes [36, 16] on 1 : !a
  chunk.input %a[0, 0] sizes [36, 16] on 2 : !a
  chunk.input %a[0, 0] sizes [36, 16] on 3 : !a
  chunk.input %c[0, 0] sizes [5, 24] on 2 : !c
  %t = chunk.all_to_all %a to %b axis 0 group [0, 1, 2, 3] by direct : !a to !a
  %u = chunk.broadcast %c root 2 group [3, 2, 1, 0] : !c
  chunk.kernel @k tiles [4, 2] ctas 3 args(%b as "b", %c as "c") after(%t, %u) : !a, !c {
    chunk.footprint read "b" at affine_map<(m, n) -> (m * 9, 0)> sizes [9, 16]
    chunk.footprint read "c" at affine_map<(m, n) -> (m, n * 12)> sizes [2, 12]
  }
}
"""


@pytest.mark.parametrize("realization", ["ldst_colocated", "copy_engine"])
@pytest.mark.parametrize("direction", ["push", "pull"])
@pytest.mark.parametrize("algorithm", ["hierarchical", "recursive_doubling", "bidirectional_ring"])
def test_all_to_all_and_broadcast(algorithm, direction, realization):
    _check(ROUTED, f"algorithm={algorithm} direction={direction} realization={realization}")


TWO_BUFFERS = """
!a = !chunk.buffer<64x16xbf16>
!c = !chunk.buffer<2x8x4xi8>
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !a
  %c = chunk.buffer "c" : !c
  chunk.input %a[0, 0] sizes [32, 16] on 0 : !a
  chunk.input %a[32, 0] sizes [32, 16] on 1 : !a
  chunk.input %c[0, 0, 0] sizes [1, 8, 4] on 0 : !c
  chunk.input %c[1, 0, 0] sizes [1, 8, 4] on 1 : !c
  %t = chunk.all_gather %a axis 0 group [0, 1] : !a
  %u = chunk.all_gather %c axis 0 group [0, 1] : !c
  chunk.kernel @k tiles [4, 2] ctas 3 args(%a as "a", %c as "c") after(%t, %u) : !a, !c {
    chunk.footprint read "a" at affine_map<(m, n) -> (m * 16, 0)> sizes [16, 16]
    chunk.footprint read "c" at affine_map<(m, n) -> (n mod 2, (m floordiv 2) * 4, 0)> sizes [1, 4, 4]
  }
}
"""


@pytest.mark.parametrize("realization", ["ldst_colocated", "copy_engine"])
def test_every_footprint_is_checked(realization):
    options = f"realization={realization}"
    _check(TWO_BUFFERS, options)
    schedule = schedule_plan(TWO_BUFFERS, options)
    assert [access.offsets((3, 1)) for access in schedule.accesses] == [(48, 0), (1, 4, 0)]
    # Tiles that do not wait read too early, in the second buffer as in the first.
    program = make_probe(TWO_BUFFERS, options)
    for tables in program.tables:
        columns = tables["tiles"].columns
        tables["tiles"].values[:, columns.index("wait_end")] = 0
        tables["tiles"].values[:, columns.index("wait_begin")] = 0
    findings = [
        finding
        for seed in range(3)
        for finding in simulate(program, seed=seed, scheduler="late").verdict.findings
    ]
    for buffer in ("a", "c"):
        assert any(
            finding.kind is Kind.UNWRITTEN and f"reads buffer {buffer} of rank" in finding.message
            for finding in findings
        )


def test_plan_of_the_documentation_is_right():
    page = (Path(__file__).parents[2] / "docs" / "plans.md").read_text()
    text, form = re.findall(r"```mlir\n(.*?)```", page, re.DOTALL)
    _check(text)
    with pytest.raises(PlanError, match="operand #2 does not dominate this use"):
        schedule_plan(text.replace("after(%p)", "after(%i)"))
    # The rank-affine form stands alone; around it goes what it is about.
    maps = "\n".join(line for line in form.splitlines() if line.startswith("#"))
    inputs = [f"chunk.input %a[{2 * rank}, 0] sizes [2, 64] on {rank} : !a" for rank in range(3)]
    body = form.replace(maps, "")
    claim = "chunk.claim after(%all) { %t = chunk.all_gather %a axis 0 group [0, 1, 2] : !a }"
    buffer = '%a = chunk.buffer "a" : !a'
    plan = "\n".join(["chunk.plan @p mesh [3] {", buffer, *inputs, body, claim, "}"])
    module = parse(f"!a = !chunk.buffer<6x64xf32>\n{maps}\n{plan}", new_context())
    run_pipeline(module, EXPAND)
    # In Python it is the same.
    *blocks, code = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    built = Plan("p", [3])
    a = built.buffer("a", (6, 64), "f32", shard_axis=0)
    exec(code, {"plan": built, "a": a})
    with built.claim(after=built.tokens):
        built.all_gather(a)
    again = parse(built.text, new_context())
    run_pipeline(again, EXPAND)
    assert str(again) == str(module)
    # What tiles compute is sound without a kernel as well.
    names = {
        "syncopate": syncopate,
        "Combine": Combine,
        "all_reduce_tiles": all_reduce_tiles,
        "reduce_scatter_tiles": reduce_scatter_tiles,
        "SequenceShards": SequenceShards,
        "Sharding": Sharding,
        "gather_sequence": gather_sequence,
        "reduce_sequence": reduce_sequence,
    }
    for block in blocks:
        exec(block, names)
        run_pipeline(parse(names["plan"].text, new_context()), PROVE)


PROVE = "chunk.plan(chunk-decompose-collectives,chunk-check-plan,chunk-check-claims)"
EXPAND = "chunk.plan(chunk-expand-spmd,chunk-check-plan,chunk-check-claims)"


def test_plan_without_kernel_is_refused():
    with pytest.raises(PlanError, match=r"module: plan p has no chunk\.kernel, .*; add one behind"):
        schedule_plan("chunk.plan @p mesh [2] {}")
