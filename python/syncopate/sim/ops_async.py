"""Emitters of ttg and ttng: shared memory, barriers, TMA, wgmma, cp.async."""

from __future__ import annotations

from typing import Any

from syncopate.sim.translate import Translator, attribute, emits, segments


@emits("gpu.barrier", "ttg.barrier")
def _barrier(t: Translator, op: Any) -> None:
    t.write("yield")
    # A barrier of local memory only is bar.sync all the same.
    t.write("a.join()")


@emits("ttg.local_alloc")
def _alloc(t: Translator, op: Any) -> None:
    shape, kind = t.shaped(op.results[0])
    name = f"#{len(t.constants)}"
    values = f", a.registers({t.operand(op, 0)})" if len(op.operands) else ""
    t.result(op, f"a.alloc({shape}, {t.constant(kind)}, {name!r}{values})")


@emits("ttg.local_dealloc")
def _dealloc(t: Translator, op: Any) -> None:
    t.write(f"a.dealloc({t.operand(op, 0)})")


@emits("ttg.local_load")
def _local_load(t: Translator, op: Any) -> None:
    t.write("yield")
    t.result(op, f"a.load_shared({t.operand(op, 0)})")


@emits("ttg.local_store")
def _local_store(t: Translator, op: Any) -> None:
    t.write("yield")
    t.write(f"a.store_shared({t.operand(op, 1)}, a.registers({t.operand(op, 0)}))")


@emits("ttg.memdesc_index")
def _index(t: Translator, op: Any) -> None:
    t.result(op, f"a.index_shared({t.operand(op, 0)}, {t.operand(op, 1)})")


@emits("ttg.memdesc_trans")
def _trans(t: Translator, op: Any) -> None:
    t.result(op, f"{t.operand(op, 0)}.transpose({attribute(op, 'order')})")


@emits("ttg.memdesc_reinterpret")
def _reinterpret(t: Translator, op: Any) -> None:
    shape, kind = t.shaped(op.results[0])
    t.result(op, f"a.reinterpret_shared({t.operand(op, 0)}, {shape}, {t.constant(kind)})")


@emits("ttg.memdesc_subslice")
def _subslice(t: Translator, op: Any) -> None:
    shape, _ = t.shaped(op.results[0])
    t.result(op, f"{t.operand(op, 0)}.slice({attribute(op, 'offsets')}, {shape})")


@emits("ttng.init_barrier")
def _init(t: Translator, op: Any) -> None:
    t.write(f"a.init_barrier({t.operand(op, 0)}, {attribute(op, 'count')})")


@emits("ttng.inval_barrier")
def _inval(t: Translator, op: Any) -> None:
    t.write("yield")
    t.write(f"a.inval_barrier({t.operand(op, 0)})")


@emits("ttng.barrier_expect")
def _expect(t: Translator, op: Any) -> None:
    barrier, *predicate = t.uses(op.operands)
    t.write("yield")
    t.write(f"a.expect({barrier}, {attribute(op, 'size')}, {predicate[0] if predicate else True})")


@emits("ttng.arrive_barrier")
def _arrive(t: Translator, op: Any) -> None:
    barrier, *predicate = t.uses(op.operands)
    t.write("yield")
    t.write(f"a.arrive({barrier}, {attribute(op, 'count')}, {predicate[0] if predicate else True})")


@emits("ttng.wait_barrier")
def _wait(t: Translator, op: Any) -> None:
    if "operandSegmentSizes" in op.attributes:
        barrier, parity, predicate, _ = segments(op)
        given = [t.use(part[0]) for part in (barrier, parity, predicate) if part]
    else:
        given = t.uses(op.operands)[:3]
    t.write(f"yield from a.wait_barrier({', '.join(given)})")


@emits("ttng.fence_async_shared")
def _fence(t: Translator, op: Any) -> None:
    t.write("a.fence_shared()")


@emits("ttng.async_tma_copy_global_to_local")
def _tma_load(t: Translator, op: Any) -> None:
    names = t.uses(op.operands)
    types = [str(value.type) for value in op.operands]
    last = len(names)
    predicate = "True"
    if types[-1] == "i1":
        predicate, last = names[-1], last - 1
    barrier, target = names[last - 2], names[last - 1]
    coordinates = names[1 : last - 2]
    if any(kind != "i32" for kind in types[1 : last - 2]):
        raise NotImplementedError("a load with offsets of an image")
    if attribute(op, "multicast", False):
        raise NotImplementedError("multicast")
    t.write("yield")
    t.write(
        f"a.tma_load({names[0]}, ({', '.join(coordinates)},), {barrier}, {target}, {predicate})"
    )


@emits("ttng.async_tma_copy_local_to_global", "ttng.async_tma_reduce")
def _tma_store(t: Translator, op: Any) -> None:
    desc, *coordinates, source = t.uses(op.operands)
    reduce = attribute(op, "kind", 0) if op.name.endswith("reduce") else 0
    t.write("yield")
    t.write(f"a.tma_store({desc}, ({', '.join(coordinates)},), {source}, {reduce})")


@emits("ttng.async_tma_store_wait")
def _store_wait(t: Translator, op: Any) -> None:
    # Triton 3.6 always waits for the reads only; later versions say so with a mark.
    read_only = t.old_store_wait or bool(attribute(op, "read_only", False))
    t.write(f"yield from a.wait_stores({attribute(op, 'pendings')}, {read_only})")


@emits("ttg.global_scratch_alloc")
def _scratch(t: Translator, op: Any) -> None:
    # Nothing but tensor maps is kept there.
    name = t.define(op.results[0])
    t.write(f"{name} = a.scratch_map({name!r})")


@emits("ttng.tensormap_create")
def _create_map(t: Translator, op: Any) -> None:
    place, address, _, sizes, strides, steps = (t.uses(part) for part in segments(op))
    t.write("yield")
    lists = ", ".join(f"({', '.join(names)},)" for names in (sizes, strides, steps))
    fill = attribute(op, "fill_mode", 0)
    t.write(f"a.create_map({place[0]}, {address[0]}, {lists}, {fill})")


@emits("ttng.tensormap_fenceproxy_acquire")
def _fence_map(t: Translator, op: Any) -> None:
    t.write(f"{t.operand(op, 0)}.fenced = True")


@emits("ttng.reinterpret_tensor_descriptor")
def _use_map(t: Translator, op: Any) -> None:
    _, kind = t.shaped(op.results[0])
    t.result(op, f"a.use_map({t.operand(op, 0)}, {t.constant(kind)})")


@emits("ttng.warp_group_dot")
def _dot(t: Translator, op: Any) -> None:
    a, b, c, *use_c = t.uses(op.operands)
    if t.is_tensor(op.operands[0]):
        a = f"a.registers({a})"
    kind = t.constant(t.element(op.results[0]))
    is_async = bool(attribute(op, "isAsync", False))
    t.write("yield")
    t.result(op, f"a.dot({a}, {b}, {c}, {use_c[0] if use_c else True}, {is_async}, {kind})")


@emits("ttng.warp_group_dot_wait")
def _dot_wait(t: Translator, op: Any) -> None:
    values = ", ".join(t.uses(op.operands))
    targets = ", ".join(t.define(value) for value in op.results)
    t.write("yield")
    t.write(f"{targets}, = a.wait_dots({attribute(op, 'pendings')}, ({values},))")


@emits("ttg.async_copy_global_to_local")
def _async_copy(t: Translator, op: Any) -> None:
    sizes = attribute(op, "operandSegmentSizes")
    source, target, mask, other = (
        segments(op) if sizes else ([v] for v in (*op.operands, None, None)[:4])
    )
    given = ", ".join(
        t.use(part[0]) if part and part[0] is not None else "None" for part in (mask, other)
    )
    kind = t.constant(t.pointee(source[0]))
    t.write("yield")
    t.write(f"a.copy_async({t.use(source[0])}, {t.use(target[0])}, {given}, {kind})")
    t.write(f"{t.define(op.results[0])} = None")


@emits("ttg.async_commit_group")
def _commit(t: Translator, op: Any) -> None:
    t.write("a.commit_copies()")
    t.write(f"{t.define(op.results[0])} = None")


@emits("ttg.async_wait")
def _async_wait(t: Translator, op: Any) -> None:
    t.write(f"yield from a.wait_copies({attribute(op, 'num')})")
    for value in op.results:
        t.write(f"{t.define(value)} = None")
