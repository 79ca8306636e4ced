"""What the static checks say of tables that were edited."""

from __future__ import annotations

from typing import Any

from syncopate.errors import PlanError
from syncopate.ir import new_context, parse, run_pipeline
from syncopate.mlir import ir
from syncopate.mlir.dialects import chunk

__all__ = ["TABLE_CHECK", "refuse_tables"]

TABLE_CHECK = "chunk-check-tables"
"""The pass that looks at tables."""


def refuse_tables(program: Any, check: str = TABLE_CHECK) -> str:
    """What a pass alone says of a program's plan with the tables that it has now; nothing if it accepts them."""
    module = parse(program.ir["lowered"], new_context())
    with module.context:
        (plan,) = (op for op in module.body.operations if isinstance(op, chunk.PlanOp))
        for op in plan.regions[0].blocks[0].operations:
            if isinstance(op, chunk.ScheduleOp):
                for name, table in program.rank_tables(op.attributes["rank"].value).items():
                    rows = ", ".join(str(row) for row in table.values.tolist())
                    text = f"{', '.join(table.columns)}{' : ' if rows else ''}{rows}"
                    op.attributes[name] = ir.Attribute.parse(f"#chunk.table<{text}>")
    try:
        run_pipeline(module, f"chunk.plan({check})")
    except PlanError as error:
        return str(error)
    return ""
