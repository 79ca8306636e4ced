"""A predicted timeline as a picture: for each rank its CTAs, its queues and what tiles hand over."""

from __future__ import annotations

from collections.abc import Sequence

from syncopate.model.timeline import Timeline, TransferEvent
from syncopate.show.svg import CARD, FAINT, INK, LINE, Drawing, rank_colour

__all__ = ["draw_timeline"]

_LEFT, _NAMES, _WIDTH, _PAD = 24, 150, 900, 18
_LANE = 14
"""Height of a queue, and at most of a CTA."""
_TIPS = 200
"""Transfers of a queue that have a tooltip each; more would make the file large."""
_TILES = 150
"""Height of all CTAs of a rank."""


def draw_timeline(timeline: Timeline, *, title: str = "") -> str:
    """An SVG document; time goes from left to right, and the same instant stands at the same place for all ranks.

    Args:
        timeline: What `syncopate.model.predict` gives.
        title: The first line.
    """
    drawing = Drawing()
    drawing.text(_LEFT, 40, title or "Predicted timeline", size=20, weight=600)
    drawing.text(_LEFT, 62, f"{timeline.us:.0f} µs on {timeline.machine}", size=13)
    drawing.text(
        _LEFT,
        80,
        "Above: the tiles of each CTA; gaps are waits. Below: transfers, coloured by the rank whose memory they read.",
        size=13,
        fill=FAINT,
    )
    y = 102.0
    for rank in range(len(timeline.rank_us)):
        y = _card(drawing, timeline, rank, y) + 16
    return drawing.document()


def _card(d: Drawing, timeline: Timeline, rank: int, top: float) -> float:
    lanes = _queues(timeline, rank)
    height = 46 + _TILES + 12 + (_LANE + 4) * len(lanes) + 26
    left, scale = _LEFT + _PAD + _NAMES, _WIDTH / timeline.us
    d.rect(_LEFT, top, _NAMES + _WIDTH + 3 * _PAD, height, CARD, stroke=LINE, radius=8)
    d.rect(_LEFT, top + 12, 5, 24, rank_colour(rank), radius=2)
    d.text(_LEFT + _PAD, top + 30, f"rank {rank}", size=16, weight=600)
    d.text(
        left,
        top + 30,
        f"{timeline.rank_us[rank]:.0f} µs, of which a CTA waits {timeline.stalled_us(rank):.0f} µs on average",
        fill=FAINT,
    )
    y = top + 46
    d.text(_LEFT + _PAD, y + 12, f"{timeline.num_ctas} CTAs", size=11)
    row = min(_TILES / timeline.num_ctas, _LANE)
    boxes = [
        (
            left + begin * scale,
            y + position % timeline.num_ctas * row,
            max((end - begin) * scale - 0.6, 0.3),
            max(row - 0.4, 0.4),
        )
        for position, (begin, end) in enumerate(
            zip(timeline.tile_begin[rank].tolist(), timeline.tile_end[rank].tolist(), strict=True)
        )
    ]
    d.rects(boxes, rank_colour(rank))
    y += _TILES + 12
    for name, events in lanes.items():
        d.text(_LEFT + _PAD, y + 11, name, size=11)
        _transfers(d, events, left, scale, y)
        y += _LANE + 4
    _axis(d, timeline.us, left, scale, y + 14)
    return top + height


def _transfers(
    d: Drawing, events: Sequence[TransferEvent], left: float, scale: float, y: float
) -> None:
    boxes: dict[str, list[tuple[float, float, float, float]]] = {}
    for event in events:
        x, width = left + event.begin_us * scale, (event.end_us - event.begin_us) * scale
        width = max(width - 0.6, 0.4)
        if len(events) > _TIPS:
            boxes.setdefault(rank_colour(event.src), []).append((x, y, width, _LANE))
            continue
        words = (
            f"{event.nbytes / 2**20:.2f} MiB from rank {event.src} to rank {event.dst}, "
            f"{event.begin_us:.1f} to {event.end_us:.1f} µs"
        )
        d.rect(x, y, width, _LANE, rank_colour(event.src), tip=words)
    for colour, some in boxes.items():
        d.rects(some, colour)


def _queues(timeline: Timeline, rank: int) -> dict[str, list[TransferEvent]]:
    lanes: dict[str, list[TransferEvent]] = {}
    for event in timeline.transfers:
        if event.by == rank:
            name = event.realization.spelling + (", by tile" if event.cta >= 0 else "")
            lanes.setdefault(name, []).append(event)
    return dict(sorted(lanes.items()))


def _axis(d: Drawing, us: float, left: float, scale: float, y: float) -> None:
    step = next(
        step * 10**power
        for power in range(-1, 7)
        for step in (1, 2, 5)
        if step * 10**power >= us / 10
    )
    for number in range(int(us / step) + 1):
        d.text(
            left + number * step * scale,
            y,
            f"{number * step:g}",
            size=9.5,
            fill=FAINT,
            anchor="middle",
        )
    d.text(_LEFT + _PAD, y, "µs", size=9.5, fill=INK)
