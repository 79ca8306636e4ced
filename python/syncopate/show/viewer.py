"""Runs as a page to look at in a browser: all in one file, which loads nothing."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from syncopate.profile.critical import find_critical_path
from syncopate.profile.run import Cause, CauseKind, LinkUse, Run, Span, SpanKind, Track
from syncopate.profile.summary import describe_run
from syncopate.show.svg import FAINT, rank_colour

__all__ = ["draw_runs"]

_TEMPLATE: Final = Path(__file__).parent / "viewer.html"
_TILE: Final = "#c9d1da"
_CAUSES: Final = {
    CauseKind.TILES: "#8e5ea8",
    CauseKind.INPUT: "#22716a",
    CauseKind.CALL: "#b5342b",
    CauseKind.ENGINE: "#6d6a3c",
    CauseKind.RING: "#d4559a",
}
"""Colours of waits; those for data have that of the rank whose data it is, as have transfers."""

_KINDS: Final = tuple(SpanKind)
_BINS: Final = 600
_MOST_LINKS: Final = 3


def draw_runs(runs: Sequence[Run], *, title: str = "") -> str:
    """An HTML document that shows runs one below the other, on the same scale of time.

    It has what each role does by time, waits coloured by their cause, the use of links and the critical path, can be
    zoomed and moved, and says of everything what it is where the pointer rests on it.

    Args:
        runs: A measurement and a prediction, or one of them.
        title: The first line; the program's name if it is left out.
    """
    data = [
        _Page(run).data(describe_run(run, *[r for r in runs if r is not run][:1])) for run in runs
    ]
    # What ends a script is nothing that JSON has to spell that way.
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
    page = _TEMPLATE.read_text(encoding="utf-8")
    page = page.replace("{{title}}", html.escape(title or runs[0].name))
    return page.replace('"{{runs}}"', text)


class _Page:
    """One run as the page's script reads it. Texts and causes stand once, and spans have their numbers."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._texts: dict[str, int] = {}
        self._colours: dict[tuple[str, str], int] = {}
        self._rows: dict[int, int] = {}

    def data(self, words: str) -> dict[str, Any]:
        """The run, and what is said of it."""
        run = self._run
        ranks = [self._rank(rank) for rank in range(run.world_size)]
        path = [
            [
                self._rows[link.track],
                round(link.begin_us, 3),
                round(link.end_us, 3),
                int(link.waited_for is not None),
            ]
            for link in find_critical_path(run)
        ]
        return {
            "name": run.name,
            "source": run.source.value,
            "clock": run.clock,
            "us": run.us,
            "dropped": run.dropped,
            "ranks": ranks,
            "path": path,
            "texts": list(self._texts),
            "colours": [list(colour) for colour in self._colours],
            "words": words,
        }

    def _rank(self, rank: int) -> dict[str, Any]:
        run = self._run
        groups: dict[str, list[dict[str, Any]]] = {}
        for index, track in enumerate(run.tracks):
            if track.rank == rank:
                self._rows[index] = len(self._rows)
                groups.setdefault(track.role_name, []).append(self._row(track))
        return {
            "name": f"rank {rank}",
            "colour": rank_colour(rank),
            "groups": [{"name": name, "rows": rows} for name, rows in groups.items()],
            "links": self._links(rank),
        }

    def _row(self, track: Track) -> dict[str, Any]:
        spans = [
            [
                _KINDS.index(span.kind),
                round(span.begin_us, 3),
                round(span.end_us, 3),
                self._texts.setdefault(span.name, len(self._texts)),
                self._colour(track, span),
            ]
            # What is drawn later lies above.
            for span in sorted(track.spans, key=lambda span: _KINDS.index(span.kind))
        ]
        return {"name": track.name, "begin": track.begin_us, "end": track.end_us, "spans": spans}

    def _colour(self, track: Track, span: Span) -> int:
        if span.kind is SpanKind.TILE:
            colour = ("tile", _TILE)
        elif span.kind is SpanKind.TRANSFER:
            colour = self._colour_of_transfer(track, span)
        else:
            colour = ("wait", FAINT) if span.cause is None else _colour_of_cause(span.cause)
        return self._colours.setdefault(colour, len(self._colours))

    def _colour_of_transfer(self, track: Track, span: Span) -> tuple[str, str]:
        source = span.source if span.source is not None else track.rank
        return f"transfer from rank {source}", rank_colour(source)

    def _links(self, rank: int) -> list[dict[str, Any]]:
        """What goes from a rank to each other one; to all of them at once if they are many."""
        sent = [link for link in self._run.links if link.src == rank]
        names = [f"→ rank {link.dst}" for link in sent]
        if len(sent) > _MOST_LINKS:
            moves = tuple(move for link in sent for move in link.moves)
            sent, names = [LinkUse(rank, rank, moves)], [f"→ {len(sent)} ranks"]
        links = []
        for link, name in zip(sent, names, strict=True):
            rates = [round(rate, 2) for rate in link.rates(self._run.us, _BINS)]
            colour = rank_colour(rank)
            links.append({"name": name, "colour": colour, "rates": rates, "peak": max(rates)})
        return links


def _colour_of_cause(cause: Cause) -> tuple[str, str]:
    colour = rank_colour(cause.rank) if cause.kind is CauseKind.DATA else _CAUSES[cause.kind]
    return f"wait for {cause.label}", colour
