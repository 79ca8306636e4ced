"""The schedule of every rank as one picture.

One card per rank. On the left its commands in the order of issue; on the right a
lane per CTA with its tiles from left to right, coloured by the rank whose data
they read. A dark edge marks the first tile of a CTA that waits for a chunk, a
flag above the lanes the first tile of the rank that does.
"""

from __future__ import annotations

from typing import Any

from syncopate.show.model import Lane, Transfer, read_lanes
from syncopate.show.svg import CARD, FAINT, INK, LINE, Drawing, rank_colour

_LEFT, _LIST, _GRID, _PAD = 24, 330, 640, 18


def draw_schedule(program: Any, *, title: str = "") -> str:
    """An SVG document that shows the schedule of every rank of `program`.

    Args:
      program: has `world_size`, `num_ctas`, `tile_shape`, `buffers` and `rank_tables(rank)`.
      title: the first line of the picture.
    """
    lanes = read_lanes(program)
    ctas = min(program.num_ctas, max(len(lane.tiles) for lane in lanes))
    drawing = Drawing()
    drawing.text(_LEFT, 40, title or "Schedule", size=20, weight=600)
    drawing.text(
        _LEFT,
        62,
        "Left: copies in the order of issue; sN is signal N. Right: the tiles of each CTA in the "
        "order of execution, coloured by the rank whose data they read.",
        size=13,
        fill=FAINT,
    )
    _legend(drawing, len(lanes), 84)
    y = 112.0
    for lane in lanes:
        y = _card(drawing, lane, ctas, y) + 16
    return drawing.document()


def _legend(d: Drawing, world: int, y: float) -> None:
    x = float(_LEFT)
    for rank in range(world):
        d.rect(x, y - 11, 14, 14, rank_colour(rank), radius=3)
        d.text(x + 20, y, f"rank {rank}", fill=INK)
        x += 76
    d.rect(x, y - 11, 14, 14, LINE, radius=3)
    d.rect(x, y - 11, 4, 14, INK)
    d.text(x + 20, y, "first tile of this CTA that waits for the chunk")


def _card(d: Drawing, lane: Lane, ctas: int, top: float) -> float:
    rounds = -(-len(lane.tiles) // ctas)
    cell_w = max(10.0, min(150.0, _GRID / rounds))
    cell_h = max(2.5, min(26.0, 260 / ctas))
    left = _LEFT + _LIST + 2 * _PAD
    first = {t: tile for tile in reversed(lane.tiles) for t in tile.waits}
    flags = {t: left + tile.position // ctas * cell_w for t, tile in first.items()}
    flag_rows = _flag_rows(flags)
    grid_top = top + 46 + 18 * (1 + max(flag_rows.values(), default=0))
    height = max(grid_top + ctas * cell_h, top + 64 + 34 * len(lane.transfers)) - top + 34
    d.rect(_LEFT, top, _LIST + _GRID + 4 * _PAD, height, CARD, stroke=LINE, radius=8)
    d.rect(_LEFT, top + 12, 5, 24, rank_colour(lane.rank), radius=2)
    d.text(_LEFT + _PAD, top + 30, f"rank {lane.rank}", size=16, weight=600)
    d.text(
        _LEFT + _PAD + 70,
        top + 30,
        f"{len(lane.tiles)} tiles on {ctas} CTAs, copies: {sum(not t.staging for t in lane.transfers)}",
        fill=FAINT,
    )
    _commands(d, lane, top + 64)
    for transfer, x in flags.items():
        _flag(d, transfer, x, grid_top, flag_rows[transfer])
    _tiles(d, lane, ctas, (left, grid_top), (cell_w, cell_h))
    _axis(d, (left, grid_top), (rounds, cell_w), (ctas, cell_h))
    return top + height


def _flag_rows(flags: dict[Transfer, float]) -> dict[Transfer, int]:
    """Stacks flags whose labels would overlap."""
    rows: dict[Transfer, int] = {}
    ends: list[float] = []
    for transfer, x in sorted(flags.items(), key=lambda item: -item[1]):
        row = next((k for k, end in enumerate(ends) if x + 84 <= end), len(ends))
        ends[row:] = [x]
        rows[transfer] = row
    return rows


def _flag(d: Drawing, transfer: Transfer, x: float, grid_top: float, row: int) -> None:
    y = grid_top - 12 - 18 * row
    d.path(f"M{x:.1f} {y - 6:.1f}V{grid_top:.1f}", stroke=rank_colour(transfer.origin), width=2)
    d.path(f"M{x:.1f} {y - 7:.1f}h9l-3 4.5l3 4.5h-9z", fill=rank_colour(transfer.origin))
    via = "" if transfer.src == transfer.origin else f" via {transfer.src}"
    d.text(x + 13, y + 2, f"rank {transfer.origin}{via}", size=10.5, fill=FAINT)


def _commands(d: Drawing, lane: Lane, y: float) -> None:
    x = float(_LEFT + _PAD)
    if not lane.transfers:
        d.text(x, y, "carries out no copies", fill=FAINT)
    for index, t in enumerate(lane.transfers):
        top = y + 34 * index
        push = t.by == t.src
        d.rect(x, top - 12, 5, 27, rank_colour(t.origin), radius=2)
        arrow = f"→ rank {t.dst}" if push else f"← rank {t.src}"
        staged = f"stages its input {t.region} for other ranks"
        d.text(x + 13, top, staged if t.staging else f"{t.region}  {arrow}")
        after = f"after {', '.join(t.waits)}, " if t.waits else ""
        raises = ", ".join(f"{s} of rank {r}" for s, r in t.raises)
        d.text(
            x + 13, top + 14, f"{t.realization}, {after}raises {raises or 'nothing'}",
            size=10.5, fill=FAINT,
        )  # fmt: skip


def _tiles(
    d: Drawing, lane: Lane, ctas: int, at: tuple[float, float], cell: tuple[float, float]
) -> None:
    seen: set[tuple[int, Transfer]] = set()
    gap = 1.5 if cell[1] > 8 else 0.4
    for tile in lane.tiles:
        cta, step = tile.position % ctas, tile.position // ctas
        x, y = at[0] + step * cell[0], at[1] + cta * cell[1]
        w, h = cell[0] - gap, cell[1] - gap
        words = f"tile {tile.coords}, position {tile.position}, CTA {cta}"
        for t in tile.waits:
            words += f"\nwaits for {t.region} from rank {t.src}"
        for k, origin in enumerate(tile.origins):
            part = w / len(tile.origins)
            d.rect(x + k * part, y, part, h, rank_colour(origin), tip=words)
        if any((cta, t) not in seen for t in tile.waits):
            d.rect(x, y, min(4.0, w / 4), h, INK)
        seen.update((cta, t) for t in tile.waits)
        if cell[0] >= 34 and cell[1] >= 12:
            last = 3 if any(t.coords[2] for t in lane.tiles) else 2
            label = ",".join(map(str, tile.coords[:last]))
            d.text(x + w / 2 + 2, y + h / 2 + 4, label, size=11, fill="#ffffff", weight=600,
                   anchor="middle")  # fmt: skip


def _axis(
    d: Drawing, at: tuple[float, float], across: tuple[int, float], down: tuple[int, float]
) -> None:
    (left, top), (rounds, cell_w), (ctas, cell_h) = at, across, down
    every = max(1, int(10 / cell_h + 0.99))
    for cta in range(0, ctas, every):
        y = top + (cta + 0.5) * cell_h + 3.5
        d.text(left - 6, y, str(cta), size=9.5, fill=FAINT, anchor="end")
    bottom = top + ctas * cell_h
    d.text(left - 6, bottom + 16, "CTA", size=9.5, fill=FAINT, anchor="end")
    every = max(1, int(24 / cell_w + 0.99))
    for step in range(0, rounds, every):
        x = left + (step + 0.5) * cell_w
        d.text(x, bottom + 16, str(step), size=9.5, fill=FAINT, anchor="middle")
    d.text(left + rounds * cell_w + 4, bottom + 16, "round", size=9.5, fill=FAINT)
