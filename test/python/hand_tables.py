"""Schedule tables of an all-gather written by hand, for tests of what reads tables.

They follow the protocol of docs/protocol.md and are computed without the passes,
so that a mistake of the passes cannot hide in both.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from syncopate.abi import Realization
from syncopate.tables import BufferSpec, Region, SignalLayout, Table

ENGINE, LDST = int(Realization.COPY_ENGINE), int(Realization.LDST_COLOCATED)
DEDICATED = int(Realization.LDST_DEDICATED)
ALL_ROWS = (1, 0, 0, -1, 0, 0, -1)
ALL_NEEDED = (0, -1, 0)
COLUMNS = {
    "tiles": "c0 c1 c2 wait_begin wait_end",
    "waits": "signal count",
    "commands": (
        "transfer src_rank src_buffer src_offset dst_rank dst_buffer dst_offset rows row_bytes "
        "src_stride dst_stride wait_begin wait_end signal_begin signal_end realization reduction "
        "pause parts part_stride behind count_buffer count_index count_past exchange"
    ),
    "signals": "rank signal kind",
    "calls": (
        "open_begin open_end guard_begin guard_end close_wait_begin close_wait_end close_signal_begin close_signal_end "
        "before_tiles needs_buffer needs_index"
    ),
    "groups": "count signal_begin signal_end",
    "tile_groups": "group accumulates wait_begin wait_end command_begin command_end",
}


@dataclass
class Program:
    world_size: int
    num_ctas: int
    tile_shape: tuple[int, ...]
    buffers: list[BufferSpec]
    signal_layout: SignalLayout
    per_rank: list[dict[str, list[tuple[int, ...]]]] = field(default_factory=list)
    comm_ctas: int = 0
    tiles: tuple[int, ...] = (1, 1)

    def rank_tables(self, rank: int) -> dict[str, Table]:
        return {
            name: Table(
                tuple(columns.split()),
                np.array(self.per_rank[rank][name], np.int64).reshape(-1, len(columns.split())),
            )
            for name, columns in COLUMNS.items()
        }


def all_gather(
    world: int,
    algorithm: str = "push",
    realization: int = LDST,
    shape: tuple[int, int] = (64, 16),
    tiles: tuple[int, int] = (8, 8),
    columns: int = 16,
    num_ctas: int = 3,
) -> Program:
    """An AG-GEMM program; `algorithm` is push, pull or ring (which pushes)."""
    bounds = [shape[0] * r // world for r in range(world + 1)]
    row_bytes = shape[1] * 2
    inputs = tuple(
        (Region((bounds[r], 0), (bounds[r + 1] - bounds[r], shape[1])),) for r in range(world)
    )
    # Data signal s of a rank says that shard s has arrived there.
    ready, ready_twin, done, done_twin = (world * k for k in (2, 3, 4, 5))
    engine_done = world * 6
    end = engine_done + 1
    layout = SignalLayout(world, ready, ready_twin, done, done_twin, engine_done, end, end, end)
    buffers = [BufferSpec("a", shape, "bf16", inputs)]
    grid = (-(-shape[0] // tiles[0]), -(-columns // tiles[1]))
    program = Program(world, num_ctas, tiles, buffers, layout, tiles=grid)
    engine = realization == ENGINE
    for rank in range(world):
        waits: list[tuple[int, ...]] = []
        signals: list[tuple[int, ...]] = []
        commands: list[tuple[int, ...]] = []

        def span(table: list[tuple[int, ...]], rows: list[tuple[int, ...]]) -> tuple[int, int]:
            table.extend(rows)
            return len(table) - len(rows), len(table)

        peers = [(rank + d) % world for d in range(1, world)]
        moves = []  # (source, destination, shard, waits, data signals)
        if algorithm == "push":
            guard = done_twin if engine else done
            moves = [(rank, p, rank, [(guard + p, int(engine))], [(p, rank)]) for p in peers]
        elif algorithm == "pull":
            guard = ready_twin if engine else ready
            moves = [(p, rank, p, [(guard + p, 1)], [(rank, p)]) for p in peers]
        else:
            right = peers[0]
            for step in range(world - 1):
                shard = (rank - step) % world
                hold = [(shard, 1)] if step else []
                guard_wait = [(done + right, 0)] if step == 0 else []
                moves.append((rank, right, shard, hold + guard_wait, [(right, shard)]))
        for src, dst, shard, needs, raised in moves:
            rows, offset = bounds[shard + 1] - bounds[shard], bounds[shard] * row_bytes
            flags = [(r, s, 0) for r, s in raised]
            region = (rows, row_bytes, row_bytes, row_bytes)
            spans = (*span(waits, needs), *span(signals, flags))
            how = (realization, 0, 0, *ALL_ROWS)
            commands.append((shard, src, 0, offset, dst, 0, offset, *region, *spans, *how))
        order = []
        tile_rows, tile_cols = -(-shape[0] // tiles[0]), -(-columns // tiles[1])
        for m in range(tile_rows):
            first, last = m * tiles[0], min((m + 1) * tiles[0], shape[0])
            shards = [s for s in range(world) if bounds[s] < last and bounds[s + 1] > first]
            late = max((s - rank) % world for s in shards)
            order += [(late, m, n, [(s, 1) for s in shards if s != rank]) for n in range(tile_cols)]
        order.sort(key=lambda item: item[0])
        tile_rows_table = [(m, n, 0, *span(waits, needs)) for _, m, n, needs in order]
        opening = [(p, ready + rank, 0) for p in peers] + [(p, ready_twin + rank, 1) for p in peers]
        closing = [(p, done + rank, 0) for p in peers] + [(p, done_twin + rank, 1) for p in peers]
        call = (
            *span(signals, opening if algorithm == "pull" else []),
            *span(waits, [(done + p, 0) for p in peers] if algorithm == "pull" else []),
            *span(waits, [(engine_done, 1)] if engine else []),
            *span(signals, closing if algorithm != "pull" else closing[: world - 1]),
            *ALL_NEEDED,
        )
        program.per_rank.append(
            {"tiles": tile_rows_table, "waits": waits, "commands": commands,
             "signals": signals, "calls": [call], "groups": [], "tile_groups": []}
        )  # fmt: skip
    return program
