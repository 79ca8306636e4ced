"""Emitters of structured control flow and of warp specialization."""

from __future__ import annotations

from typing import Any

from syncopate.sim.translate import Translator, emits


def _assign(t: Translator, targets: list[str], values: list[str]) -> None:
    if targets:
        t.write(f"{', '.join(targets)} = {', '.join(values)}")


@emits("scf.for")
def _for(t: Translator, op: Any) -> None:
    lower, upper, step, *initial = t.uses(op.operands)
    block = op.regions[0].blocks[0]
    index, *carried = [t.define(value) for value in block.arguments]
    _assign(t, carried, initial)
    t.write(f"for {index} in range({lower}, {upper}, {step}):")
    with t.indented():
        _push(t, carried)
        t.operations(block)
        t.targets.pop()
    _assign(t, [t.define(value) for value in op.results], carried)


@emits("scf.if")
def _if(t: Translator, op: Any) -> None:
    results = [t.define(value) for value in op.results]
    t.write(f"if {t.operand(op, 0)}:")
    _push(t, results)
    with t.indented():
        t.operations(op.regions[0].blocks[0])
    if len(op.regions) > 1 and len(op.regions[1].blocks):
        t.write("else:")
        with t.indented():
            t.operations(op.regions[1].blocks[0])
    t.targets.pop()


@emits("scf.while")
def _while(t: Translator, op: Any) -> None:
    before, after = (region.blocks[0] for region in op.regions)
    carried = [t.define(value) for value in before.arguments]
    _assign(t, carried, t.uses(op.operands))
    results = [t.define(value) for value in op.results]
    passed = [t.define(value) for value in after.arguments]
    t.write("while True:")
    with t.indented():
        # Somebody else may have to run for the loop to end.
        t.write("yield")
        _push(t, (results, passed))
        t.operations(before)
        t.targets.pop()
        _push(t, carried)
        t.operations(after)
        t.targets.pop()


@emits("scf.condition")
def _condition(t: Translator, op: Any) -> None:
    condition, *values = t.uses(op.operands)
    results, passed = t.targets[-1]
    t.write(f"if not {condition}:")
    with t.indented():
        _assign(t, results, values)
        t.write("break")
    _assign(t, passed, values)


@emits("scf.yield")
def _yield(t: Translator, op: Any) -> None:
    _assign(t, t.targets[-1], t.uses(op.operands))


@emits("scf.execute_region")
def _execute(t: Translator, op: Any) -> None:
    if len(op.regions[0].blocks) != 1:
        raise NotImplementedError("several blocks")
    _push(t, [t.define(value) for value in op.results])
    t.operations(op.regions[0].blocks[0])
    t.targets.pop()


@emits("tt.return")
def _return(t: Translator, op: Any) -> None:
    if len(op.operands):
        raise NotImplementedError("a function that returns values")


def _push(t: Translator, targets: Any) -> None:
    t.targets.append(targets)


@emits("ttg.warp_specialize")
def _warp_specialize(t: Translator, op: Any) -> None:
    default, holder = op.regions
    (partitions,) = [
        inner.operation
        for inner in holder.blocks[0].operations
        if inner.operation.name == "ttg.warp_specialize.partitions"
    ]
    # Captures are operands of the operation up to Triton 3.8 or so, and of the inner one since.
    captures = t.uses(op.operands) or t.uses(partitions.operands)
    names = []
    for region in partitions.regions:
        names.append(f"partition{len(t.partitions)}")
        t.partitions.append(names[-1])
        t.function(names[-1], region)
    t.roles = max(t.roles, 1 + len(names))
    roles = f"roles{len(t.partitions)}"
    t.write("yield")
    t.write(f"{roles} = a.fork([{', '.join(names)}], [{', '.join(captures)}])")
    _push(t, [t.define(value) for value in op.results])
    t.operations(default.blocks[0])
    t.targets.pop()
    t.write(f"yield from a.wait_for({roles})")


@emits("ttg.warp_yield")
def _warp_yield(t: Translator, op: Any) -> None:
    _assign(t, t.targets[-1], t.uses(op.operands))


@emits("ttg.warp_return")
def _warp_return(t: Translator, op: Any) -> None:
    t.write("pass")
