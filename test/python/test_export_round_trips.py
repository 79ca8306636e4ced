"""Plans that are exported and imported again mean the same: all templates, and random transfers of every kind."""

import math
import random
from collections import Counter

import pytest

import syncopate
from syncopate.errors import PlanError
from syncopate.importers import Source, emit_plan, export_plan, prove, read_steps
from syncopate.importers.steps.collective_steps import Memory
from syncopate.importers.steps.read_plan import read_plan
from syncopate.ir import new_context, parse, run_pipeline
from syncopate.plan.catalog import list_templates, make_plan
from syncopate.plan.kinds import Collective
from syncopate.plan.moves import Moves

pytestmark = pytest.mark.any_triton

FORMS = ("msccl-xml", "mscclpp-json")
CHECKS = (
    "chunk.plan(chunk-expand-spmd,chunk-decompose-collectives,chunk-check-plan,chunk-check-claims)"
)
MESHES = [*((world,) for world in range(2, 9)), (2, 2), (2, 3), (3, 2), (2, 4), (4, 2), (2, 2, 2)]
ROWS = 4


def moves_of(steps):
    """By cell; what MSCCL leaves in a FIFO goes on to where it is fetched from there."""
    waiting, found = {}, Counter()
    for move in steps.moves:
        for src, dst in zip(move.src, move.dst, strict=True):
            start = waiting.pop(src) if src[1] is Memory.FIFO else src
            if dst[1] is Memory.FIFO:
                assert dst not in waiting and not move.reduces
                waiting[dst] = start
            else:
                found[start, dst, move.reduces] += 1
    assert not waiting
    return found


def check_round_trip(text, form):
    """The file has the same moves; their order, as the file says it, is proved by names and by the compiler."""
    written = export_plan(text, form)
    again, first = read_steps(written, form), read_plan(text)
    prove(again)
    about = [(steps.collective, steps.in_place, steps.root) for steps in (again, first)]
    assert about[0] == about[1]
    assert moves_of(again) == moves_of(first)
    rows = again.blocks * again.chunks
    plan = emit_plan(again, (rows, 2), "f32", source=Source.INPUTS).plan
    run_pipeline(parse(plan.text, new_context()), CHECKS)
    return plan


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_templates_come_back(mesh, form):
    """Some by chance, fresh ones every time; the slow test takes all."""
    seed = random.SystemRandom().randrange(2**32)
    draw = random.Random(seed)
    for template in draw.sample(list(list_templates(mesh)), 4):
        try:
            check_template(template, mesh, form, draw.random() < 0.5)
        except PlanError as error:
            pytest.fail(f"seed {seed}: {template}: {error}")


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_all_templates_come_back(mesh, form):
    for template in list_templates(mesh):
        for tiles in (False, True):
            check_template(template, mesh, form, tiles)


def check_template(template, mesh, form, tiles):
    shape = (ROWS * math.prod(mesh), 2)
    if template.collective is Collective.BROADCAST:
        text = make_plan(template, mesh, shape, "f32", root=math.prod(mesh) - 1).plan.text
        if form == "mscclpp-json":
            assert "chunk.broadcast" in check_round_trip(text, form).text
            return
        with pytest.raises(
            PlanError, match=r"expects no chunk\.broadcast, which MSCCL's XML has not"
        ):
            export_plan(text, form)
        return
    check_round_trip(make_plan(template, mesh, shape, "f32", tiles=tiles, splits=2).plan.text, form)


class RandomCollective:
    """A collective by transfers that nobody would write: any order, any way, straight or through buffers between."""

    def __init__(self, draw):
        self.draw = draw
        self.world, self.rows = draw.randint(2, 5), draw.randint(1, 4)
        self.kind = draw.choice(list(Collective)[:4])
        self.reduction = draw.choice(["sum", "max", "min"])
        self.plan = syncopate.Plan("random", mesh=[self.world])
        shape = (self.world * self.rows, 2)
        self.data = self.plan.buffer("data", shape, "f32")
        self.slots = self.plan.buffer("slots", (self.rows * draw.randint(1, 3), 2), "f32")
        self.moves = Moves(self.plan)

    def make(self):
        """The text of the plan."""
        ranks = range(self.world)
        exchanges = self.kind is Collective.ALL_TO_ALL
        self.given = self.plan.buffer("given", self.data.shape, "f32") if exchanges else self.data
        gathers = self.kind is Collective.ALL_GATHER
        for rank in ranks:
            chunk = self._block(self.data, rank) if gathers else self.given[:]
            self.moves.produced(chunk, rank)
        if exchanges:
            ways = [(src, dst) for src in ranks for dst in ranks]
            self.draw.shuffle(ways)
            for src, dst in ways:
                self._bring(self._block(self.given, dst), src, self._block(self.data, src), dst)
        else:
            for block in self.draw.sample(ranks, self.world):
                chunk = self._block(self.data, block)
                if self.kind is not Collective.ALL_GATHER:
                    self._sum(chunk, block)
                if self.kind is not Collective.REDUCE_SCATTER:
                    self._spread(chunk, block)
        collective = getattr(self.plan, self.kind.value)
        with self.plan.claim(after=self.plan.tokens):
            if exchanges:
                collective(self.given, self.data)
            elif self.kind is Collective.ALL_GATHER:
                collective(self.data)
            else:
                collective(self.data, reduction=self.reduction)
        return self.plan.text

    def _block(self, buffer, number):
        return buffer[number * self.rows : (number + 1) * self.rows]

    def _sum(self, chunk, root):
        """Each rank adds its part to that of one that still has to pass its own on."""
        left = [rank for rank in range(self.world) if rank != root]
        self.draw.shuffle(left)
        while left:
            rank = left.pop()
            for piece in self._pieces(chunk):
                self.moves.add(
                    piece, rank, self.draw.choice([*left, root]), reduction=self.reduction
                )

    def _spread(self, chunk, root):
        pieces = [(piece, [root]) for piece in self._pieces(chunk)]
        others = [rank for rank in range(self.world) if rank != root]
        self.draw.shuffle(others)
        for rank in others:
            for piece, holders in pieces:
                self._bring(piece, self.draw.choice(holders), piece, rank)
                holders.append(rank)

    def _bring(self, src, src_rank, dst, dst_rank):
        if self.draw.random() < 0.3:
            between = self.draw.randrange(self.world)
            begin = self.draw.randint(0, self.slots.shape[0] - src.sizes[0])
            slot = self.slots[begin : begin + src.sizes[0]]
            self.moves.copy(src, src_rank, between, slot)
            src, src_rank = slot, between
        self.moves.copy(src, src_rank, dst_rank, dst)

    def _pieces(self, chunk):
        begin, rows = chunk.offsets[0], chunk.sizes[0]
        if rows == 1 or self.draw.random() < 0.5:
            return [chunk]
        cut = begin + self.draw.randint(1, rows - 1)
        return [chunk.buffer[begin:cut], chunk.buffer[cut : begin + rows]]


def check_random(seed):
    draw = random.Random(seed)
    made = RandomCollective(draw)
    text = made.make()
    run_pipeline(parse(text, new_context()), CHECKS)
    for form in FORMS:
        check_round_trip(text, form)


@pytest.mark.parametrize("number", range(40))
def test_random_transfers_come_back(number):
    seed = random.SystemRandom().randrange(2**32)
    try:
        check_random(seed)
    except (PlanError, AssertionError) as error:
        pytest.fail(f"seed {seed}: {error}")
