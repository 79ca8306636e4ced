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
    from syncopate.importers.beside import Gemm
    from syncopate.importers.domino import split_all_reduce
    from syncopate.importers.emit import Imported, emit_plan
    from syncopate.importers.exchange import Exchange
    from syncopate.importers.formats import (
        export_plan,
        import_plan,
        read_exchanges,
        read_steps,
    )
    from syncopate.importers.items import Place
    from syncopate.importers.layouts import Layout, alpa_layout, dtensor_layout, gspmd_layout
    from syncopate.importers.proof import prove
    from syncopate.importers.resharding import reshard
    from syncopate.importers.steps import Cells, Collective, CollectiveSteps, Memory, Move

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
    **dict.fromkeys(("Imported", "emit_plan"), "emit"),
    "Exchange": "exchange",
    "Gemm": "beside",
    **dict.fromkeys(("export_plan", "import_plan", "read_exchanges", "read_steps"), "formats"),
    **dict.fromkeys(("Layout", "alpa_layout", "dtensor_layout", "gspmd_layout"), "layouts"),
    "Place": "items",
    "prove": "proof",
    "reshard": "resharding",
    "split_all_reduce": "domino",
    **dict.fromkeys(("Cells", "Collective", "Memory", "Move", "CollectiveSteps"), "steps"),
}


def __getattr__(name: str) -> Any:
    import importlib

    if name in _HOMES:
        return getattr(importlib.import_module(f"syncopate.importers.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'syncopate.importers' has no attribute {name!r}")
