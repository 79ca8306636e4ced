"""The schedule of every rank as one picture.

One card per rank. On the left its commands in the order of issue; on the right a
lane per CTA with its tiles from left to right, coloured by the rank whose data
they read. A dark edge marks the first tile of a CTA that waits for a chunk, a
flag above the lanes the first tile of the rank that does.
"""

from __future__ import annotations

from typing import Any

from syncopate.runtime.flag_names import flags_of_ranks, join
from syncopate.show.model import Lane, Transfer, read_lanes
from syncopate.show.svg import CARD, FAINT, INK, LINE, Drawing, rank_colour, wrap

_LEFT, _LIST, _GRID, _PAD = 24, 350, 640, 18
_TEXT = _LIST - 20
"""Width of a line in the list of copies."""
_LIST_HEIGHT = 240
"""What a card gives the list of copies, however small its grid is."""
_FLAGS = 8
"""Flags above a grid that all get a label."""


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
        "Left: copies in the order of issue; sN is the flag of transfer N. Right: the tiles of each CTA in the "
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
    cell_w = max(_GRID / 128, min(150.0, _GRID / rounds))
    cell_h = max(2.0, min(26.0, 260 / ctas))
    left = _LEFT + _LIST + 2 * _PAD
    first = {t: tile for tile in reversed(lane.tiles) for t in tile.waits}
    flags = {t: left + tile.position // ctas * cell_w for t, tile in first.items()}
    flag_rows = _flag_rows(flags)
    grid_top = top + 46 + 18 * (1 + max(flag_rows.values(), default=0))
    list_top, grid_bottom = top + 64, grid_top + ctas * cell_h
    lines = _command_lines(lane, grid_bottom + 12 - list_top)
    list_bottom = list_top + sum(height for height, _, _ in lines)
    height = max(grid_bottom, list_bottom - 12) - top + 34
    d.rect(_LEFT, top, _LIST + _GRID + 4 * _PAD, height, CARD, stroke=LINE, radius=8)
    d.rect(_LEFT, top + 12, 5, 24, rank_colour(lane.rank), radius=2)
    d.text(_LEFT + _PAD, top + 30, f"rank {lane.rank}", size=16, weight=600)
    d.text(
        _LEFT + _PAD + 70,
        top + 30,
        f"{len(lane.tiles)} tiles on {ctas} CTAs, copies: {sum(not t.staging for t in lane.transfers)}",
        fill=FAINT,
    )
    _commands(d, lines, list_top)
    for transfer, x in flags.items():
        _flag(d, transfer, x, grid_top, flag_rows.get(transfer))
    _tiles(d, lane, ctas, (left, grid_top), (cell_w, cell_h))
    _axis(d, (left, grid_top), (rounds, cell_w), (ctas, cell_h))
    return top + height


def _flag_rows(flags: dict[Transfer, float]) -> dict[Transfer, int]:
    """Stacks flags whose labels would overlap. Of many flags, only the first of each rank's data gets a label."""
    rows: dict[Transfer, int] = {}
    ends: list[float] = []
    labelled = sorted(flags.items(), key=lambda item: item[1])
    if len(labelled) > _FLAGS:
        labelled = list({t.origin: (t, x) for t, x in reversed(labelled)}.values())
    for transfer, x in sorted(labelled, key=lambda item: -item[1]):
        row = next((k for k, end in enumerate(ends) if x + 84 <= end), len(ends))
        ends[row:] = [x]
        rows[transfer] = row
    return rows


def _flag(d: Drawing, transfer: Transfer, x: float, grid_top: float, row: int | None) -> None:
    y = grid_top - 12 - 18 * (row or 0)
    colour = rank_colour(transfer.origin)
    if row is None:
        d.path(f"M{x:.1f} {grid_top - 5:.1f}V{grid_top:.1f}", stroke=colour, width=2)
        return
    d.path(f"M{x:.1f} {y - 6:.1f}V{grid_top:.1f}", stroke=colour, width=2)
    d.path(f"M{x:.1f} {y - 7:.1f}h9l-3 4.5l3 4.5h-9z", fill=colour)
    via = "" if transfer.src == transfer.origin else f" via {transfer.src}"
    d.text(x + 13, y + 2, f"rank {transfer.origin}{via}", size=10.5, fill=FAINT)


def _command_lines(lane: Lane, room: float) -> list[tuple[float, Transfer | None, list[str]]]:
    """What the list of copies shows, as (height, copy, its lines).

    Where the grid leaves room for it, the list also says by what a copy is carried out and which flags it has to do
    with; otherwise only its tooltip does. What does not even fit with a line each is left out.
    """
    if not lane.transfers:
        return [(17, None, ["carries out no copies"])]
    lines: list[tuple[float, Transfer | None, list[str]]] = []
    for t in lane.transfers:
        words = [*wrap(_copy(t), _TEXT, 12), *wrap(_flags(t), _TEXT, 10.5, 3)]
        lines.append((22 + 13 * (len(words) - 1), t, words))
    room = max(room, _LIST_HEIGHT)
    if sum(height for height, _, _ in lines) <= room:
        return lines
    lines = [(17, t, words[:1]) for _, t, words in lines]
    if 17 * len(lines) > room:
        shown = int(room / 17) - 1
        words = [f"… and {len(lines) - shown} more, which explain() lists"]
        lines = [*lines[:shown], (17, None, words)]
    return lines


def _copy(t: Transfer) -> str:
    if t.staging:
        return f"stages its input {t.region} for others"
    return f"{t.region}  → rank {t.dst}" if t.by == t.src else f"{t.region}  ← rank {t.src}"


def _flags(t: Transfer) -> str:
    after = f"after {join(t.waits)}, " if t.waits else ""
    return f"{t.realization}, {after}raises {flags_of_ranks(t.raises) or 'nothing'}"


def _commands(d: Drawing, lines: list[tuple[float, Transfer | None, list[str]]], y: float) -> None:
    x = float(_LEFT + _PAD)
    for height, t, words in lines:
        if t is None:
            d.text(x, y, words[0], fill=FAINT)
        else:
            tip = f"{_copy(t)}\n{_flags(t)}"
            d.rect(x, y - 12, 5, height - 5, rank_colour(t.origin), radius=2)
            d.text(x + 13, y, words[0], tip=tip)
            for row, line in enumerate(words[1:]):
                d.text(x + 13, y + 14 + 13 * row, line, size=10.5, fill=FAINT, tip=tip)
        y += height


def _tiles(
    d: Drawing, lane: Lane, ctas: int, at: tuple[float, float], cell: tuple[float, float]
) -> None:
    if cell[0] < 6 or cell[1] < 6:
        _dense_tiles(d, lane, ctas, at, cell)
        return
    gap = 1.5 if min(cell) > 8 else 0.6
    last = 3 if any(t.coords[2] for t in lane.tiles) else 2
    for tile in lane.tiles:
        cta, step = tile.position % ctas, tile.position // ctas
        x, y = at[0] + step * cell[0], at[1] + cta * cell[1]
        w, h = cell[0] - gap, cell[1] - gap
        words = f"tile {tile.coords}, position {tile.position}, CTA {cta}"
        for t in tile.waits:
            words += f"\nwaits for {t.region} from rank {t.src}"
        if tile.flags:
            words += f"\nflags: {join(tile.flags)}"
        for k, origin in enumerate(tile.origins):
            part = w / len(tile.origins)
            d.rect(x + k * part, y, part, h, rank_colour(origin), tip=words)
        if tile.waits:
            d.rect(x, y, min(4.0, w / 4), h, INK)
        if cell[0] >= 34 and cell[1] >= 12:
            label = ",".join(map(str, tile.coords[:last]))
            d.text(x + w / 2 + 2, y + h / 2 + 4, label, size=11, fill="#ffffff", weight=600,
                   anchor="middle")  # fmt: skip


def _dense_tiles(
    d: Drawing, lane: Lane, ctas: int, at: tuple[float, float], cell: tuple[float, float]
) -> None:
    """Many small tiles: one element per colour, without tooltips, so that the file stays small."""
    boxes: dict[str, list[tuple[float, float, float, float]]] = {}
    marks = []
    gap_x, gap_y = (0.6 if size > 4 else 0.0 for size in cell)
    for tile in lane.tiles:
        x = at[0] + tile.position // ctas * cell[0]
        y = at[1] + tile.position % ctas * cell[1]
        part = (cell[0] - gap_x) / len(tile.origins)
        for k, origin in enumerate(tile.origins):
            box = (x + k * part, y, part, cell[1] - gap_y)
            boxes.setdefault(rank_colour(origin), []).append(box)
        if tile.waits:
            marks.append((x, y, min(4.0, cell[0] / 4), cell[1] - gap_y))
    for colour, some in boxes.items():
        d.rects(some, colour)
    d.rects(marks, INK)


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
