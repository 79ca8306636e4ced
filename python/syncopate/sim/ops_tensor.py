"""Emitters of tt: pointers, shapes, loads, stores, atomics, reductions, inline assembly."""

from __future__ import annotations

import re
from typing import Any

from syncopate.sim.translate import Translator, attribute, emits, segments


@emits("tt.get_program_id", "tt.get_num_programs")
def _program(t: Translator, op: Any) -> None:
    axis = attribute(op, "axis")
    if op.name == "tt.get_program_id":
        t.result(op, f"a.program_id({axis})")
    else:
        t.result(op, f"a.cta.grid[{axis}]")


@emits("tt.addptr")
def _addptr(t: Translator, op: Any) -> None:
    pointer, offset = t.uses(op.operands)
    size = t.pointee(op.results[0]).nbytes
    if t.is_tensor(op.operands[1]):
        offset = f"{offset}.astype(np.int64)"
    t.result(op, f"{pointer} + {offset} * {size}")


@emits("tt.int_to_ptr", "tt.ptr_to_int", "ttg.convert_layout", "tt.unsplat")
def _same(t: Translator, op: Any) -> None:
    name = t.operand(op, 0)
    if op.name == "tt.unsplat":
        name = f"{name}.item()"
    elif op.name == "ttg.convert_layout" and t.element(op.results[0]).is_float:
        name = f"a.registers({name})"
    t.result(op, name)


@emits("tt.splat")
def _splat(t: Translator, op: Any) -> None:
    shape, kind = t.shaped(op.results[0])
    t.result(op, f"full({shape}, {t.operand(op, 0)}, {t.constant(kind)})")


@emits("tt.broadcast")
def _broadcast(t: Translator, op: Any) -> None:
    t.result(op, f"np.broadcast_to({t.operand(op, 0)}, {t.shaped(op.results[0])[0]})")


@emits("tt.expand_dims")
def _expand(t: Translator, op: Any) -> None:
    t.result(op, f"np.expand_dims({t.operand(op, 0)}, {attribute(op, 'axis')})")


@emits("tt.reshape")
def _reshape(t: Translator, op: Any) -> None:
    t.result(op, f"a.registers({t.operand(op, 0)}).reshape({t.shaped(op.results[0])[0]})")


@emits("tt.trans")
def _transpose(t: Translator, op: Any) -> None:
    t.result(op, f"a.registers({t.operand(op, 0)}).transpose({attribute(op, 'order')})")


@emits("tt.join")
def _join(t: Translator, op: Any) -> None:
    t.result(op, f"np.stack([{', '.join(t.uses(op.operands))}], axis=-1)")


@emits("tt.split")
def _split(t: Translator, op: Any) -> None:
    source = t.operand(op, 0)
    for i, value in enumerate(op.results):
        t.write(f"{t.define(value)} = a.registers({source})[..., {i}]")


@emits("tt.cat")
def _cat(t: Translator, op: Any) -> None:
    t.result(op, f"np.concatenate([{', '.join(t.uses(op.operands))}])")


@emits("tt.make_range")
def _range(t: Translator, op: Any) -> None:
    t.result(op, f"np.arange({attribute(op, 'start')}, {attribute(op, 'end')}, dtype=np.int32)")


@emits("tt.clampf")
def _clamp(t: Translator, op: Any) -> None:
    x, low, high = t.uses(op.operands)
    t.result(op, f"np.minimum(np.maximum({x}, {low}), {high})")


@emits("tt.load")
def _load(t: Translator, op: Any) -> None:
    pointer, mask, other = segments(op)
    kind = t.constant(t.pointee(pointer[0]))
    name = t.use(pointer[0])
    if t.is_tensor(op.results[0]):
        given = ", ".join(t.use(part[0]) if part else "None" for part in (mask, other))
        t.write("yield")
        t.result(op, f"a.load_tensor({name}, {given}, {kind})")
        return
    load = f"a.load({name}, {kind}, {_only_for_lead(op.results[0])})"
    if mask:
        default = t.use(other[0]) if other else "0"
        load = f"{load} if {t.use(mask[0])} else {default}"
    t.result(op, load)


def _only_for_lead(value: Any) -> bool:
    """Whether a scalar ends up only in what the first thread stores or exchanges."""
    for use in value.uses:
        user = use.owner.operation
        if user.name in ("tt.atomic_rmw", "tt.atomic_cas", "tt.store"):
            if len(user.results) and _is_used(user):
                return False
        elif user.name.startswith("arith.") or user.name in ("tt.addptr", "tt.int_to_ptr"):
            if not all(map(_only_for_lead, user.results)):
                return False
        else:
            return False
    return True


@emits("tt.store")
def _store(t: Translator, op: Any) -> None:
    pointer, value, *mask = t.uses(op.operands)
    kind = t.constant(t.pointee(op.operands[0]))
    t.write("yield")
    if t.is_tensor(op.operands[1]):
        value = f"a.registers({value})" if t.element(op.operands[1]).is_float else value
        t.write(f"a.store_tensor({pointer}, {value}, {mask[0] if mask else None}, {kind})")
    else:
        condition = f"if {mask[0]}: " if mask else ""
        t.write(f"{condition}a.store({pointer}, {value}, {kind})")


def _is_used(op: Any) -> bool:
    return any(True for _ in op.results[0].uses)


@emits("tt.atomic_rmw")
def _atomic(t: Translator, op: Any) -> None:
    pointer, value, *mask = t.uses(op.operands)
    operation = attribute(op, "atomic_rmw_op")
    kind = t.constant(t.pointee(op.operands[0]))
    given = mask[0] if mask else "True"
    t.write("yield")
    if t.is_tensor(op.results[0]):
        given = mask[0] if mask else "None"
        scope = attribute(op, "scope")
        call = f"a.atomic_tensor({operation}, {pointer}, {value}, {given}, {kind}, {scope})"
        t.result(op, call)
        return
    orders = f"{attribute(op, 'sem')}, {attribute(op, 'scope')}, {_is_used(op)}"
    t.result(op, f"yield from a.atomic({operation}, {pointer}, {value}, {given}, {kind}, {orders})")


@emits("tt.atomic_cas")
def _compare_and_swap(t: Translator, op: Any) -> None:
    if t.is_tensor(op.results[0]):
        raise NotImplementedError("a compare-and-swap of tensors")
    pointer, compare, value = t.uses(op.operands)
    kind = t.constant(t.pointee(op.operands[0]))
    orders = f"{attribute(op, 'sem')}, {attribute(op, 'scope')}, {_is_used(op)}"
    t.write("yield")
    t.result(op, f"yield from a.compare_and_swap({pointer}, {compare}, {value}, {kind}, {orders})")


@emits("tt.reduce", "tt.scan")
def _reduce(t: Translator, op: Any) -> None:
    name = f"combine{len(t.partitions)}_{len(t.constants)}"
    t.constant(None)
    block = op.regions[0].blocks[0]
    parameters = [t.define(value) for value in block.arguments]
    t.write(f"def {name}({', '.join(parameters)}):")
    t.combining = True
    with t.indented():
        t.operations(block)
    t.combining = False
    values = ", ".join(f"a.registers({value})" for value in t.uses(op.operands))
    targets = ", ".join(t.define(value) for value in op.results) + ","
    axis = attribute(op, "axis")
    if op.name == "tt.scan":
        t.write(f"{targets} = scan_axis({name}, ({values},), {axis}, {attribute(op, 'reverse')})")
    else:
        t.write(f"{targets} = map(scalar, reduce_axis({name}, ({values},), {axis}))")


@emits("tt.reduce.return", "tt.scan.return")
def _reduce_return(t: Translator, op: Any) -> None:
    t.write(f"return {', '.join(t.uses(op.operands))},")


@emits("tt.dot")
def _dot(t: Translator, op: Any) -> None:
    a, b, c = (f"a.registers({name})" for name in t.uses(op.operands))
    kind = t.element(op.results[0])
    t.result(op, f"a.dot({a}, {b}, {c}, True, False, {t.constant(kind)})")


@emits("tt.assert")
def _assert(t: Translator, op: Any) -> None:
    t.write(f"a.check({t.operand(op, 0)}, {attribute(op, 'message')!r})")


@emits("tt.print", "gpu.printf")
def _ignore(t: Translator, op: Any) -> None:
    t.write("pass")


_ASSEMBLY = (
    (r"mov\.u64 \$0, %globaltimer;", "a.timer()"),
    (r"mov\.u32 \$0, %smid;", "a.cta.index"),
    (r"nanosleep\.u32 \$1;\s*mov\.b32 \$0, 0;", "0"),
    (r"fence\.proxy\.async(\.global)?;\s*mov\.b32 \$0, 0;", "a.fence_proxy() or 0"),
    (r"fence\.acq_rel\.sys;\s*mov\.b32 \$0, 0;", "a.fence_system() or 0"),
    (
        r"// syncopate\.agrees \$1\s*mov\.b32 \$0, 0;",
        "a.check({0}, 'the schedule gives a tile as many steps as the kernel itself would take') or 0",
    ),
    (
        r"cp\.async\.bulk\.wait_group 0;\s*mov\.b32 \$0, 0;",
        "(yield from a.wait_stores(0, False)) or 0",
    ),
    (
        r"cp\.async\.bulk\.wait_group\.read 0;\s*mov\.b32 \$0, 0;",
        "(yield from a.wait_stores(0, True)) or 0",
    ),
)
"""Inline assembly of the device library, and what it does to the role; operands stand in braces."""


@emits("tt.elementwise_inline_asm")
def _assembly(t: Translator, op: Any) -> None:
    text = attribute(op, "asm_string").strip()
    for pattern, call in _ASSEMBLY:
        if re.fullmatch(pattern, text):
            if "%" not in pattern:
                t.write("yield")
            t.result(op, call.format(*t.uses(op.operands)))
            return
    raise NotImplementedError(f"inline assembly {text!r}")
