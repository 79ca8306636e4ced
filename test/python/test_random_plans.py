"""Random plans: gathers by every way there is, through slots that are used again, with more order than data needs.

Each block of the gathered buffer reaches each rank by a put or a get, by either realization, straight or through a slot
of another buffer, at times after something else has been there. Further transfers bring what no tile reads. Calls
follow each other, and some agents are much slower than others: what a call owes to the next one only shows then.
"""

import itertools
import random
from dataclasses import dataclass, field

import pytest

from syncopate.show.plan_file import schedule_plan
from syncopate.sim import Deadlock, Reads, StaleRead, execute_tables, executor
from syncopate.sim.agents import Blocked

DEPTH = 16


@dataclass
class Spot:
    """A place of one rank where blocks come and go."""

    buffer: str
    begin: int
    rank: int
    block: int | None = None
    brought: str | None = None
    touched: list[str] = field(default_factory=list)


class RandomPlan:
    """Writes a plan that keeps every rule of the dialect."""

    def __init__(self, seed):
        self.draw = draw = random.Random(seed)
        self.world = draw.randint(2, 5)
        self.rows = draw.randint(20, 90)
        cuts = draw.sample(range(1, self.rows), draw.randint(self.world - 1, self.world + 3))
        edges = [0, *sorted(cuts), self.rows]
        self.blocks = list(itertools.pairwise(edges))
        self.largest = max(end - begin for begin, end in self.blocks)
        self.slots = draw.randint(1, 3)
        self.sizes = {
            "a": self.rows,
            "x": self.slots * self.largest,
            "y": self.slots * self.largest,
        }
        self.lines, self.gathered, self.others = [], [], []
        # Where each block is, and the slots of each rank.
        self.homes = [[self.spot("a", b, r) for r in range(self.world)] for b in self.all_blocks()]
        for block in self.all_blocks():
            owner = draw.randrange(self.world)
            self.homes[block][owner].block = block
            begin, end = self.blocks[block]
            self.lines.append(
                f"chunk.input %a[{begin}, 0] sizes [{end - begin}, {DEPTH}] on {owner} : {self.kind('a')}"
            )
        self.rings, self.sinks = (
            [
                Spot(buffer, slot * self.largest, rank)
                for slot in range(self.slots)
                for rank in range(self.world)
            ]
            for buffer in "xy"
        )

    def all_blocks(self):
        return range(len(self.blocks))

    def spot(self, buffer, block, rank):
        return Spot(buffer, self.blocks[block][0], rank)

    def kind(self, buffer):
        return f"!chunk.buffer<{self.sizes[buffer]}x{DEPTH}xbf16>"

    def move(self, src, dst, block, *, executor=None):
        """Adds a transfer of a block from one spot to another, after all that it has to come after."""
        draw = self.draw
        size = self.blocks[block][1] - self.blocks[block][0]
        tokens = [*dst.touched, *([src.brought] if src.brought else [])]
        if draw.random() < 0.3 and self.gathered + self.others:
            tokens.append(draw.choice(self.gathered + self.others))
        token = f"%t{len(self.gathered) + len(self.others)}"
        verb = executor or draw.choice(["put", "get"])
        line = f"{token} = chunk.{verb} %{src.buffer}[{src.begin}, 0] to %{dst.buffer}[{dst.begin}, 0] "
        line += f"sizes [{size}, {DEPTH}] from {src.rank} to {dst.rank} "
        if tokens:
            line += f"after({', '.join(dict.fromkeys(tokens))}) "
        line += f"realize {draw.choice(['copy_engine', 'ldst_colocated'])} "
        self.lines.append(line + f": {self.kind(src.buffer)} to {self.kind(dst.buffer)}")
        (self.gathered if dst.buffer == "a" else self.others).append(token)
        src.touched.append(token)
        dst.touched.append(token)
        dst.brought, dst.block = token, block

    def holder(self, block):
        return self.draw.choice([spot for spot in self.homes[block] if spot.block == block])

    def bring(self, block, rank):
        """Brings a block to its home on a rank."""
        draw, home = self.draw, self.homes[block][rank]
        if draw.random() < 0.25:
            # Something else of no larger size is there before.
            size = self.blocks[block][1] - self.blocks[block][0]
            fitting = [
                b
                for b in self.all_blocks()
                if b != block and self.blocks[b][1] - self.blocks[b][0] <= size
            ]
            if fitting:
                other = draw.choice(fitting)
                self.move(self.holder(other), home, other)
        src = self.holder(block)
        if draw.random() < 0.4:
            slot = draw.choice(self.rings)
            self.move(src, slot, block)
            src = slot
        self.move(src, home, block)
        if draw.random() < 0.3:
            self.move(self.holder(block), draw.choice(self.sinks), block)

    def text(self):
        """The whole plan."""
        draw = self.draw
        missing = [
            (block, rank)
            for block in self.all_blocks()
            for rank in range(self.world)
            if self.homes[block][rank].block is None
        ]
        draw.shuffle(missing)
        for block, rank in missing:
            self.bring(block, rank)
        height, ctas = draw.randint(5, 40), draw.randint(1, 5)
        tokens = self.gathered + [token for token in self.others if draw.random() < 0.5]
        after = f" after({', '.join(tokens)})" if tokens else ""
        kernel = f'chunk.kernel @k tiles [{-(-self.rows // height)}, 2] ctas {ctas} args(%a as "a")'
        footprint = 'chunk.footprint read "a" at affine_map<(m, n) -> '
        footprint += f"(m * {height}, 0)> sizes [{height}, {DEPTH}]"
        buffers = [f'%{name} = chunk.buffer "{name}" : {self.kind(name)}' for name in self.sizes]
        body = [*buffers, *self.lines, f"{kernel}{after} : {self.kind('a')} {{", footprint, "}"]
        return f"chunk.plan @p mesh [{self.world}] {{\n  " + "\n  ".join(body) + "\n}\n"


@pytest.mark.parametrize("seed", range(40))
def test_random_plan_brings_the_right_thing(seed):
    plan = RandomPlan(seed)
    schedule = schedule_plan(plan.text(), f"splits={plan.draw.randint(1, 3)}")
    for interleaving in range(3):
        run = execute_tables(
            schedule, Reads.of(schedule), calls=4, seed=interleaving, skew=interleaving > 0
        )
        assert run.max_error == 0


def _within(first, count):
    return lambda signal: first <= signal < first + count


def _is_left_out(kind, machine, rank, signal, where):
    """Whether a wait is of a kind, by what it waits for and who waits."""
    layout, world = machine.program.signal_layout, machine.program.world_size
    data = _within(0, 2 * layout.data_twin)(signal)
    done = _within(layout.done, 2 * world)(signal)
    peer = (signal - layout.done) % world
    in_transfer = where.startswith("transfer") and "transfer -1" not in where
    return {
        "end: arrivals": where == "its end" and data,
        "end: engine": where == "its end" and signal == layout.engine_done,
        "staging: readers": done and (where == "staging" or "transfer -1" in where),
        "transfer: guard of its destination": in_transfer and done and f"to rank {peer}" in where,
        "transfer: other guards": in_transfer and done and f"to rank {peer}" not in where,
        "transfer: input": in_transfer and _within(layout.ready, 2 * world)(signal),
        "transfer: data": in_transfer and data,
        "tile: data": where.startswith("tile") and data,
    }[kind]


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
def test_leaving_out_waits_is_noticed(kind, monkeypatch):
    until = executor._Machine._until

    def leave_out(self, rank, signal, wanted, where, exactly=False):
        if _is_left_out(kind, self, rank, signal, where):
            return Blocked((rank.index, signal), lambda: True)
        return until(self, rank, signal, wanted, where, exactly)

    monkeypatch.setattr(executor._Machine, "_until", leave_out)
    for seed in range(60):
        plan = RandomPlan(seed)
        schedule = schedule_plan(plan.text())
        for interleaving in range(3):
            try:
                execute_tables(schedule, Reads.of(schedule), calls=4, seed=interleaving, skew=True)
            except (StaleRead, Deadlock):
                return
    raise AssertionError(f"nobody misses the waits of kind {kind!r}")


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


def runs_that_fail(schedule):
    failed = 0
    for seed in range(20):
        try:
            execute_tables(schedule, Reads.of(schedule), calls=5, seed=seed, skew=True)
        except (StaleRead, Deadlock):
            failed += 1
    return failed


def test_twin_is_not_raised_before_it_is_taken_down(monkeypatch):
    schedule = schedule_plan(ORDER_ONLY)
    assert runs_that_fail(schedule) == 0
    until = executor._Machine._until

    def leave_out(self, rank, signal, wanted, where, exactly=False):
        layout = self.program.signal_layout
        if rank.index == 0 and signal in (layout.done + 2, layout.done_twin + 2):
            return Blocked((rank.index, signal), lambda: True)
        return until(self, rank, signal, wanted, where, exactly)

    monkeypatch.setattr(executor._Machine, "_until", leave_out)
    assert runs_that_fail(schedule)
