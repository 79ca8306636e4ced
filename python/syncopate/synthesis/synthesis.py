"""Makes a schedule of a collective for a fabric, and a plan of it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from syncopate.errors import SyncopateError
from syncopate.importers.documents.items import Place
from syncopate.importers.imported import Imported
from syncopate.importers.names import Source
from syncopate.importers.steps.collective_steps import (
    Cells,
    Collective,
    CollectiveSteps,
    Memory,
    Move,
)
from syncopate.importers.steps.emit import emit_plan
from syncopate.importers.steps.proof import prove
from syncopate.model.fabric import Fabric
from syncopate.synthesis.clock import TimedSteps, find_bound_us, time_steps
from syncopate.synthesis.greedy import match_pieces
from syncopate.synthesis.problem import Piece, Problem, Send, gather_pieces, reverse_hops

__all__ = ["Method", "Synthesis", "synthesize"]

_Word = TypeVar("_Word", bound=enum.Enum)
_MOST: Final = 1e30


class Method(enum.Enum):
    """How a schedule is looked for."""

    GREEDY = "greedy"
    """By a greedy matcher, in milliseconds to seconds."""
    MILP = "milp"
    """By integer programming, for a few ranks and chunks; needs scipy."""


@dataclass(frozen=True)
class Synthesis:
    """A schedule that was found.

    Attributes:
        fabric: The links that it is for.
        timed: The moves and their times by the clock of `syncopate.synthesis.clock`.
        nbytes: Bytes of all that is gathered, reduced, exchanged or broadcast.
        bound_us: Microseconds below which no schedule can be.
        is_optimal: Whether a solver has proved that no other takes fewer epochs.
    """

    fabric: Fabric
    timed: TimedSteps
    nbytes: float
    bound_us: float
    is_optimal: bool

    @property
    def us(self) -> float:
        """Microseconds that it takes."""
        return self.timed.us

    @property
    def steps(self) -> CollectiveSteps:
        """The moves."""
        return self.timed.steps

    def emit(
        self,
        shape: Sequence[int],
        dtype: str,
        *,
        source: Source = Source.INPUTS,
        kernel: bool = False,
    ) -> Imported:
        """The plan, with the buffers that it begins and ends with.

        Args:
            shape: Of what is gathered, reduced, exchanged or broadcast; its first dimension is cut.
            dtype: Element type as MLIR spells it.
            source: Whether ranks bring along what it starts with, or tiles of the kernel compute it.
            kernel: Whether to add a kernel without code, for tools.

        Raises:
            PlanError: The shape is none, or the plan breaks a rule.
        """
        return emit_plan(self.steps, shape, dtype, source=source, kernel=kernel)


def synthesize(
    collective: Collective | str,
    fabric: Fabric,
    nbytes: float,
    *,
    chunks: int = 1,
    method: Method | str = Method.GREEDY,
    seed: int = 0,
    tries: int = 8,
    limit_s: float = 20.0,
    root: int = 0,
    reduction: str = "sum",
    name: str | None = None,
    judge: Callable[[CollectiveSteps], float] | None = None,
) -> Synthesis:
    """Looks for the schedule of a collective that takes least on a fabric, and proves that it is that collective.

    Args:
        collective: all_gather, reduce_scatter, all_reduce, all_to_all or broadcast, of all ranks.
        fabric: The links.
        nbytes: Bytes of all that is gathered, reduced, exchanged or broadcast.
        chunks: Pieces into which the block of each rank is cut, or all of a broadcast.
        method: How to look for it. By integer programming, an all-reduce is a reduce-scatter, and an all-gather then.
        seed: Of the greedy matcher: the result is the same for the same arguments.
        tries: How often it tries, each time deciding otherwise between what is as good; the best is taken.
        limit_s: Seconds that integer programming may take for each part.
        root: The rank that has what a broadcast brings.
        reduction: sum, max or min.
        name: Of the plan; the collective's by default.
        judge: Says what a schedule takes, of which the one that takes least is chosen; the clock by default. See
            `judge_by_model`.

    Raises:
        SyncopateError: An argument is out of its range, or the method cannot be used.
    """
    kind, how = (
        _to_member(Collective, "collective", collective),
        _to_member(Method, "method", method),
    )
    for word, value, low, end in (
        ("chunks", chunks, 1, 4097),
        ("tries", tries, 1, 10_001),
        ("root", root, 0, fabric.ranks),
    ):
        if type(value) is not int or not low <= value < end:
            raise SyncopateError(
                f"{word}: expects a number in [{low}, {end}), but got {value!r:.40}"
            )
    for word, amount in (("nbytes", nbytes), ("limit_s", limit_s)):
        known = isinstance(amount, (int, float)) and not isinstance(amount, bool)
        if not known or not 0 < amount <= _MOST:
            raise SyncopateError(
                f"{word}: expects a positive number of at most 10^30, but got {amount!r:.40}"
            )
    if type(seed) is not int:
        raise SyncopateError(f"seed: expects an integer, but got {seed!r:.40}")
    if reduction not in ("sum", "max", "min"):
        raise SyncopateError(f"reduction: expects sum, max or min, but got {reduction!r:.40}")
    search = _Search(kind, fabric, nbytes, chunks, how, limit_s, root)
    steps = CollectiveSteps(
        name=name or kind.value,
        collective=kind,
        ranks=fabric.ranks,
        chunks=chunks * fabric.ranks if kind is Collective.ALL_REDUCE else chunks,
        in_place=kind is not Collective.ALL_TO_ALL,
        reduction=reduction,
        place=search.place,
        root=root,
    )
    found: list[tuple[TimedSteps, bool]] = []
    seeds: list[int | None] = [None, *range(seed, seed + tries - 1)]
    for start in seeds[: 1 if how is Method.MILP else tries]:
        moves, is_optimal = search.run(start)
        made = replace(steps, moves=moves, scratch=_find_scratch(moves))
        found.append((time_steps(made, fabric, nbytes), is_optimal))
    verdicts = [each.us if judge is None else judge(each.steps) for each, _ in found]
    timed, is_optimal = found[verdicts.index(min(verdicts))]
    prove(timed.steps)
    bound = find_bound_us(kind, fabric, nbytes, root)
    return Synthesis(fabric, timed, nbytes, bound, is_optimal)


class _Search:
    """Looks for schedules of one collective."""

    def __init__(
        self,
        kind: Collective,
        fabric: Fabric,
        nbytes: float,
        chunks: int,
        method: Method,
        limit_s: float,
        root: int,
    ) -> None:
        self.kind, self.fabric, self.chunks = kind, fabric, chunks
        self.method, self.limit_s, self.root = method, limit_s, root
        blocks = 1 if kind is Collective.BROADCAST else fabric.ranks
        self.nbytes = nbytes / (blocks * chunks)
        self.place = Place(f"synthesized for {fabric.name}", 1)

    def run(self, seed: int | None) -> tuple[list[Move], bool]:
        """The moves of a schedule, in the order in which they begin, and whether it takes the fewest epochs."""
        ranks, chunks = self.fabric.ranks, self.chunks
        match self.kind:
            case Collective.ALL_GATHER:
                sends, is_optimal = self._solve(gather_pieces(ranks, chunks), seed)
                return [self._copy(send) for send in sends], is_optimal
            case Collective.REDUCE_SCATTER:
                sends, is_optimal = self._reduce(seed)
                return [self._add(send) for send in sends], is_optimal
            case Collective.ALL_REDUCE:
                return self._all_reduce(seed), False
            case Collective.ALL_TO_ALL:
                return self._exchange(seed)
            case Collective.BROADCAST:
                everyone = frozenset(range(ranks)) - {self.root}
                sends, is_optimal = self._solve([Piece(self.root, everyone)] * chunks, seed)
                return [self._copy(send) for send in sends], is_optimal

    def _solve(
        self,
        pieces: Sequence[Piece],
        seed: int | None,
        *,
        back: bool = False,
        free_us: Mapping[int, float] | None = None,
    ) -> tuple[Sequence[Send], bool]:
        hops = reverse_hops(self.fabric) if back else self.fabric.hops
        problem = Problem(self.fabric.ranks, hops, pieces, self.nbytes, free_us or {}, back)
        sends = match_pieces(problem, seed)
        if self.method is Method.GREEDY:
            return sends, False
        from syncopate.synthesis.milp import solve_pieces

        solution = solve_pieces(problem, sends, self.limit_s)
        return solution.sends, solution.is_optimal

    def _reduce(self, seed: int | None) -> tuple[list[Send], bool]:
        """An all-gather against the direction of all wires, run backwards."""
        pieces = gather_pieces(self.fabric.ranks, self.chunks)
        sends, is_optimal = self._solve(pieces, seed, back=True)
        end = max(send.end_us for send in sends)
        mirrored = [
            replace(send, begin_us=end - send.end_us, end_us=end - send.begin_us) for send in sends
        ]
        return sorted(mirrored, key=lambda send: send.begin_us), is_optimal

    def _all_reduce(self, seed: int | None) -> list[Move]:
        """A reduce-scatter, and an all-gather of each piece as soon as it is summed and wires are free."""
        reducing, _ = self._reduce(seed)
        pieces = gather_pieces(self.fabric.ranks, self.chunks)
        free: dict[int, float] = {}
        if self.method is Method.GREEDY:
            for send in reducing:
                if send.hop.src == pieces[send.piece].origin:
                    ready = max(pieces[send.piece].ready_us, send.end_us)
                    pieces[send.piece] = replace(pieces[send.piece], ready_us=ready)
                for wire in send.hop.wires:
                    free[wire] = max(free.get(wire, 0.0), send.end_us)
        gathering, _ = self._solve(pieces, seed, free_us=free)
        return [*map(self._add, reducing), *map(self._copy, gathering)]

    def _exchange(self, seed: int | None) -> tuple[list[Move], bool]:
        """An all-to-all: its own block each rank copies, and what others pass on has room in scratch."""
        ranks, chunks = self.fabric.ranks, self.chunks
        pairs = [(src, dst) for src in range(ranks) for dst in range(ranks) if src != dst]
        pieces = [Piece(src, frozenset({dst})) for src, dst in pairs for _ in range(chunks)]
        sends, is_optimal = self._solve(pieces, seed)
        slots: dict[tuple[int, int], int] = {}
        used = [0] * ranks

        def find(piece: int, rank: int) -> Cells:
            (src, dst), chunk = pairs[piece // chunks], piece % chunks
            if rank == src:
                return Cells(rank, Memory.INPUT, dst * chunks + chunk, 1)
            if rank == dst:
                return Cells(rank, Memory.OUTPUT, src * chunks + chunk, 1)
            if (piece, rank) not in slots:
                slots[piece, rank] = used[rank]
                used[rank] += 1
            return Cells(rank, Memory.SCRATCH, slots[piece, rank], 1)

        moves = [
            Move(
                Cells(rank, Memory.INPUT, rank * chunks, chunks),
                Cells(rank, Memory.OUTPUT, rank * chunks, chunks),
                False,
                self.place,
            )
            for rank in range(ranks)
        ]
        for send in sends:
            ends = find(send.piece, send.hop.src), find(send.piece, send.hop.dst)
            moves.append(Move(*ends, False, self.place))
        return moves, is_optimal

    def _copy(self, send: Send) -> Move:
        src, dst = (
            Cells(rank, Memory.DATA, send.piece, 1) for rank in (send.hop.src, send.hop.dst)
        )
        return Move(src, dst, False, self.place)

    def _add(self, send: Send) -> Move:
        """A sum over the hop that leads the other way."""
        src, dst = (
            Cells(rank, Memory.DATA, send.piece, 1) for rank in (send.hop.dst, send.hop.src)
        )
        return Move(src, dst, True, self.place)


def _find_scratch(moves: Sequence[Move]) -> dict[Memory, int]:
    """Cells that relays need on a rank, if there are any."""
    used = [move.dst.offset + 1 for move in moves if move.dst.memory is Memory.SCRATCH]
    return {Memory.SCRATCH: max(used)} if used else {}


def _to_member(kind: type[_Word], name: str, value: _Word | str) -> _Word:
    try:
        return kind(value)
    except ValueError:
        words = ", ".join(str(member.value) for member in kind)
        raise SyncopateError(f"{name}: expects one of {words}, but got {value!r:.40}") from None
