"""Schedules of fewest epochs by integer programming, for small problems.

Time is cut into epochs as long as the fastest hop takes for a piece; a slower hop takes several. A binary variable says
that a piece begins over a hop in an epoch. For a number of epochs that a schedule may take, HiGHS (by
`scipy.optimize.milp`) says whether there is one; the least for which there is one is found by trying one less, until
there is none or time is up. The formulation is that of TE-CCL (Liu et al., SIGCOMM'24) on whole pieces.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from syncopate.errors import SyncopateError
from syncopate.synthesis.problem import Problem, Send

__all__ = ["Solution", "solve_pieces"]

MOST_VARIABLES: Final = 200_000


@dataclass(frozen=True)
class Solution:
    """What the solver has found.

    Attributes:
        sends: The sends, in the order in which they begin.
        epochs: How many epochs they take.
        is_optimal: Whether there is no schedule of fewer epochs.
    """

    sends: tuple[Send, ...]
    epochs: int
    is_optimal: bool


def solve_pieces(problem: Problem, known: Sequence[Send], limit_s: float) -> Solution:
    """A schedule of fewest epochs, or the best until time is up.

    Args:
        problem: The pieces, all of which are there from the beginning, and the hops.
        known: A schedule, from which on better ones are looked for.
        limit_s: Seconds after which the best so far is taken. Whether a problem is solved in time depends on the
            machine; a solution that is optimal does not.

    Raises:
        SyncopateError: scipy is missing, or the problem is too large.
    """
    try:
        import scipy  # noqa: F401
    except ImportError:
        raise SyncopateError(
            "method: milp needs scipy; install syncopate-compiler[synthesis], or use greedy"
        ) from None
    best = _align(problem, known)
    deadline = time.monotonic() + limit_s
    while True:
        model = _Model(problem, best.epochs - 1)
        left = deadline - time.monotonic()
        if left <= 0:
            return best
        sends = model.solve(left)
        if sends is None:
            return Solution(best.sends, best.epochs, model.is_infeasible)
        best = _align(problem, sends)


def _epochs(problem: Problem) -> dict[tuple[int, int], int]:
    """By hop, the epochs that it takes."""
    times = {ends: problem.time_us(hop) for ends, hop in problem.hops.items()}
    epoch = min(times.values())
    return {ends: math.ceil(us / epoch - 1e-6) for ends, us in times.items()}


def _align(problem: Problem, sends: Sequence[Send]) -> Solution:
    """A schedule moved to the beginnings of epochs, keeping its order."""
    takes = _epochs(problem)
    arrival = {(number, piece.origin): 0 for number, piece in enumerate(problem.pieces)}
    free: dict[int, int] = {}
    sending: dict[tuple[int, int], int] = {}
    epoch_us = min(problem.time_us(hop) for hop in problem.hops.values())
    aligned, last = [], 0
    for send in sends:
        hop = send.hop
        begin = max(
            arrival[send.piece, hop.src],
            sending.get((send.piece, hop.src), 0),
            *(free.get(wire, 0) for wire in hop.wires),
        )
        end = begin + takes[hop.src, hop.dst]
        if problem.is_backwards:
            sending[send.piece, hop.src] = end
        arrival[send.piece, hop.dst] = end
        free.update(dict.fromkeys(hop.wires, end))
        aligned.append(Send(send.piece, hop, begin * epoch_us, end * epoch_us))
        last = max(last, end)
    aligned.sort(key=lambda send: send.begin_us)
    return Solution(tuple(aligned), last, False)


class _Model:
    """The program for a number of epochs."""

    def __init__(self, problem: Problem, epochs: int) -> None:
        self.problem, self.epochs = problem, epochs
        self.takes = _epochs(problem)
        self.is_infeasible = False
        # Variables: a piece begins over a hop in an epoch, so that it arrives in time.
        self.keys = [
            (piece, ends, epoch)
            for piece, entry in enumerate(problem.pieces)
            for ends, long in self.takes.items()
            if ends[1] != entry.origin
            for epoch in range(epochs - long + 1)
        ]
        if len(self.keys) > MOST_VARIABLES:
            raise SyncopateError(
                f"method: milp takes at most {MOST_VARIABLES} variables, but this has {len(self.keys)}: use greedy, or "
                "fewer ranks or chunks"
            )
        self.index = {key: number for number, key in enumerate(self.keys)}

    def solve(self, limit_s: float) -> list[Send] | None:
        """Sends that take no more epochs; None if there are none, or time is up."""
        if not self.keys:
            self.is_infeasible = True
            return None
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array

        rows, columns, values, low, high = [], [], [], [], []
        for number, (terms, least, most) in enumerate(self._constraints()):
            for column, value in terms:
                rows.append(number)
                columns.append(column)
                values.append(value)
            low.append(least)
            high.append(most)
        matrix = csr_array((values, (rows, columns)), shape=(len(low), len(self.keys)))
        # Of all schedules that take as long, one that moves least, earliest.
        costs = [1 + epoch / (self.epochs + 1) for _, _, epoch in self.keys]
        result: Any = milp(
            c=np.array(costs),
            constraints=LinearConstraint(matrix, np.array(low), np.array(high)),
            integrality=np.ones(len(self.keys)),
            bounds=Bounds(0, 1),
            options={"time_limit": limit_s, "mip_rel_gap": 1.0},
        )
        # HiGHS says 2 of a problem that has no solution.
        self.is_infeasible = result.status == 2
        if result.x is None:
            return None
        return self._read(result.x)

    def _constraints(self) -> Iterator[tuple[list[tuple[int, float]], float, float]]:
        """Rows of the program: terms, and the least and most of their sum."""
        infinity = float("inf")
        into: dict[tuple[int, int], list[int]] = {}
        busy: dict[tuple[int, ...], list[int]] = {}
        for number, (piece, ends, epoch) in enumerate(self.keys):
            into.setdefault((piece, ends[1]), []).append(number)
            for during in range(epoch, epoch + self.takes[ends]):
                for wire in self.problem.hops[ends].wires:
                    busy.setdefault((wire, during), []).append(number)
                if self.problem.is_backwards:
                    busy.setdefault((piece, ends[0], during), []).append(number)
        for piece, entry in enumerate(self.problem.pieces):
            for rank in range(self.problem.ranks):
                if rank == entry.origin:
                    continue
                terms = [(number, 1.0) for number in into.get((piece, rank), [])]
                # Whoever wants a piece gets it once, any other at most once.
                yield terms, float(rank in entry.wanted), 1.0
        for sharing in busy.values():
            if len(sharing) > 1:
                yield [(number, 1.0) for number in sharing], -infinity, 1.0
        for number, (piece, ends, epoch) in enumerate(self.keys):
            if ends[0] == self.problem.pieces[piece].origin:
                continue
            # A rank sends on what has arrived.
            arrived = [
                (other, -1.0)
                for other in into.get((piece, ends[0]), [])
                if self.keys[other][2] + self.takes[self.keys[other][1]] <= epoch
            ]
            yield [(number, 1.0), *arrived], -infinity, 0.0

    def _read(self, solution: Any) -> list[Send]:
        chosen = [key for key, value in zip(self.keys, solution, strict=True) if value > 0.5]
        chosen.sort(key=lambda key: (key[2], key[0], key[1]))
        return [
            Send(piece, self.problem.hops[ends], float(epoch), float(epoch + self.takes[ends]))
            for piece, ends, epoch in chosen
        ]
