"""The passes that the pipelines consist of, as the pass manager knows them."""

from __future__ import annotations

import functools
import re

from syncopate.ir import new_context
from syncopate.mlir.passmanager import PassManager

__all__ = ["plan_passes"]


@functools.cache
def plan_passes() -> tuple[str, ...]:
    """Every pass of `syncopate-plan-pipeline` as it is run alone, in order."""
    with new_context():
        text = str(PassManager.parse("builtin.module(syncopate-plan-pipeline)"))
    passes, anchor = [], ""
    for opens, name in re.findall(r"(chunk\.plan\()|(chunk-[\w-]+)|\)", text):
        if opens:
            anchor = opens
        elif name:
            passes.append(f"{anchor}{name}" + (")" if anchor else ""))
        else:
            anchor = ""
    return tuple(passes)
