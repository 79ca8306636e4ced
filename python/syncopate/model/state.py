"""What a simulation knows of each rank and each CTA at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from syncopate.model.tables import RankTables

__all__ = ["Cta", "RankState", "Waiter"]

_INFINITY = float("inf")


class Waiter:
    """What goes on when some flags are raised often enough."""

    __slots__ = ("call", "pending")

    def __init__(self, pending: int, call: Callable[[], None]) -> None:
        self.pending, self.call = pending, call


class Cta:
    """A CTA that computes, and the role beside it as far as tiles hand transfers over to it.

    Attributes:
        index: Its number among those that compute.
        position: Of its tile in the order.
        records: Positions of tiles whose transfers the role has not taken yet.
        moving: Whether the role has one under way.
        busy: Whether tiles are left.
        stuck: Whether its tile waits for room in the ring.
        adding: Whether it adds up the parts of its tile.
        since: When it began to wait.
    """

    __slots__ = ("adding", "busy", "index", "moving", "position", "records", "since", "stuck")

    def __init__(self, index: int) -> None:
        self.index, self.position = index, index
        self.records: deque[int] = deque()
        self.moving = False
        self.busy = True
        self.stuck = False
        self.adding = False
        self.since = 0.0


class RankState:
    """The state of one rank.

    Attributes:
        index: The rank.
        tables: What it does in a call.
        ctas: Those of its CTAs that compute.
        clock: How much a CTA has computed since the call began, in microseconds at the speed of `KernelCost`.
        speed: By how much the clock grows in a microsecond.
        heap: When tiles are computed, by the clock, and on which CTA.
        raised: How often each flag has been raised.
        waiters: Who waits for a flag, and how often it has to be raised for that.
        left: Tiles that each group still lacks.
        parts: Parts that a tile of several still lacks, by its number.
        open: CTAs and queues that are not through.
        computing: CTAs that are not through with their tiles.
        when_idle: What goes on when none is left of those.
        sustained: Whether the GPU's clocks have dropped.
        end: When the call is over.
        begins: For each position, when its tile begins; `ends` and `stalls` likewise.
    """

    def __init__(self, index: int, tables: RankTables, num_ctas: int) -> None:
        self.index, self.tables = index, tables
        self.ctas = [Cta(cta) for cta in range(num_ctas)]
        self.clock, self.speed = 0.0, 1.0
        self.heap: list[tuple[float, int]] = []
        self.raised: dict[int, int] = {}
        self.waiters: dict[int, list[tuple[int, Waiter]]] = {}
        self.left = [count for count, _ in tables.groups]
        self.parts = {tile.number: tile.parts for tile in tables.tiles if tile.parts > 1}
        self.open = num_ctas + len(tables.queues)
        self.computing = num_ctas
        self.when_idle: Callable[[], None] | None = None
        self.sustained = False
        self.end = _INFINITY
        count = len(tables.tiles)
        self.begins, self.ends, self.stalls = (np.zeros(count) for _ in range(3))
