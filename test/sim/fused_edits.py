"""Edits of a fused kernel, by what its operations are and which device functions they come from."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sim_programs import with_fused

from syncopate.ir import new_context
from syncopate.mlir import ir

_PLACE = re.compile(r'"([^"]+)":(\d+)')


class DoesNotApply(Exception):
    """The program has nothing that the edit could change."""


Edit = Callable[["Fused"], None]


def kernel(*edits: Edit) -> Callable[[Any], Any]:
    """A fault that makes edits of the fused kernel, one after the other."""

    def apply(program: Any) -> Any:
        fused = Fused(program.ir["fused"])
        with fused.context, ir.Location.unknown():
            for edit in edits:
                edit(fused)
            return with_fused(program, fused.text())

    return apply


class Fused:
    """The module of a fused kernel while it is edited."""

    def __init__(self, text: str) -> None:
        self.context = new_context()
        self.context.allow_unregistered_dialects = True
        with self.context:
            self.module = ir.Module.parse(text)

    def text(self) -> str:
        """The module in the form in which it came."""
        operation = self.module.operation
        return operation.get_asm(enable_debug_info=True, print_generic_op_form=True)

    def find(
        self,
        name: str,
        *within: str,
        outside: str = "",
        innermost: str = "",
        where: Callable[[Any], bool] = lambda op: True,
    ) -> list[Any]:
        """The operations of a name; in each of the functions `within`, not in `outside`, and `where` holds.

        Args:
            name: Regular expression for the whole name.
            within: Functions whose inlined code they are, at any depth.
            outside: A function whose code they are not.
            innermost: The function that holds them itself.
            where: What else must hold.

        Raises:
            DoesNotApply: There are none.
        """
        found = []

        def visit(op: Any) -> ir.WalkResult:
            if re.fullmatch(name, op.name):
                chain = functions_of(op)
                if (
                    all(function in chain for function in within)
                    and outside not in chain
                    and (not innermost or chain[:1] == [innermost])
                    and where(op)
                ):
                    found.append(op.operation)
            return ir.WalkResult.ADVANCE

        self.module.operation.walk(visit)
        if not found:
            raise DoesNotApply(f"{name} in {within}")
        return found


def functions_of(op: Any) -> list[str]:
    """Names of the functions whose inlined code an operation is, innermost first."""
    return [_function_at(file, int(line)) for file, line in _PLACE.findall(str(op.location))]


def _function_at(file: str, line: int) -> str:
    names = [name for first, last, name in _functions(file) if first <= line <= last]
    return names[-1] if names else ""


@functools.cache
def _functions(file: str) -> list[tuple[int, int, str]]:
    path = Path(file)
    if not path.exists():
        return []
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return [(n.lineno, n.end_lineno or 0, n.name) for n in nodes if isinstance(n, ast.FunctionDef)]


# What edits are made of.


def constant(value: int, kind: str, before: Any) -> Any:
    """A constant in front of an operation; every element of a tensor is the number, or true."""
    if kind.startswith("tensor"):
        text = f"dense<{'true' if 'xi1' in kind else value}> : {kind}"
    else:
        text = ("true" if value else "false") if kind == "i1" else f"{value} : {kind}"
    attribute = ir.Attribute.parse(text)
    op = ir.Operation.create(
        "arith.constant",
        results=[ir.Type.parse(kind)],
        attributes={"value": attribute},
        ip=ir.InsertionPoint(before),
    )
    return op.results[0]


def plus(value: Any, number: int, before: Any) -> Any:
    """A value plus a number, computed in front of an operation."""
    return arith("addi", value, constant(number, str(value.type), before), before)


def arith(name: str, left: Any, right: Any, before: Any) -> Any:
    """A sum or product in front of an operation."""
    flags = ir.Attribute.parse("#arith.overflow<none>")
    op = ir.Operation.create(
        f"arith.{name}",
        results=[left.type],
        operands=[left, right],
        attributes={"overflowFlags": flags} if name in ("addi", "muli", "subi") else {},
        ip=ir.InsertionPoint(before),
    )
    return op.results[0]


def remove(op: Any) -> None:
    """Takes an operation out; a number that it gave is 0 from then on."""
    for result in op.results:
        result.replace_all_uses_with(constant(0, str(result.type), op))
    op.erase()


def bypass(op: Any) -> None:
    """Takes an operation out whose results are its first operands, and which only waits for them."""
    for result, operand in zip(op.results, op.operands, strict=False):
        result.replace_all_uses_with(operand)
    op.erase()


def set_integer(op: Any, name: str, value: int) -> None:
    """Changes an integer attribute."""
    op.attributes[name] = ir.IntegerAttr.get(op.attributes[name].type, value)


def integer(op: Any, name: str) -> int:
    """The value of an integer attribute."""
    return int(op.attributes[name].value)


def producer(value: Any) -> Any:
    """The operation that gives a value, or None for an argument of a block."""
    return None if isinstance(value, ir.BlockArgument) else value.owner


def users(op: Any) -> list[Any]:
    """The operations that use any result."""
    return [use.owner for result in op.results for use in result.uses]


def operations(op: Any, region: int = 0) -> Iterator[Any]:
    """The operations of the first block of a region."""
    for inner in op.regions[region].blocks[0].operations:
        yield inner.operation


def contains(op: Any, name: str) -> bool:
    """Whether an operation of a name is inside."""
    found = []

    def visit(inner: Any) -> ir.WalkResult:
        found.append(inner.name == name)
        return ir.WalkResult.ADVANCE

    op.walk(visit)
    return any(found)


def after(op: Any) -> list[Any]:
    """The operations behind one in its block."""
    block = list(op.operation.block.operations)
    at = next(i for i, other in enumerate(block) if other.operation == op.operation)
    return [other.operation for other in block[at + 1 :]]


def block_of(op: Any) -> list[Any]:
    """The operations of the block that an operation is in."""
    return [other.operation for other in op.operation.block.operations]


def move_up(op: Any, before: Any) -> None:
    """Moves an operation, and what it needs, in front of another of the same block."""
    for value in op.operands:
        made = producer(value)
        if (
            made is not None
            and made.operation.block == before.block
            and block_of(before).index(made.operation) > block_of(before).index(before)
        ):
            move_up(made.operation, before)
    op.operation.move_before(before)


# Edits that several faults make.


def drop(name: str, *within: str, **options: Any) -> Edit:
    """Removes operations."""

    def edit(fused: Fused) -> None:
        for op in fused.find(name, *within, **options):
            remove(op)

    return edit


def change(name: str, attribute: str, value: Any, *within: str, **options: Any) -> Edit:
    """Sets an integer attribute, to a number or to a function of what it was."""

    def edit(fused: Fused) -> None:
        for op in fused.find(name, *within, **options):
            old = integer(op, attribute)
            set_integer(op, attribute, value(old) if callable(value) else value)

    return edit


def never(name: str, *within: str, **options: Any) -> Edit:
    """Makes the condition of branches false."""
    return decide(name, False, *within, **options)


def decide(name: str, outcome: bool, *within: str, **options: Any) -> Edit:
    """Makes the condition of branches what it is given."""

    def edit(fused: Fused) -> None:
        for op in fused.find(name, *within, **options):
            op.operands[0] = constant(outcome, "i1", op)

    return edit


def pin(name: str, operand: int, value: int, *within: str, **options: Any) -> Edit:
    """Makes an operand a constant."""

    def edit(fused: Fused) -> None:
        for op in fused.find(name, *within, **options):
            op.operands[operand] = constant(value, str(op.operands[operand].type), op)

    return edit


def shift(name: str, operand: int, by: int, *within: str, **options: Any) -> Edit:
    """Adds a number to an operand."""

    def edit(fused: Fused) -> None:
        for op in fused.find(name, *within, **options):
            op.operands[operand] = plus(op.operands[operand], by, op)

    return edit


def move_after(name: str, anchor: str, *within: str) -> Edit:
    """Operations change places with the next one of another name in their block."""

    def edit(fused: Fused) -> None:
        moved = 0
        for op in fused.find(name, *within):
            later = [other for other in after(op) if other.name == anchor]
            if later:
                op.move_after(later[0])
                moved += 1
        if not moved:
            raise DoesNotApply(f"{name} before {anchor}")

    return edit


def move_before(name: str, anchor: str, *within: str) -> Edit:
    """Operations go in front of the last one of another name before them."""

    def edit(fused: Fused) -> None:
        moved = 0
        for op in fused.find(name, *within):
            block = block_of(op)
            at = block.index(op)
            earlier = [other for other in block[:at] if other.name == anchor]
            if earlier:
                op.move_before(earlier[-1])
                moved += 1
        if not moved:
            raise DoesNotApply(f"{name} after {anchor}")

    return edit
