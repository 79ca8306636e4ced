"""Pictures and a table of a plan on one page of HTML, which needs nothing else."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

from syncopate.show.plan_transfers import PlanTransfers
from syncopate.show.svg import FONT
from syncopate.synthesis.clock import MoveSpan

__all__ = ["write_page"]

_ROWS = 2000
"""Transfers that the table lists."""

_STYLE = f"""
body {{ font-family: {FONT}; color: #1f2933; background: #f4f6f8; margin: 16px; }}
h2 {{ margin: 24px 0 8px; font-size: 18px; }}
figure {{ margin: 0; overflow-x: auto; }}
table {{ border-collapse: collapse; background: #ffffff; font-size: 13px; }}
th, td {{ border: 1px solid #d5dbe1; padding: 3px 8px; text-align: left; }}
tr:target {{ background: #fdf0d5; }}
"""


def write_page(
    plan: PlanTransfers,
    spans: Sequence[MoveSpan],
    pictures: Mapping[str, str],
    *,
    unit: str,
    title: str,
) -> str:
    """The page.

    Args:
        plan: The transfers.
        spans: When each is made.
        pictures: SVG documents by their headings.
        unit: Of the times.
        title: Of the page.
    """
    parts = [
        "<!DOCTYPE html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>',
        f"<style>{_STYLE}</style></head><body>",
    ]
    for heading, picture in pictures.items():
        parts.append(f"<h2>{html.escape(heading)}</h2><figure>{picture}</figure>")
    head = (
        "number",
        "what",
        "from",
        "to",
        "reads",
        "writes",
        "bytes",
        f"begins, {unit}",
        "after",
        "said at",
    )
    parts.append("<h2>Transfers</h2><table><tr>")
    parts += [f"<th>{html.escape(word)}</th>" for word in head]
    parts.append("</tr>")
    for each in plan.transfers[:_ROWS]:
        links = ", ".join(f'<a href="#t{number}">{number}</a>' for number in each.after)
        what = f"{each.kind}, {each.reduction}" if each.reduction else each.kind
        cells = (
            str(each.number),
            what,
            str(each.src_rank),
            str(each.dst_rank),
            each.source,
            each.target,
            str(each.nbytes),
            f"{spans[each.number].begin_us:.4g}",
        )
        parts.append(f'<tr id="t{each.number}">')
        parts += [f"<td>{html.escape(cell)}</td>" for cell in cells]
        parts.append(f"<td>{links}</td><td>{html.escape(each.place)}</td></tr>")
    parts.append("</table>")
    if len(plan.transfers) > _ROWS:
        parts.append(f"<p>… and {len(plan.transfers) - _ROWS} more.</p>")
    parts.append("</body></html>\n")
    return "\n".join(parts)
