"""What `syncopate show` makes of a plan: a picture, a page, or plain data."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from syncopate.errors import SyncopateError
from syncopate.model.fabric import Fabric, Wire
from syncopate.plan.plan_file import schedule_plan
from syncopate.show.page import write_page
from syncopate.show.picture import draw_schedule
from syncopate.show.plan_picture import draw_dependences, draw_ranks
from syncopate.show.plan_transfers import PlanTransfers, read_transfers
from syncopate.show.views import View
from syncopate.synthesis.clock import MoveSpan, run_clock

__all__ = ["PlanShow"]


class PlanShow:
    """A plan, read once, and what can be shown of it."""

    def __init__(
        self, text: str, options: str = "", *, file: str = "", fabric: Fabric | None = None
    ) -> None:
        """Reads a plan.

        Args:
            text: A module with one plan.
            options: Of the pipeline.
            file: Where the text comes from, for errors.
            fabric: The links that times are for. Without it all ranks are at one switch, and what the largest transfer
                takes is a step.

        Raises:
            SyncopateError: The plan is refused, or does not go with the fabric.
        """
        self.text, self.options, self.file = text, options, file
        self.plan = read_transfers(text, options, file=file)
        self.unit = "" if fabric is None else "µs"
        self.spans = _time(self.plan, fabric)
        self.title = f"{self.plan.name} on {self.plan.ranks} ranks"
        if fabric is not None:
            self.title += f", by the links of {fabric.name} alone"

    def draw(self, view: View) -> str:
        """An SVG document."""
        drawings: dict[View, Callable[[], str]] = {
            View.RANKS: lambda: draw_ranks(self.plan, self.spans, unit=self.unit, title=self.title),
            View.DEPENDENCES: lambda: draw_dependences(self.plan),
            View.SCHEDULE: self._draw_schedule,
        }
        return drawings[view]()

    def write_page(self) -> str:
        """A page of HTML with all pictures that there can be."""
        pictures = {"Ranks and time": self.draw(View.RANKS)}
        # Of too many transfers for a graph there is the table.
        with contextlib.suppress(SyncopateError):
            pictures["What comes after what"] = self.draw(View.DEPENDENCES)
        if self.plan.has_kernel:
            pictures["Schedule"] = self.draw(View.SCHEDULE)
        unit = self.unit or "steps"
        return write_page(self.plan, self.spans, pictures, unit=unit, title=self.title)

    def to_json(self) -> dict[str, Any]:
        """As plain data: transfers, each with its times."""
        data = self.plan.to_json()
        for transfer, span in zip(data["transfers"], self.spans, strict=True):
            transfer["begin"], transfer["end"] = span.begin_us, span.end_us
        return {"unit": self.unit or "steps", **data}

    def _draw_schedule(self) -> str:
        schedule = schedule_plan(self.text, self.options, file=self.file)
        return draw_schedule(schedule, title=f"{schedule.name} on {schedule.world_size} ranks")


def _time(plan: PlanTransfers, fabric: Fabric | None) -> tuple[MoveSpan, ...]:
    if fabric is None:
        if plan.ranks < 2:
            return tuple(MoveSpan(0.0, 0.0) for _ in plan.transfers)
        largest = max(
            (each.nbytes for each in plan.transfers if each.src_rank != each.dst_rank), default=1
        )
        rate = max(largest, 1) / 1e3
        ends = [f"rank {rank}" for rank in range(plan.ranks)]
        wires = [Wire(*pair, rate) for end in ends for pair in ((end, "switch"), ("switch", end))]
        fabric = Fabric("a switch", plan.ranks, tuple(wires))
    if fabric.ranks != plan.ranks:
        raise SyncopateError(
            f"fabric: expects {plan.ranks} ranks, those of plan {plan.name}, but got {fabric.ranks}"
        )
    hops = [
        None if each.src_rank == each.dst_rank else fabric.hop(each.src_rank, each.dst_rank, each)
        for each in plan.transfers
    ]
    sizes = [each.nbytes for each in plan.transfers]
    return run_clock(hops, sizes, [each.after for each in plan.transfers])
