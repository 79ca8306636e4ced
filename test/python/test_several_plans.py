"""Modules of several plans: what passes do to one does not depend on the others."""

import re

from syncopate.ir import new_context, parse, run_pipeline

PLAN = """
chunk.plan @p{number} mesh [2] {{
  %a = chunk.buffer "a" : !chunk.buffer<{rows}x1xf32>
  %t = chunk.all_gather %a axis 0 group [0, 1] : !chunk.buffer<{rows}x1xf32>
  %u = chunk.join %t
}}
"""


def lower(text):
    """The bodies of all plans after splitting, one after another in one thread."""
    module = parse(text, new_context())
    module.context.enable_multithreading(False)
    run_pipeline(module, "chunk.plan(chunk-decompose-collectives,chunk-split-transfers{splits=3})")
    return [re.sub(r"@p\d+", "@p", str(op)) for op in module.body.operations]


def test_each_plan_is_split_as_if_it_were_alone():
    # Blocks of one row are not split; their transfers may lie in memory where others, that were, have been.
    rows = [8, 2, 2, 6, 2] * 40
    plans = [PLAN.format(number=i, rows=count) for i, count in enumerate(rows)]
    alone = {count: lower(PLAN.format(number=0, rows=count))[0] for count in set(rows)}
    assert lower("".join(plans)) == [alone[count] for count in rows]
