"""Valid inputs that mutations start from."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from plan_passes import plan_passes

from syncopate.errors import PlanError
from syncopate.ir import new_context, parse, run_pipeline

__all__ = ["examples", "modules", "programs", "strip_comments"]

ROOT = Path(__file__).parent.parent.parent

LONGEST = 20_000


def strip_comments(text: str) -> str:
    """The text without lines that only comment, such as a test's RUN and CHECK lines."""
    lines = (re.sub(r"\s//.*$", "", line) for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.lstrip().startswith("//")) + "\n"


@functools.cache
def examples() -> tuple[str, ...]:
    """The plans in `examples/plans`."""
    paths = sorted((ROOT / "examples" / "plans").glob("*.mlir"))
    return tuple(strip_comments(path.read_text(encoding="utf-8")) for path in paths)


@functools.cache
def modules() -> tuple[str, ...]:
    """The valid modules in the lit tests and examples, in custom and generic form, and after every pass."""
    found: dict[str, None] = dict.fromkeys(examples())
    for path in sorted((ROOT / "test").rglob("*.mlir")):
        for part in path.read_text(encoding="utf-8").split("// -----"):
            text = strip_comments(part)
            if text.strip():
                found[text] = None
    valid: dict[str, None] = {}
    for text in found:
        derived = _derive(text)
        if derived:
            valid.update(dict.fromkeys(each for each in (text, *derived) if len(each) <= LONGEST))
    return tuple(valid)


def _derive(text: str) -> list[str]:
    try:
        module = parse(text, new_context())
    except PlanError:
        return []
    derived = []
    for stage in (None, *plan_passes()):
        if stage is not None:
            try:
                run_pipeline(module, stage)
            except PlanError:
                break
        for options in ({"print_generic_op_form": True}, {"enable_debug_info": stage is None}):
            derived.append(str(module.operation.get_asm(**options)))
    return derived


@functools.cache
def programs() -> dict[str, tuple[str, ...]]:
    """The stages of small compiled programs: `plan`, `input`, `lowered`, `fused`."""
    import syncopate
    from syncopate.kernels import GemmConfig, gemm, gemm_pointers
    from syncopate.kernels.bind import bind_gemm, bind_gemm_pointers

    config = GemmConfig(block_m=64, block_n=64, num_warps=4, num_ctas=2)
    stages: dict[str, list[str]] = {"plan": [], "input": [], "lowered": [], "fused": []}
    for realization, kernel, bind in (
        ("ldst_colocated", gemm, bind_gemm),
        ("copy_engine", gemm_pointers, bind_gemm_pointers),
    ):
        plan = syncopate.Plan("ag_gemm", [2])
        a = plan.buffer("a", (128, 128), "bf16", shard_axis=0)
        plan.all_gather(a)
        strategy = syncopate.Strategy(realization=realization)
        program = syncopate.compile(kernel, plan, **bind(a, 128, config), strategy=strategy)
        for name, texts in stages.items():
            texts.append(program.ir[name])
    return {name: tuple(texts) for name, texts in stages.items()}
