"""Turns a TritonGPU function into Python: one generator for the kernel and one for each warp-specialized partition.

Every operation becomes one line, control flow becomes Python's own, and an SSA value a local variable. The generated
code yields before each operation that touches what others can see, and where it has to wait. `Kernel.sites` leads
from a line back to its operation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from syncopate.errors import PlanError
from syncopate.ir import new_context, parse
from syncopate.mlir import ir
from syncopate.sim import runtime_library
from syncopate.sim.findings import SimulationError
from syncopate.sim.values import Element, element, parse_shaped

__all__ = ["Kernel", "Translator", "translate"]

# What emitters run into where an operation is not as Triton writes it.
_UNKNOWN_FORM = (
    AttributeError,
    LookupError,
    NotImplementedError,
    OverflowError,
    TypeError,
    ValueError,
)
_LOCATION = re.compile(r'"([^"]+)":(\d+)')


@dataclass(frozen=True)
class Kernel:
    """A kernel as Python.

    Attributes:
        entry: The generator function; it takes the role and the function's arguments.
        argument_types: MLIR types of the arguments, as text.
        source: The generated code.
        sites: The operation of each line; what it was made from, by line number.
        roles: How many roles a CTA has at most.
        module: Keeps the operations alive.
    """

    entry: Callable[..., Any]
    argument_types: tuple[str, ...]
    source: str
    sites: dict[int, Any]
    roles: int
    module: Any

    @property
    def has_tma(self) -> bool:
        """Whether descriptors are passed as such."""
        return any(kind.startswith("!tt.tensordesc") for kind in self.argument_types)

    def describe(self, site: int) -> tuple[str, str]:
        """Text and location of the operation at a line."""
        op = self.sites.get(site)
        if op is None:
            return "", ""
        return first_line(op), place_of(op)


def first_line(op: Any) -> str:
    """The operation without its regions."""
    text = str(op).split("\n", 1)[0]
    return text if len(text) < 400 else text[:400] + " …"


def place_of(op: Any) -> str:
    """File and line that an operation comes from, innermost call first."""
    places = _LOCATION.findall(str(op.location))
    return ", from ".join(f"{file}:{line}" for file, line in places[:3]) or str(op.location)


def translate(text: str) -> Kernel:
    """Translates a module of one function, in generic form.

    Raises:
        SimulationError: It holds an operation that the simulator does not know.
    """
    context = new_context()
    context.allow_unregistered_dialects = True
    try:
        module = parse(text, context)
    except PlanError as error:
        raise SimulationError(f"the fused kernel is malformed: {error}") from None
    # How Triton 3.6 and its like spell the types of descriptors.
    return Translator(module, old_store_wait="tensordesc<tensor<" in text).run()


def _only_block(region: Any) -> Any:
    if len(region.blocks) != 1:
        raise SimulationError(
            f"the simulator expects one block in a function, but got {len(region.blocks)}"
        )
    return region.blocks[0]


class Translator:
    """Writes the code. Emitters, registered by operation name, get the translator and the operation."""

    emitters: ClassVar[dict[str, Callable[[Translator, Any], None]]] = {}

    def __init__(self, module: Any, *, old_store_wait: bool) -> None:
        from syncopate.sim import ops_async, ops_control, ops_scalar, ops_tensor  # noqa: F401

        self.module = module
        self._lines: list[str] = []
        self._indent = 0
        self._names: dict[Any, str] = {}
        self._sites: dict[int, Any] = {}
        self._op: Any = None
        self._functions: list[tuple[str, Any]] = []
        self.constants: dict[str, Any] = {}
        self.roles = 1
        self.targets: list[Any] = []
        self.partitions: list[str] = []
        self.combining = False
        self.old_store_wait = old_store_wait

    def run(self) -> Kernel:
        """Translates the module."""
        functions = [
            op.operation for op in self.module.body.operations if op.operation.name == "tt.func"
        ]
        if len(functions) != 1:
            raise SimulationError(f"expects one tt.func, but got {len(functions)}")
        entry = _only_block(functions[0].regions[0])
        arguments = [self.define(value) for value in entry.arguments]
        self.write(f"def kernel({', '.join(['a', *arguments])}):")
        self.body(entry)
        while self._functions:
            name, region = self._functions.pop(0)
            block = _only_block(region)
            captures = [self.define(value) for value in block.arguments]
            self.write(f"def {name}({', '.join(['a', *captures])}):")
            self.body(block)
        source = "\n".join(self._lines) + "\n"
        names = {**vars(runtime_library), **self.constants}
        try:
            exec(compile(source, "<fused kernel>", "exec"), names)
        except SyntaxError as error:
            raise SimulationError(
                f"the simulator cannot make Python of the fused kernel ({error.msg}): {error.text}"
            ) from error
        return Kernel(
            names["kernel"],
            tuple(str(value.type) for value in entry.arguments),
            source,
            self._sites,
            self.roles,
            self.module,
        )

    # Writing.

    def write(self, line: str) -> None:
        """Adds a line for the current operation."""
        self._lines.append(" " * self._indent + line)
        if self._op is not None:
            self._sites[len(self._lines)] = self._op

    def body(self, block: Any, *, generator: bool = True) -> None:
        """Writes a function's body."""
        self._indent += 1
        self.operations(block)
        if generator:
            self.write("if False: yield")
        self._indent -= 1

    def indented(self) -> _Indented:
        """A context in which lines are indented once more."""
        return _Indented(self)

    def operations(self, block: Any) -> None:
        """Writes the operations of a block; at least one line."""
        before = len(self._lines)
        for op in block.operations:
            operation = op.operation
            emit = self.emitters.get(operation.name)
            outer, self._op = self._op, operation
            if emit is None:
                raise SimulationError(
                    f"the simulator does not know operation {operation.name}:\n  {first_line(operation)}\n"
                    f"  at {place_of(operation)}"
                )
            try:
                emit(self, operation)
            except _UNKNOWN_FORM as error:
                raise SimulationError(
                    f"the simulator does not know this form of {operation.name} ({error}):\n"
                    f"  {first_line(operation)}\n  at {place_of(operation)}"
                ) from error
            self._op = outer
        if len(self._lines) == before:
            self.write("pass")

    def function(self, name: str, region: Any) -> None:
        """Has a region written as a function of its own, later."""
        self._functions.append((name, region))

    # Values.

    def define(self, value: Any) -> str:
        """Names a new value."""
        name = self._names[value] = f"v{len(self._names)}"
        return name

    def use(self, value: Any) -> str:
        """The name of a value."""
        return self._names[value]

    def uses(self, values: Any) -> list[str]:
        """The names of values."""
        return [self._names[value] for value in values]

    def operand(self, op: Any, index: int) -> str:
        """The name of an operand."""
        return self._names[op.operands[index]]

    def result(self, op: Any, expression: str) -> None:
        """Defines the only result."""
        expression = f"{self.define(op.results[0])} = {expression}"
        self.write(expression)

    def constant(self, value: Any) -> str:
        """The name of an object that the generated code uses."""
        name = f"k{len(self.constants)}"
        self.constants[name] = value
        return name

    # Types.

    def is_tensor(self, value: Any) -> bool:
        """Whether a value is a tensor here; in what a reduction combines, every scalar is one."""
        return self.combining or isinstance(value.type, ir.RankedTensorType)

    def element(self, value: Any) -> Element:
        """Element type of a tensor, or the type of a scalar."""
        kind = value.type
        if isinstance(kind, ir.RankedTensorType):
            kind = kind.element_type
        return element(str(kind))

    def shaped(self, value: Any) -> tuple[tuple[int, ...], Element]:
        """Shape and element type of a tensor, memdesc or descriptor."""
        return parse_shaped(str(value.type))

    def pointee(self, value: Any) -> Element:
        """What a pointer, or a tensor of pointers, points to."""
        match = re.search(r"!tt\.ptr<([^,>]+)", str(value.type))
        if match is None:
            raise KeyError(str(value.type))
        return element(match[1])


class _Indented:
    def __init__(self, translator: Translator) -> None:
        self._translator = translator

    def __enter__(self) -> None:
        self._translator._indent += 1

    def __exit__(self, *_: object) -> None:
        self._translator._indent -= 1


Emitter = Callable[[Translator, Any], None]


def emits(*names: str) -> Callable[[Emitter], Emitter]:
    """Registers an emitter for operations."""

    def register(emit: Emitter) -> Emitter:
        for name in names:
            Translator.emitters[name] = emit
        return emit

    return register


def attribute(op: Any, name: str, default: Any = None) -> Any:
    """Value of an integer, string or array attribute."""
    if name not in op.attributes:
        return default
    found = op.attributes[name]
    if isinstance(found, ir.UnitAttr):
        return True
    if isinstance(found, (ir.DenseI32ArrayAttr, ir.DenseI64ArrayAttr)):
        return list(found)
    return found.value


def segments(op: Any) -> Iterator[list[Any]]:
    """The operands, cut by operandSegmentSizes."""
    first = 0
    for size in attribute(op, "operandSegmentSizes"):
        yield [op.operands[i] for i in range(first, first + size)]
        first += size
