"""Plans from other systems, and for them: algorithms of MSCCL, MSCCL++ and TACCL, programs of XLA, layouts, rings.

    from syncopate.importers import import_plan

    imported = import_plan("ring.xml", "msccl-xml", shape=(8192, 4096), dtype="bf16")
    program = syncopate.compile(gemm, imported.plan, **bind_gemm(imported.result, 3584, config))

docs/importers.md says what of a format becomes what of a plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncopate.importers.names import Format, Source

if TYPE_CHECKING:
    from syncopate.importers.documents.items import Place
    from syncopate.importers.domino import split_all_reduce
    from syncopate.importers.files import (
        export_plan,
        import_plan,
        read_exchanges,
        read_steps,
    )
    from syncopate.importers.imported import Gemm, Imported
    from syncopate.importers.layouts.exchange import Exchange
    from syncopate.importers.layouts.layout import Layout, alpa_layout, dtensor_layout, gspmd_layout
    from syncopate.importers.layouts.resharding import reshard
    from syncopate.importers.steps.collective_steps import (
        Cells,
        Collective,
        CollectiveSteps,
        Memory,
        Move,
    )
    from syncopate.importers.steps.emit import emit_plan
    from syncopate.importers.steps.proof import prove

__all__ = [
    "Cells",
    "Collective",
    "CollectiveSteps",
    "Exchange",
    "Format",
    "Gemm",
    "Imported",
    "Layout",
    "Memory",
    "Move",
    "Place",
    "Source",
    "alpa_layout",
    "dtensor_layout",
    "emit_plan",
    "export_plan",
    "gspmd_layout",
    "import_plan",
    "prove",
    "read_exchanges",
    "read_steps",
    "reshard",
    "split_all_reduce",
]

# Loaded when first used: plans bring in MLIR.
_HOMES = {
    "Place": "documents.items",
    "split_all_reduce": "domino",
    **dict.fromkeys(("export_plan", "import_plan", "read_exchanges", "read_steps"), "files"),
    **dict.fromkeys(("Gemm", "Imported"), "imported"),
    "Exchange": "layouts.exchange",
    **dict.fromkeys(("Layout", "alpa_layout", "dtensor_layout", "gspmd_layout"), "layouts.layout"),
    "reshard": "layouts.resharding",
    **dict.fromkeys(
        ("Cells", "Collective", "Memory", "Move", "CollectiveSteps"), "steps.collective_steps"
    ),
    "emit_plan": "steps.emit",
    "prove": "steps.proof",
}


def __getattr__(name: str) -> Any:
    import importlib

    if name in _HOMES:
        return getattr(importlib.import_module(f"syncopate.importers.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'syncopate.importers' has no attribute {name!r}")
