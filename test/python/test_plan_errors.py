"""Plans that are wrong: one clear error, the same from the tool and from Python."""

import subprocess

import pytest

from syncopate._tools import find_tool
from syncopate.errors import PlanError
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


def test_right_plan_is_taken():
    assert schedule_plan(PLAN).world_size == 2
