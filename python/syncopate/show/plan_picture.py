"""A plan as a picture, without a kernel: its transfers by rank and time, and what comes after what."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from syncopate.errors import SyncopateError
from syncopate.show.plan_transfers import PlanTransfer, PlanTransfers
from syncopate.show.svg import CARD, FAINT, INK, LINE, RANKS, Drawing, rank_colour, wrap
from syncopate.synthesis.clock import MoveSpan

__all__ = ["draw_dependences", "draw_ranks"]

_LEFT, _NAMES, _WIDTH, _PAD = 24, 100, 900, 18
_BAR = 14
_TIPS = 2000
"""Transfers that get a tooltip each; more would make the file large."""
_NODES = 400
"""Transfers of which a graph can still be read."""


def draw_ranks(
    plan: PlanTransfers, spans: Sequence[MoveSpan], *, unit: str = "", title: str = ""
) -> str:
    """An SVG document: for each rank what it sends and what it receives, from left to right in time.

    Args:
        plan: The transfers.
        spans: When each is made.
        unit: Of the times; without one, a step is what the largest transfer takes.
        title: The first line.
    """
    d = Drawing()
    end = max((span.end_us for span in spans), default=0.0) or 1.0
    d.text(_LEFT, 40, title or f"{plan.name} on {plan.ranks} ranks", size=20, weight=600)
    d.text(_LEFT, 62, _summary(plan, end, unit), size=13)
    d.text(
        _LEFT,
        80,
        "Above: what a rank sends, coloured by who receives it. Below: what it receives, coloured by who sends it; "
        f"sums have a dark edge.{_repeats(plan)}",
        size=13,
        fill=FAINT,
    )
    y = 102.0
    for rank in range(plan.ranks):
        y = _card(d, plan, spans, rank, end, y) + 10
    scale = _WIDTH / end
    step = _round_step(end / 8)
    for mark in range(int(end / step * (1 + 1e-9)) + 1):
        x = _LEFT + _PAD + _NAMES + mark * step * scale
        d.text(x, y + 8, f"{mark * step:g}", size=9.5, fill=FAINT, anchor="middle")
    d.text(_LEFT + _PAD, y + 8, unit or "steps", size=9.5)
    return d.document()


def _repeats(plan: PlanTransfers) -> str:
    """Says that colours do not tell all ranks apart, where there are more of these."""
    return f" Every {len(RANKS)}th rank has the same colour." if plan.ranks > len(RANKS) else ""


def _summary(plan: PlanTransfers, end: float, unit: str) -> str:
    between = [each for each in plan.transfers if each.src_rank != each.dst_rank]
    moved = sum(each.nbytes for each in between)
    words = f"{len(between)} transfers between ranks, {moved} bytes, {end:.4g} {unit or 'steps'}"
    local = len(plan.transfers) - len(between)
    if local:
        words += f"; {local} within ranks, which take no time here"
    if plan.calls:
        words += f"; and library calls: {', '.join(plan.calls)}"
    return words


def _card(
    d: Drawing, plan: PlanTransfers, spans: Sequence[MoveSpan], rank: int, end: float, top: float
) -> float:
    sent = [each for each in plan.transfers if each.src_rank == rank != each.dst_rank]
    received = [each for each in plan.transfers if each.dst_rank == rank != each.src_rank]
    rows = [_stack(some, spans) for some in (sent, received)]
    counts = [max(row.values(), default=-1) + 1 for row in rows]
    height = _PAD + sum(max(count, 1) * (_BAR + 2) for count in counts) + 8 + 8
    d.rect(_LEFT, top, _NAMES + _WIDTH + 3 * _PAD, height, CARD, stroke=LINE, radius=8)
    d.rect(_LEFT, top + 8, 5, 24, rank_colour(rank), radius=2)
    d.text(_LEFT + _PAD, top + 24, f"rank {rank}", size=14, weight=600)
    y = top + 10
    for some, row, count, other in zip(
        (sent, received), rows, counts, ("dst_rank", "src_rank"), strict=True
    ):
        _bars(d, plan, some, row, spans, end, y, other)
        y += max(count, 1) * (_BAR + 2) + 8
    middle = top + 10 + max(counts[0], 1) * (_BAR + 2) + 3
    left = _LEFT + _PAD + _NAMES
    d.path(f"M{left} {middle:.1f}h{_WIDTH}", stroke=LINE)
    return top + height


def _stack(some: Sequence[PlanTransfer], spans: Sequence[MoveSpan]) -> dict[int, int]:
    """By transfer, the row in which it meets no other."""
    ends: list[float] = []
    rows: dict[int, int] = {}
    for each in sorted(some, key=lambda each: (spans[each.number].begin_us, each.number)):
        span = spans[each.number]
        row = next(
            (k for k, end in enumerate(ends) if end <= span.begin_us * (1 + 1e-9)), len(ends)
        )
        ends[row : row + 1] = [span.end_us]
        rows[each.number] = row
    return rows


def _bars(
    d: Drawing,
    plan: PlanTransfers,
    some: Sequence[PlanTransfer],
    rows: dict[int, int],
    spans: Sequence[MoveSpan],
    end: float,
    top: float,
    other: str,
) -> None:
    left, scale = _LEFT + _PAD + _NAMES, _WIDTH / end
    many: dict[str, list[tuple[float, float, float, float]]] = defaultdict(list)
    edges: list[tuple[float, float, float, float]] = []
    for each in some:
        span = spans[each.number]
        x, width = left + span.begin_us * scale, (span.end_us - span.begin_us) * scale
        y, width = top + rows[each.number] * (_BAR + 2), max(width - 0.8, 0.5)
        rank = getattr(each, other)
        edge = (x, y, min(2.5, width), _BAR)
        if len(plan.transfers) > _TIPS:
            many[rank_colour(rank)].append((x, y, width, _BAR))
            edges += [edge] if each.reduction else []
            continue
        tip = f"{each}\n{span.begin_us:.4g} to {span.end_us:.4g}"
        if each.after:
            tip += f"\nafter {', '.join(map(str, each.after[:12]))}"
            tip += " …" if len(each.after) > 12 else ""
        if each.after_tiles:
            tip += "\nafter the tiles that compute it"
        d.rect(x, y, width, _BAR, rank_colour(rank), tip=tip)
        if each.reduction:
            d.rect(*edge, INK)
        label = next(
            (word for word in (each.source, str(each.number)) if 6 * len(word) < width), ""
        )
        if label:
            d.text(x + 5, y + 10.5, label, size=9.5, fill="#ffffff", weight=600, tip=tip)
    for colour, boxes in many.items():
        d.rects(boxes, colour)
    if edges:
        d.rects(edges, INK)


def draw_dependences(plan: PlanTransfers, *, title: str = "") -> str:
    """An SVG document: every transfer, with lines from those that it comes after.

    Raises:
        SyncopateError: There are more transfers than a picture can show.
    """
    if len(plan.transfers) > _NODES:
        raise SyncopateError(
            f"plan {plan.name}: expects at most {_NODES} transfers to draw what comes after what, but got "
            f"{len(plan.transfers)}; use view ranks"
        )
    depth: dict[int, int] = {}
    for each in plan.transfers:
        depth[each.number] = 1 + max((depth[number] for number in each.after), default=-1)
    columns: dict[int, list[PlanTransfer]] = defaultdict(list)
    for each in plan.transfers:
        columns[depth[each.number]].append(each)
    width, height, across, down = 178, 34, 236, 44
    d = Drawing()
    d.text(_LEFT, 40, title or f"{plan.name} on {plan.ranks} ranks", size=20, weight=600)
    d.text(
        _LEFT,
        60,
        "Each transfer behind those that it comes after, coloured by the rank",
        size=12,
        fill=FAINT,
    )
    d.text(
        _LEFT,
        76,
        f"that sends; dark edge: a sum; dashed: of what tiles compute.{_repeats(plan)}",
        size=12,
        fill=FAINT,
    )
    at: dict[int, tuple[float, float]] = {}
    for column, some in columns.items():
        # Beside what they come after, lines are short.
        some.sort(key=lambda each: (_mean([at[number][1] for number in each.after]), each.number))
        for row, each in enumerate(some):
            at[each.number] = _LEFT + column * across, 94.0 + row * down
    for each in plan.transfers:
        x, y = at[each.number]
        for number in each.after:
            a, b = at[number][0] + width, at[number][1] + height / 2
            bend = (x - a) / 2
            d.path(
                f"M{a:.1f} {b:.1f}C{a + bend:.1f} {b:.1f} {x - bend:.1f} {y + height / 2:.1f} "
                f"{x:.1f} {y + height / 2:.1f}",
                stroke=rank_colour(plan.transfers[number].src_rank),
                width=1.2,
            )
    for each in plan.transfers:
        x, y = at[each.number]
        d.rect(x, y, width, height, CARD, stroke=LINE, radius=5, tip=str(each))
        d.rect(x, y, 5, height, rank_colour(each.src_rank), radius=2)
        if each.reduction:
            d.rect(x + width - 3, y, 3, height, INK)
        if each.after_tiles:
            d.path(f"M{x + 8:.1f} {y + 3:.1f}h{width - 14}", stroke=FAINT, width=1.5, dashed=True)
        d.text(
            x + 12,
            y + 15,
            f"{each.number}: {each.src_rank} → {each.dst_rank}  {each.reduction or each.kind}",
            size=11,
            weight=600,
        )
        d.text(x + 12, y + 28, wrap(each.target, width - 22, 10)[0], size=10, fill=FAINT)
    return d.document()


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _round_step(least: float) -> float:
    """The next of 1, 2 and 5 times a power of ten."""
    power = 1e-9
    while True:
        for factor in (1, 2, 5):
            if factor * power >= least:
                return factor * power
        power *= 10
