"""Random plans, lowered and simulated: all of them are sound, and none of the waits that the passes place is idle."""

import dataclasses
import random

import numpy as np
import pytest
from edited_tables import refuse_tables
from hypothesis import HealthCheck, given, settings, strategies
from random_plans import RandomPlan, plans

from syncopate.sim.check import check_plan
from syncopate.sim.findings import Kind
from syncopate.sim.probe import compare, make_probe
from syncopate.sim.scheduler import Policy
from syncopate.sim.simulate import simulate

pytestmark = pytest.mark.any_triton


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)
@given(plans(), strategies.integers(1, 3))
def test_random_plan_brings_the_right_thing(text, splits):
    report = check_plan(text, f"splits={splits}", seeds=3)
    assert report.ok, f"{report}\n{text}"


def _within(first, count):
    return lambda signal: first <= signal < first + count


def _is_left_out(kind, program, where, wait, row):
    """Whether a wait is of a kind, by what it waits for and who waits."""
    layout, world, signal = program.signal_layout, program.world_size, wait["signal"]
    data = _within(0, 2 * layout.data_twin)(signal)
    done = _within(layout.done, 2 * world)(signal)
    peer = (signal - layout.done) % world
    transfer = where == "wait" and row.get("transfer", -1) >= 0
    to_peer = transfer and row["dst_rank"] == peer
    return {
        "end: arrivals": where == "close_wait" and data,
        "end: engine": where == "close_wait" and signal == layout.engine_done,
        "staging: readers": done and (where == "guard" or row.get("transfer") == -1),
        "transfer: guard of its destination": transfer and done and to_peer,
        "transfer: other guards": transfer and done and not to_peer,
        "transfer: input": transfer and _within(layout.ready, 2 * world)(signal),
        "transfer: data": transfer and data,
        "tile: data": where == "wait" and "c0" in row and data,
    }[kind]


SPANS = {"tiles": ("wait",), "commands": ("wait",), "calls": ("guard", "close_wait")}


def leave_out(program, dropped):
    """The program without the waits of which `dropped(rank, where, wait, row)` says so, and how many these were."""
    tables, count = [], 0
    for rank in range(program.world_size):
        mine = dict(program.rank_tables(rank))
        waits, kept = mine["waits"].rows(), []
        for name, spans in SPANS.items():
            table = mine[name]
            values = table.values.copy()
            for row, fields in zip(values, table.rows(), strict=True):
                for span in spans:
                    begin, end = (
                        table.columns.index(f"{span}_{edge}") for edge in ("begin", "end")
                    )
                    whole = waits[row[begin] : row[end]]
                    left = [wait for wait in whole if not dropped(rank, span, wait, fields)]
                    count += len(whole) - len(left)
                    row[begin], row[end] = len(kept), len(kept) + len(left)
                    kept += left
            mine[name] = dataclasses.replace(table, values=values)
        rows = np.array([list(wait.values()) for wait in kept], np.int64)
        mine["waits"] = dataclasses.replace(mine["waits"], values=rows)
        tables.append(mine)
    return dataclasses.replace(program, tables=tuple(tables)), count


def find(program, seeds):
    """The first finding within some interleavings of some calls."""
    for seed in range(seeds):
        policy = Policy.of_seed(seed)
        result = simulate(program, calls=4, seed=seed, scheduler=policy)
        for finding in (*result.verdict.findings, *compare(program, result)):
            return finding
    return None


@pytest.mark.parametrize(
    "kind",
    [
        "end: arrivals",
        "end: engine",
        "staging: readers",
        "transfer: guard of its destination",
        "transfer: other guards",
        "transfer: input",
        "transfer: data",
        "tile: data",
    ],
)
def test_leaving_out_waits_is_noticed(kind):
    for seed in range(60):
        program = make_probe(RandomPlan(random.Random(seed)).text())
        broken, count = leave_out(
            program, lambda _rank, *what, program=program: _is_left_out(kind, program, *what)
        )
        if count and find(broken, 3):
            assert refuse_tables(broken)
            return
    raise AssertionError(f"nobody misses the waits of kind {kind!r}")


def count_waits(program):
    """How many waits a program's tables name."""
    _, count = leave_out(program, lambda *_: True)
    return count


def leave_one_out(program, number):
    """The program without one of the waits that its tables name, counted through."""
    counter = iter(range(count_waits(program)))
    broken, _ = leave_out(program, lambda *_: next(counter) == number)
    return broken


@pytest.mark.parametrize("seed", range(4))
def test_waits_that_the_static_checks_do_not_miss_are_idle(seed):
    """Of waits that other waits imply; and that there are some that are not implied."""
    draw = random.Random(seed)
    program = make_probe(RandomPlan(draw).text())
    assert not refuse_tables(program)
    refused, idle = 0, []
    for number in range(count_waits(program)):
        broken = leave_one_out(program, number)
        if refuse_tables(broken):
            refused += 1
        else:
            idle.append(broken)
    assert refused
    for broken in draw.sample(idle, min(3, len(idle))):
        finding = find(broken, 3)
        assert finding is None, str(finding)


ORDER_ONLY = """
!b = !chunk.buffer<96x16xf32>
chunk.plan @p mesh [3] {
  %a = chunk.buffer "a" : !b
  %y = chunk.buffer "y" : !b
  chunk.input %a[0, 0] sizes [32, 16] on 0 : !b
  chunk.input %a[32, 0] sizes [64, 16] on 1 : !b
  chunk.input %a[0, 0] sizes [96, 16] on 2 : !b
  chunk.input %y[0, 0] sizes [32, 16] on 2 : !b
  %t0 = chunk.put %a[0, 0] to %a[0, 0] sizes [32, 16] from 0 to 1 realize copy_engine : !b to !b
  %t1 = chunk.get %a[32, 0] to %a[32, 0] sizes [64, 16] from 1 to 0 realize ldst_colocated : !b to !b
  %t2 = chunk.put %y[0, 0] to %y[32, 0] sizes [32, 16] from 2 to 2 after(%t0) realize copy_engine : !b to !b
  chunk.kernel @k tiles [6, 2] ctas 2 args(%a as "a") after(%t0, %t1, %t2) : !b {
    chunk.footprint read "a" at affine_map<(m, n) -> (m * 16, 0)> sizes [16, 16]
  }
}
"""
"""Rank 2's engine waits for the twin of a transfer between ranks 0 and 1, for order only."""


def test_twin_is_not_raised_before_it_is_taken_down():
    program = make_probe(ORDER_ONLY)
    assert find(program, 12) is None
    layout = program.signal_layout
    broken, count = leave_out(
        program,
        lambda rank, _span, wait, _row: (
            rank == 0 and wait["signal"] in (layout.done + 2, layout.done_twin + 2)
        ),
    )
    assert count
    finding = find(broken, 12)
    assert finding is not None
    assert finding.kind is Kind.OVERFLOW
    assert " again " in finding.message
