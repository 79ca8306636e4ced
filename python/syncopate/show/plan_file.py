"""The schedule of a plan in `.mlir`: what the passes make of it, without a kernel or a GPU."""

from __future__ import annotations

from syncopate.errors import PlanError
from syncopate.ir import new_context, parse, run_pipeline
from syncopate.mlir import ir
from syncopate.mlir.dialects import chunk
from syncopate.plan.schedule import Schedule, read_schedule


def schedule_plan(text: str, options: str = "") -> Schedule:
    """Runs `syncopate-plan-pipeline` on a module with one plan and one kernel binding.

    Args:
      text: the module; footprints stand in it.
      options: of the pipeline, such as `splits=2 realization=copy_engine`.

    Raises:
      PlanError: the module is malformed, a pass refuses it, or it has no kernel.
    """
    module = _lower(text, options)
    plans = [op for op in module.body.operations if isinstance(op, chunk.PlanOp)]
    if len(plans) != 1:
        raise PlanError(f"expects a module with one chunk.plan, but got {len(plans)}")
    return read_schedule(plans[0])


def lower_plan(text: str, options: str = "") -> str:
    """The module after `syncopate-plan-pipeline`, as `syncopate-opt` prints it; otherwise like `schedule_plan`."""
    return str(_lower(text, options))


def _lower(text: str, options: str) -> ir.Module:
    module = parse(text, new_context())
    run_pipeline(module, f"syncopate-plan-pipeline{{{options}}}")
    return module
