"""Ranks in threads, timers that count instead of measuring, and something to tune."""

import itertools
import json
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

from syncopate import Strategy, Target
from syncopate.choices import Direction, Realization
from syncopate.errors import SyncopateError
from syncopate.tune.search import Prepared, Unknown
from syncopate.tune.space import Axis, Candidate, Space

DEFAULT = Candidate(Strategy())

SPACE = Space(
    DEFAULT,
    (
        Axis(
            ("realization", "direction"),
            tuple(
                itertools.product(
                    (
                        Realization.LDST_COLOCATED,
                        Realization.COPY_ENGINE,
                        Realization.TMA_COLOCATED,
                    ),
                    Direction,
                )
            ),
        ),
        Axis(("splits",), ((0,), (1,), (2,), (4,))),
        Axis(("pause",), ((0,), (500,)), {"realization": (Realization.TMA_COLOCATED,)}),
        Axis(("group_m",), ((4,), (8,), (16,)), modelled=False),
    ),
)


def candidate(**choices) -> Candidate:
    return Candidate(Strategy(**choices))


def made_up_us(candidate: Candidate) -> float:
    """Another time for each candidate, the same in every process."""
    return 100.0 + zlib.crc32(candidate.name.encode()) % 1000 / 10


class ThreadRanks:
    """As many ranks as threads; each has one `rank` of its own."""

    def __init__(self, world_size: int) -> None:
        self.world_size = world_size
        self.given: list[str] = [""] * world_size
        self.barrier = threading.Barrier(world_size)
        self.rounds = 0

    def run(self, body: Callable):
        """What `body(agreement)` returns, or raises, on each rank."""
        results = [None] * self.world_size

        def work(rank: int) -> None:
            try:
                results[rank] = body(ThreadRank(self, rank))
            except BaseException as error:
                results[rank] = error
                # All ranks hear of an error, and are on their way to raise it.
                if not isinstance(error, Exception):
                    self.barrier.abort()

        threads = [
            threading.Thread(target=work, args=(rank,), daemon=True)
            for rank in range(self.world_size)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
            assert not thread.is_alive(), "ranks wait for each other"
        return results


@dataclass
class ThreadRank:
    """One of them."""

    group: ThreadRanks
    rank: int

    def exchange(self, place, said=None, doing=""):
        self.group.given[self.rank] = json.dumps([place, said])
        self.group.barrier.wait(timeout=30)
        told = [json.loads(given) for given in self.group.given]
        assert len({place for place, _ in told}) == 1, "ranks are at different places"
        result = [said for _, said in told]
        # Nobody says the next thing before all have heard this.
        self.group.barrier.wait(timeout=30)
        return result


class Killed(BaseException):
    """As if the process were."""


@dataclass
class FakeBench:
    """Runs candidates that take what a function says, on one rank.

    Attributes:
        us: Microseconds of a candidate.
        compile_fails: Candidates that do not compile here.
        check_fails: Those that give wrong results here.
        run_fails: Those that fail in their third call here.
        killed_by: Whoever compiles this one is killed.
        skew: What this rank takes more.
        log: What was compiled.
        open: What is loaded.
    """

    us: Callable[[Candidate], float] = made_up_us
    compile_fails: set = field(default_factory=set)
    check_fails: set = field(default_factory=set)
    run_fails: set = field(default_factory=set)
    killed_by: Candidate | None = None
    skew: float = 0.0
    log: list = field(default_factory=list)
    open: list = field(default_factory=list)
    calls: list = field(default_factory=list)

    def compile(self, candidate):
        self.log.append(candidate)
        if candidate == self.killed_by:
            raise Killed
        if candidate in self.compile_fails:
            raise SyncopateError("does not compile")
        return candidate

    def start(self, program):
        runner = FakeRunner(self, program)
        self.open.append(runner)
        return runner


class FakeRunner:
    def __init__(self, bench, candidate):
        self.bench, self.candidate, self.times = bench, candidate, 0

    def check(self):
        if self.candidate in self.bench.check_fails:
            raise SyncopateError("gives wrong results: relative error 1.0")

    def sample_us(self):
        self.times += 1
        self.bench.calls.append(self.candidate)
        if self.candidate in self.bench.run_fails and self.times > 2:
            raise RuntimeError("a wait reached its limit")
        return self.bench.us(self.candidate) + self.bench.skew

    def close(self):
        self.bench.open.remove(self)


@dataclass
class FakeSubject:
    """Something with `SPACE`.

    Attributes:
        predicted: What the model says.
        refused: What checks refuse.
        unknown: What the model cannot say.
        size: Tells one from another; distances are their differences.
    """

    predicted: Callable[[Candidate], float] = made_up_us
    refused: set = field(default_factory=set)
    unknown: Callable[[Candidate], bool] = lambda candidate: False
    size: int = 0
    asked: list = field(default_factory=list)
    space: Space = SPACE
    world_size: int = 2
    work: int = 1
    target: Target = field(default_factory=Target)

    @property
    def name(self):
        return f"fake-{self.size}"

    @property
    def data(self):
        return {"kind": "fake", "size": self.size}

    def distance(self, data):
        return abs(data["size"] - self.size) if data.get("kind") == "fake" else None

    def adapt(self, candidate):
        return candidate

    def prepare(self, candidate, machine):
        self.asked.append(candidate)
        if candidate in self.refused:
            raise SyncopateError("plan.py:7: is not legal")
        if self.unknown(candidate):
            raise Unknown("nobody knows")
        return Prepared(candidate.name, lambda: self.predicted(candidate))

    def make_bench(self, group):
        raise SyncopateError("has no bench of its own")
