"""Emitters of arith and math, on scalars and tensors alike."""

from __future__ import annotations

from typing import Any

from syncopate.mlir import ir
from syncopate.sim.translate import Translator, attribute, emits

_PREDICATES = {
    0: "==", 1: "!=", 2: "<", 3: "<=", 4: ">", 5: ">=", 6: "<", 7: "<=", 8: ">", 9: ">=",
}  # fmt: skip


def _wrapped(t: Translator, op: Any, expression: str) -> None:
    """Defines an integer result, wrapped to its width."""
    value = op.results[0]
    kind = t.element(value)
    if t.is_tensor(value):
        t.result(op, expression if kind.name != "i1" else f"({expression}).astype(np.bool_)")
    elif kind.name == "i32":
        t.result(op, f"(({expression}) + 0x80000000 & 0xFFFFFFFF) - 0x80000000")
    elif kind.name == "i64":
        t.result(op, f"w64({expression})")
    elif kind.name == "i1":
        t.result(op, f"bool(({expression}) & 1)")
    else:
        t.result(op, f"wrap({expression}, {8 * kind.nbytes})")


def _width(t: Translator, value: Any) -> int:
    kind = t.element(value)
    return 1 if kind.name == "i1" else 8 * kind.nbytes


@emits("arith.constant")
def _constant(t: Translator, op: Any) -> None:
    value, kind = op.attributes["value"], t.element(op.results[0])
    if isinstance(value, ir.DenseElementsAttr):
        shape, _ = t.shaped(op.results[0])
        if not value.is_splat:
            raise NotImplementedError("a dense constant that is no splat")
        t.result(
            op, f"full({shape}, {_literal(t, value.get_splat_value(), kind)}, {t.constant(kind)})"
        )
    else:
        t.result(op, _literal(t, value, kind))


def _literal(t: Translator, value: Any, kind: Any) -> str:
    number = value.value
    if kind.name == "i1":
        return str(bool(number))
    if kind.is_float:
        return t.constant(float(number))
    return str(int(number))


@emits("arith.addi", "arith.subi", "arith.muli")
def _arithmetic(t: Translator, op: Any) -> None:
    sign = {"addi": "+", "subi": "-", "muli": "*"}[op.name.split(".")[1]]
    _wrapped(t, op, f"{t.operand(op, 0)} {sign} {t.operand(op, 1)}")


@emits("arith.andi", "arith.ori", "arith.xori")
def _logic(t: Translator, op: Any) -> None:
    sign = {"andi": "&", "ori": "|", "xori": "^"}[op.name.split(".")[1]]
    t.result(op, f"{t.operand(op, 0)} {sign} {t.operand(op, 1)}")


@emits("arith.divsi", "arith.remsi", "arith.ceildivsi", "arith.floordivsi")
def _divide(t: Translator, op: Any) -> None:
    name = {"divsi": "divs", "remsi": "rems", "ceildivsi": "ceildivs", "floordivsi": "floordivs"}
    _wrapped(t, op, f"{name[op.name.split('.')[1]]}({t.operand(op, 0)}, {t.operand(op, 1)})")


@emits("arith.divui", "arith.remui", "arith.ceildivui")
def _divide_unsigned(t: Translator, op: Any) -> None:
    width = _width(t, op.results[0])
    name = {"divui": "divs", "remui": "rems", "ceildivui": "ceildivs"}[op.name.split(".")[1]]
    a, b = (f"unsigned({t.operand(op, i)}, {width})" for i in (0, 1))
    t.result(op, f"signed({name}({a}, {b}), {width})")


@emits("arith.minsi", "arith.maxsi", "arith.minui", "arith.maxui")
def _extremum(t: Translator, op: Any) -> None:
    name = op.name.split(".")[1]
    a, b = t.operand(op, 0), t.operand(op, 1)
    width = _width(t, op.results[0])
    if name.endswith("ui"):
        a, b = f"unsigned({a}, {width})", f"unsigned({b}, {width})"
    if t.is_tensor(op.results[0]):
        call = f"np.{'minimum' if name.startswith('min') else 'maximum'}({a}, {b})"
    else:
        call = f"{name[:3]}({a}, {b})"
    t.result(op, f"signed({call}, {width})" if name.endswith("ui") else call)


@emits("arith.shli", "arith.shrsi", "arith.shrui")
def _shift(t: Translator, op: Any) -> None:
    a, b, width = t.operand(op, 0), t.operand(op, 1), _width(t, op.results[0])
    if op.name == "arith.shrui":
        t.result(op, f"signed(unsigned({a}, {width}) >> unsigned({b}, {width}), {width})")
    elif op.name == "arith.shrsi":
        t.result(op, f"{a} >> {b}")
    else:
        _wrapped(t, op, f"{a} << {b}")


@emits("arith.cmpi")
def _compare(t: Translator, op: Any) -> None:
    predicate = attribute(op, "predicate")
    a, b = t.operand(op, 0), t.operand(op, 1)
    if predicate >= 6:
        width = _width(t, op.operands[0])
        a, b = f"unsigned({a}, {width})", f"unsigned({b}, {width})"
    t.result(op, f"{a} {_PREDICATES[predicate]} {b}")


@emits("arith.cmpf")
def _compare_floats(t: Translator, op: Any) -> None:
    predicate = attribute(op, "predicate")
    a, b = t.operand(op, 0), t.operand(op, 1)
    unordered = f"(({a} != {a}) | ({b} != {b}))"
    signs = {
        1: "==",
        2: ">",
        3: ">=",
        4: "<",
        5: "<=",
        8: "==",
        9: ">",
        10: ">=",
        11: "<",
        12: "<=",
    }
    if predicate in signs:
        plain = f"({a} {signs[predicate]} {b})"
        t.result(op, plain if predicate < 8 else f"{plain} | {unordered}")
    elif predicate == 6:
        t.result(op, f"({a} < {b}) | ({a} > {b})")
    elif predicate == 13:
        t.result(op, f"{a} != {b}")
    elif predicate == 7:
        t.result(op, f"({a} == {a}) & ({b} == {b})")
    elif predicate == 14:
        t.result(op, unordered)
    else:
        raise NotImplementedError(f"predicate {predicate}")


@emits("arith.select")
def _select(t: Translator, op: Any) -> None:
    condition, a, b = t.uses(op.operands)
    if t.is_tensor(op.operands[0]):
        t.result(op, f"np.where({condition}, {a}, {b})")
    else:
        t.result(op, f"{a} if {condition} else {b}")


@emits("arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast")
def _convert_integer(t: Translator, op: Any) -> None:
    source, target = t.operand(op, 0), op.results[0]
    from_width, to = _width(t, op.operands[0]), t.element(target)
    if t.is_tensor(target):
        if op.name == "arith.extsi" and from_width == 1:
            t.result(op, f"-{source}.astype({t.constant(to.value)})")
        elif op.name == "arith.extui":
            t.result(op, f"unsigned({source}, 0).astype({t.constant(to.value)})")
        elif to.name == "i1":
            t.result(op, f"({source} & 1).astype(np.bool_)")
        else:
            t.result(op, f"{source}.astype({t.constant(to.value)})")
    elif op.name == "arith.extui":
        t.result(op, f"unsigned({source}, {from_width})")
    elif op.name == "arith.extsi":
        t.result(op, f"-int({source})" if from_width == 1 else source)
    else:
        _wrapped(t, op, source)


@emits("arith.addf", "arith.subf", "arith.mulf", "arith.divf", "tt.precise_divf", "tt.approx_divf")
def _float_arithmetic(t: Translator, op: Any) -> None:
    sign = {
        "addf": "+",
        "subf": "-",
        "mulf": "*",
        "divf": "/",
        "precise_divf": "/",
        "approx_divf": "/",
    }
    a, b = (_registers(t, op, i) for i in (0, 1))
    _rounded(t, op, f"{a} {sign[op.name.split('.')[1]]} {b}")


def _registers(t: Translator, op: Any, index: int) -> str:
    """A floating-point tensor operand, which must not be in flight."""
    name = t.operand(op, index)
    return f"a.registers({name})" if t.is_tensor(op.operands[index]) else name


def _rounded(t: Translator, op: Any, expression: str) -> None:
    kind = t.element(op.results[0])
    if t.is_tensor(op.results[0]) and kind.name in ("f16", "f32", "f64"):
        t.result(op, f"({expression}).astype({t.constant(kind.value)}, copy=False)")
    else:
        t.result(op, f"rounded({expression}, {kind.name!r})")


@emits("arith.maximumf", "arith.maxnumf", "arith.minimumf", "arith.minnumf")
def _float_extremum(t: Translator, op: Any) -> None:
    names = {"maximumf": "maximum", "maxnumf": "fmax", "minimumf": "minimum", "minnumf": "fmin"}
    a, b = (_registers(t, op, i) for i in (0, 1))
    call = f"np.{names[op.name.split('.')[1]]}({a}, {b})"
    t.result(op, call if t.is_tensor(op.results[0]) else f"float({call})")


@emits("arith.negf")
def _negate(t: Translator, op: Any) -> None:
    t.result(op, f"-{_registers(t, op, 0)}")


@emits("arith.truncf", "arith.extf", "tt.fp_to_fp")
def _convert_float(t: Translator, op: Any) -> None:
    kind = t.element(op.results[0])
    t.result(op, f"convert_float({_registers(t, op, 0)}, {t.constant(kind)})")


@emits("arith.sitofp", "arith.uitofp")
def _to_float(t: Translator, op: Any) -> None:
    source, kind = t.operand(op, 0), t.element(op.results[0])
    if op.name == "arith.uitofp":
        source = f"unsigned({source}, {_width(t, op.operands[0])})"
    if t.is_tensor(op.results[0]):
        source = f"{source}.astype(np.float64)"
    t.result(op, f"convert_float({source}, {t.constant(kind)})")


@emits("arith.fptosi", "arith.fptoui")
def _to_integer(t: Translator, op: Any) -> None:
    kind = t.element(op.results[0])
    t.result(op, f"to_integer({_registers(t, op, 0)}, {t.constant(kind)})")


@emits("arith.bitcast", "tt.bitcast")
def _bitcast(t: Translator, op: Any) -> None:
    source, target = t.element(op.operands[0]), t.element(op.results[0])
    if source.name == target.name or (source.name == "ptr" and target.name == "ptr"):
        t.result(op, t.operand(op, 0))
    elif t.is_tensor(op.results[0]):
        a, b = t.constant(source), t.constant(target)
        t.result(op, f"{b}.decode({a}.encode({t.operand(op, 0)}).view({b}.stored))")
    elif not source.is_float and not target.is_float and {source.name, target.name} != {"i1"}:
        t.result(op, t.operand(op, 0))
    else:
        raise NotImplementedError("a bitcast of scalars between kinds")


_MATH = {
    "math.exp": "np.exp", "math.exp2": "np.exp2", "math.log": "np.log", "math.log2": "np.log2", "math.sqrt": "np.sqrt",
    "math.rsqrt": "1 / np.sqrt", "math.absf": "np.abs", "math.floor": "np.floor", "math.ceil": "np.ceil",
    "math.sin": "np.sin", "math.cos": "np.cos", "math.tanh": "np.tanh", "math.erf": "erf", "tt.precise_sqrt": "np.sqrt",
    "math.absi": "np.abs",
}  # fmt: skip


@emits(*_MATH)
def _math(t: Translator, op: Any) -> None:
    expression = f"{_MATH[op.name]}({_registers(t, op, 0)})"
    if t.element(op.results[0]).is_float:
        _rounded(t, op, expression)
    else:
        _wrapped(t, op, expression)


@emits("math.fma")
def _fma(t: Translator, op: Any) -> None:
    a, b, c = (_registers(t, op, i) for i in range(3))
    _rounded(t, op, f"{a} * {b} + {c}")


@emits("ub.poison")
def _poison(t: Translator, op: Any) -> None:
    value = op.results[0]
    if t.is_tensor(value):
        shape, kind = t.shaped(value)
        t.result(op, f"poison({shape}, {t.constant(kind)})")
    elif isinstance(value.type, (ir.IntegerType, ir.FloatType)):
        t.result(op, "0")
    else:
        t.result(op, "None")
