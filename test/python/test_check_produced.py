"""`syncopate check` of plans whose tiles compute what transfers move."""

import pytest
from broken_probes import probe_without_waits

from syncopate import Plan, Strategy, SyncopateError
from syncopate.choices import Combine
from syncopate.plan.templates import all_reduce_tiles, all_to_all_tiles, reduce_scatter_tiles
from syncopate.sim import check
from syncopate.sim.check import check_plan

pytestmark = pytest.mark.any_triton


def summed(template, dtype="f32", world=2, rows=33, **choices):
    plan = Plan("sum", [world])
    c = plan.buffer("c", (rows, 12), dtype)
    done = template(plan, c, Strategy(**choices))
    plan.bind_tiles("store", [-(-rows // 8), 2], writes={c: (8, 8)}, after=done)
    return plan.text


@pytest.mark.parametrize(
    ("template", "dtype", "rows", "choices"),
    [
        (reduce_scatter_tiles, "bf16", 32, {"combine": Combine.TILES}),
        (reduce_scatter_tiles, "f32", 33, {"combine": Combine.ROLE, "direction": "pull"}),
        (all_reduce_tiles, "i32", 33, {"combine": Combine.ROLE}),
        (all_reduce_tiles, "f16", 33, {"combine": Combine.DESTINATION}),
    ],
)
def test_sums_of_tiles_are_sound(template, dtype, rows, choices):
    report = check_plan(summed(template, dtype, rows=rows, **choices), seeds=2)
    assert report.ok, report
    assert "and of what every tile of 10" in str(report) or rows == 32


@pytest.mark.parametrize("dtype", ["f8E5M2", "f8E4M3FN"])
def test_sums_of_eight_bits_are_exact(dtype):
    """Of nine ranks, more than can each have an integer in a sum of three bits."""
    text = summed(reduce_scatter_tiles, dtype, world=9, rows=18, combine=Combine.ROLE)
    report = check_plan(text, seeds=1)
    assert report.ok, report


def test_tiles_that_read_and_write_are_checked_for_both():
    plan = Plan("both", [2])
    a = plan.buffer("a", (16, 4), "f32", shard_axis=0)
    gathered = plan.all_gather(a)
    c, got = plan.buffer("c", (16, 4), "f32"), plan.buffer("got", (16, 4), "f32")
    done = all_to_all_tiles(plan, c, got)
    plan.bind_tiles("k", [4], reads={a: (4, 4)}, writes={c: (4, 4)}, after=[gathered, done])
    report = check_plan(plan.text, seeds=2)
    assert report.ok, report
    assert "every tile of 4 found what the plan brings there" in str(report)


def test_transfers_that_do_not_wait_for_tiles_are_found(monkeypatch):
    text = summed(all_reduce_tiles, combine=Combine.ROLE)
    monkeypatch.setattr("syncopate.sim.check.make_probe", probe_without_waits)
    report = check_plan(text, seeds=5)
    assert not report.ok
    assert {finding["kind"] for finding in report.to_json()["findings"]} <= {
        "race",
        "unwritten",
        "wrong result",
    }


def test_what_tiles_store_is_compared(monkeypatch):
    text, check_simulate = summed(all_reduce_tiles, combine=Combine.ROLE), check.simulate

    def simulate_wrongly(program, **options):
        result = check_simulate(program, **options)
        result.buffers["c"][1][32, 11] += 1
        return result

    monkeypatch.setattr("syncopate.sim.check.simulate", simulate_wrongly)
    report = check_plan(text, seeds=1)
    assert "in the end, rank 1 holds" in str(report)
    assert "at c[32, 11]" in str(report)


def test_library_calls_are_for_the_plans_own_kernel():
    plan = Plan("calls", [2])
    c = plan.buffer("c", (256, 128), "bf16")
    done = reduce_scatter_tiles(plan, c, Strategy(realization="nccl"))
    plan.bind_tiles("store", [2, 1], writes={c: (128, 128)}, after=done)
    with pytest.raises(SyncopateError, match="its collective becomes library calls"):
        check_plan(plan.text, "realization=nccl", seeds=1)
