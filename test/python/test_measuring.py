"""How calls are compared on GPUs, with a clock and programs in place of them."""

import dataclasses
import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from syncopate import GemmWorkload, Target, demo  # noqa: E402
from syncopate import bench as bench_command  # noqa: E402
from syncopate.runtime import session as sessions  # noqa: E402
from syncopate.runtime import timing  # noqa: E402
from syncopate.workloads.reference import multiply  # noqa: E402

pytestmark = pytest.mark.any_triton


class Clock:
    """CUDA's events: the time of each is what has been spent up to it."""

    def __init__(self, monkeypatch):
        self.ms = 0.0
        clock = self

        class Event:
            def __init__(self, enable_timing):
                assert enable_timing

            def record(self):
                self.at = clock.ms

            def elapsed_time(self, end):
                return end.at - self.at

        monkeypatch.setattr(torch.cuda, "Event", Event)
        monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
        monkeypatch.setattr(torch.cuda, "_sleep", self.spend)

    def spend(self, ms):
        self.ms += ms


class OneOfTwo(sessions.Session):
    """A rank whose peer takes `slower` microseconds more for every call."""

    def __init__(self, clock, slower):
        self.rank, self.clock, self.slower, self.said = 0, clock, slower, []

    def align(self):
        self.clock.spend(100.0)

    def maximum(self, values):
        return [value + self.slower for value in values]


def test_candidates_take_turns_and_only_their_calls_count(monkeypatch):
    clock = Clock(monkeypatch)
    session, turns = OneOfTwo(clock, 3.0), []

    def candidate(name, ms):
        def call(index):
            turns.append((name, index))
            clock.spend(ms * (1 + index))

        poison = torch.zeros(2)
        return timing.Candidate(name, call, prepare=lambda index: clock.spend(7.0), poison=poison)

    both = [candidate("a", 0.25), candidate("b", 1.0)]
    session.compare(both, 3, 2)
    # Two rounds more warm up; sets take turns by round.
    assert turns == [(name, index) for index in (0, 1, 0, 1, 0) for name in "ab"]
    assert both[0].times_us == [253.0, 503.0, 253.0] and both[1].us == 1003.0
    assert torch.isnan(both[0].poison).all()
    assert timing.time_call_us(lambda: clock.spend(0.5), session.align) == 500.0


@pytest.mark.parametrize("transpose_b", [True, False])
@pytest.mark.parametrize("factor", [1.0, 1.1, float("nan")])
def test_bench_reports_all_ways_and_what_is_wrong(monkeypatch, capsys, transpose_b, factor):
    workload = dataclasses.replace(GemmWorkload("ag_gemm", 64, 24, 40, 2), transpose_b=transpose_b)

    class Session:
        rank, device = 0, torch.device("cpu")

        def compare(self, ways, rounds):
            assert rounds == 9
            product = ways[0].call(0)
            assert list(product.shape) == [64, 24]
            for number, way in enumerate(ways):
                way.times_us = [number + 1.0]

        def maximum(self, values):
            return np.maximum(values, 0.0).tolist()

        def say(self, text):
            print(text)

        def close(self):
            print("closed")

    def load(self, group, strategy, *, config, target):
        seeds = iter(range(99))
        return lambda a, b: (multiply(workload, 0, next(seeds), "cpu") * factor).to(a.dtype)

    monkeypatch.setattr(sessions, "Session", Session)
    monkeypatch.setattr(GemmWorkload, "load", load)
    monkeypatch.setattr("syncopate.runtime.ProcessGroup", lambda: None)
    monkeypatch.setattr(Target, "current", lambda: Target.parse("sm_90"))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "H200")
    bench_command.measure_rank(workload, "copy_engine/pull/4", 9)
    line, closed = capsys.readouterr().out.splitlines()
    said = json.loads(line.removeprefix("syncopate-bench: "))
    assert closed == "closed" and said["strategy"] == "copy_engine/pull/4"
    assert list(said["us"].values()) == [1.0, 2.0, 3.0] and len(said["us"]) == 3
    assert (said["relative_error"] < bench_command.TOLERANCE) == (factor == 1.0)


def test_demo_on_gpus_is_a_bench(monkeypatch, capsys):
    seen = []

    def run(workload, strategy, rounds):
        seen.append((workload.world_size, workload.shape, strategy))
        return bench_command.Outcome("  said")

    monkeypatch.setattr(demo, "count_gpus", lambda: 6)
    monkeypatch.setattr(demo, "run_bench", run)
    assert demo._run_on_gpus(demo.Choices("ring", "pull", "copy_engine", 2)) == 0
    assert seen == [(4, demo.GPU_SHAPE, "copy_engine/pull/2/by ring")]
    assert "said" in capsys.readouterr().out
