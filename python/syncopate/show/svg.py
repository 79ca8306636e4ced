"""The few SVG elements that the pictures need, as text."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

FONT = "system-ui, 'Segoe UI', 'Helvetica Neue', 'DejaVu Sans', sans-serif"
INK, FAINT, LINE, PAPER, CARD = "#1f2933", "#66727f", "#d5dbe1", "#f4f6f8", "#ffffff"
# One colour per rank: Okabe and Ito's set, softened; legible with colour-blindness.
RANKS = ("#4c8fc7", "#eda43b", "#3fa58a", "#c886b3", "#dd7a4b", "#7b7fc4", "#b7a437", "#8b98a5")


# Width of letters and digits by the size of the font; none that stands for FONT has wider ones on average.
_LETTER = 0.55


def rank_colour(rank: int) -> str:
    """The colour that stands for data that started out at `rank`."""
    return RANKS[rank % len(RANKS)]


def wrap(words: str, width: float, size: float, lines: int = 1) -> list[str]:
    """A text as lines that surely fit into `width`, with an ellipsis where something is missing."""
    room = max(int(width / (_LETTER * size)), 2)
    return textwrap.wrap(words, room, max_lines=lines, placeholder=" …", break_on_hyphens=False)


class Drawing:
    """Collects elements; `str()` of it is a self-contained SVG document."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._right, self._bottom = 0.0, 0.0

    def rect(
        self,
        x: float,
        y: float,
        w: float,
        h: float,
        fill: str,
        *,
        stroke: str = "none",
        radius: float = 0,
        tip: str = "",
    ) -> None:
        """A rectangle; `tip` is shown where the pointer rests on it."""
        self._grow(x + w, y + h)
        shape = f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" fill="{fill}"'
        shape += f' rx="{radius:g}"' if radius else ""
        shape += f' stroke="{stroke}"' if stroke != "none" else ""
        self._parts.append(f"{shape}><title>{escape(tip)}</title></rect>" if tip else f"{shape}/>")

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: float = 12,
        fill: str = INK,
        weight: int = 400,
        anchor: str = "start",
        tip: str = "",
    ) -> None:
        """One line of text with its baseline at `y`; `tip` is shown where the pointer rests on it."""
        if anchor == "start":
            self._grow(x + _LETTER * size * len(words), y)
        style = f' font-weight="{weight}"' if weight != 400 else ""
        style += f' text-anchor="{anchor}"' if anchor != "start" else ""
        title = f"<title>{escape(tip)}</title>" if tip else ""
        self._parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" fill="{fill}"{style}>'
            f"{title}{escape(words)}</text>"
        )

    def rects(self, boxes: Sequence[tuple[float, float, float, float]], fill: str) -> None:
        """Many rectangles (x, y, width, height) of one colour, as one element."""
        for x, y, w, h in boxes:
            self._grow(x + w, y + h)
        if boxes:
            parts = (f"M{x:.1f} {y:.1f}h{w:.1f}v{h:.1f}h{-w:.1f}z" for x, y, w, h in boxes)
            self.path("".join(parts), fill=fill)

    def path(
        self,
        d: str,
        *,
        fill: str = "none",
        stroke: str = "none",
        width: float = 1,
        dashed: bool = False,
    ) -> None:
        """A path in SVG's own notation."""
        line = f' stroke="{stroke}" stroke-width="{width:g}"' if stroke != "none" else ""
        line += ' stroke-dasharray="4 3"' if dashed else ""
        self._parts.append(f'<path d={quoteattr(d)} fill="{fill}"{line}/>')

    def _grow(self, right: float, bottom: float) -> None:
        self._right, self._bottom = max(self._right, right), max(self._bottom, bottom)

    def document(self, margin: float = 24) -> str:
        """The whole document, with a margin on the right and at the bottom."""
        w, h = self._right + margin, self._bottom + margin
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{w:.0f}" height="{h:.0f}" '
            f'viewBox="0 0 {w:.0f} {h:.0f}" font-family="{FONT}">'
        )
        paper = f'<rect width="100%" height="100%" fill="{PAPER}"/>'
        return "\n".join([head, paper, *self._parts, "</svg>\n"])
