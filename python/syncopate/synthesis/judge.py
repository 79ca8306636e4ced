"""What the cost model says of a schedule: its tables simulated, as those of any program."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from syncopate.importers.steps.collective_steps import CollectiveSteps
from syncopate.importers.steps.emit import emit_plan
from syncopate.model import KernelCost, Machine, predict
from syncopate.plan.plan_file import schedule_plan

__all__ = ["judge_by_model", "predict_plan_us"]

_TILE_US = 0.1
"""What a tile of the kernel takes that only reads; the transfers are what is asked for."""


def predict_plan_us(text: str, machine: Machine, options: str = "") -> float:
    """Microseconds until tiles that do next to nothing have seen all that a plan brings.

    Args:
        text: A module with one plan, and a kernel without code.
        machine: What it runs on.
        options: Of the pipeline, such as realization=copy_engine.

    Raises:
        SyncopateError: The plan is refused, or the machine lacks a curve.
    """
    return predict(schedule_plan(text, options), KernelCost(_TILE_US), machine).us


def judge_by_model(
    machine: Machine, shape: Sequence[int], dtype: str, realization: str
) -> Callable[[CollectiveSteps], float]:
    """A judge for `synthesize`: schedules are compared by the model's simulation of their tables.

    It knows what the clock does not: that roles carry their transfers out in order, what each realization reaches, and
    what sums take.

    Args:
        machine: What the plan runs on.
        shape: Of what is gathered, reduced, exchanged or broadcast.
        dtype: Element type as MLIR spells it.
        realization: How transfers are carried out.
    """

    def judge(steps: CollectiveSteps) -> float:
        text = emit_plan(steps, shape, dtype, kernel=True).plan.text
        return predict_plan_us(text, machine, f"realization={realization} splits=1")

    return judge
