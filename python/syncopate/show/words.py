"""A schedule in words: what overlaps what, by which means, and why."""

from __future__ import annotations

from typing import Any

from syncopate.abi import CommandReduction
from syncopate.runtime.flag_names import flags_of_ranks, join
from syncopate.runtime.interface import BufferParam
from syncopate.runtime.memory_plan import plan_memory
from syncopate.show.model import Lane, Transfer, read_lanes

_MEANS = {
    "copy_engine": "by the copy engine, enqueued by the host on a side stream; takes no SM and no "
    "register, best for few large pieces",
    "tma_dedicated": "by CTAs of the same launch that do nothing else with bulk TMA; starts with the "
    "kernel, no host in between, takes the SMs of those CTAs but few instructions",
    "tma_colocated": "by bulk TMA that four more warps of each computing CTA issue; starts with the "
    "kernel, no host in between, takes shared memory beside the computation",
    "ldst_dedicated": "by CTAs of the same launch that do nothing else with 16-byte loads and stores; "
    "starts with the kernel, no host in between, takes the SMs of those CTAs",
    "ldst_colocated": "by four more warps of each computing CTA with 16-byte loads and stores; "
    "starts with the kernel, no host in between, small pieces cost little",
    "nccl": "by NCCL on a side stream: one rank sends and another receives, or calls of all ranks take what a group of "
    "tiles has stored side by side; it takes the SMs that the computation leaves free, reaches every rank that NCCL "
    "does, best for few large messages",
}

_COMBINES = {
    CommandReduction.NONE: "",
    CommandReduction.SUM: ", adding to what is there",
    CommandReduction.MAX: ", keeping the larger of it and what is there",
    CommandReduction.MIN: ", keeping the smaller of it and what is there",
    CommandReduction.UNORDERED_SUM: ", adding to what is there atomically",
}


def _memory(program: Any) -> str:
    sizes = ", ".join(f"{spec.name} {spec.nbytes:,}" for spec in program.buffers)
    flags = 4 * program.signal_layout.total
    total = plan_memory(program).nbytes
    return f"memory: {total:,} symmetric bytes on each rank: flags {flags:,}, {sizes}"


def describe_schedule(program: Any) -> str:
    """What each rank computes, sends and waits for, one paragraph per rank.

    Args:
      program: has `world_size`, `num_ctas`, `tile_shape`, `buffers`, `signal_layout`
        and `rank_tables(rank)`.
    """
    lanes = read_lanes(program)
    used = dict.fromkeys(t.realization for lane in lanes for t in lane.transfers)
    if any(lane.calls for lane in lanes):
        used["nccl"] = None
    ctas = f"{program.num_ctas} CTAs each"
    if program.comm_ctas:
        ctas += f", and {program.comm_ctas} in front of them for communication"
    ctas += _parts(program, lanes[0])
    lines = [f"{program.world_size} ranks, {ctas}"]
    strategy = getattr(program, "strategy", None)
    if strategy is not None:
        lines.append(
            f"strategy: collectives by {_value(strategy.algorithm)} {_value(strategy.direction)}, transfers in "
            f"{strategy.splits or 'up to 4'} piece(s) by {_value(strategy.realization)}, tiles by "
            f"{_value(strategy.order)} in groups of {strategy.group_m} rows, a pause of {strategy.pause} ns "
            "after each block that a co-located role stores to another rank; what the plan itself says goes first"
        )
    lines.append(_memory(program))
    lines += [f"{name}: data are moved {_MEANS.get(name, 'by ' + name)}" for name in used]
    if lanes[0].needs:
        lines.append(
            f"order: tiles come by their first coordinate, c0, and wait for the first {lanes[0].needs} of the "
            "transfers that bring what they may read"
        )
    elif strategy is not None and _value(strategy.order) == "arrival":
        lines.append(
            "order: a CTA computes first what reads only its rank's own data, then what reads "
            "others' in the order in which they should arrive; so transfers run beside tiles that "
            "do not need them"
        )
    lines += _input(program, lanes)
    lines.append(
        "flags: sN says that transfer N is complete, ready[p] that the input of rank p is in place, done[p] that rank "
        "p has finished a call, tiles[g] that the tiles of group g are computed; "
        '"for streams" names the twin of a flag that a copy engine\'s stream waits for'
    )
    dims = len(getattr(program, "tiles", (1, 1, 1)))
    for lane in lanes:
        lines += ["", *_lane(lane, program.num_ctas, dims)]
    return "\n".join(lines)


def _parts(program: Any, lane: Lane) -> str:
    """Which tiles are computed by several CTAs."""
    split = len([tile for tile in lane.tiles if tile.coords[2] == 1])
    if len(getattr(program, "tiles", (1, 1, 1))) == 3 or not split:
        return ""
    parts = 1 + max(tile.coords[2] for tile in lane.tiles)
    return f"; each of the last {split} tiles in the order is computed by {parts} CTAs, and stored by the last of them"


def _value(choice: Any) -> str:
    return str(getattr(choice, "value", choice))


def _input(program: Any, lanes: list[Lane]) -> list[str]:
    """Whether a rank's input is read where the caller keeps it, and why not."""
    if not hasattr(program, "localized"):
        return []  # A plan without a kernel's code leaves it open.
    lines = []
    for buffer in program.buffers:
        if not any(buffer.inputs):
            continue
        if buffer.name != program.localized:
            lines.append(
                f"input {buffer.name}: copied into the symmetric buffer before the kernel, since "
                f"{_obstacle(program, buffer, lanes)}"
            )
            continue
        copied = [lane.rank for lane in lanes if lane.opens]
        reason = "since copy engines of other ranks get it from there"
        if len(copied) == len(lanes):
            lines.append(
                f"input {buffer.name}: copied into the symmetric buffer before the kernel, {reason}"
            )
            continue
        bound = any(getattr(param, "buffer", None) == buffer.name for param in program.params)
        words = (
            f"input {buffer.name}: {'tiles' if bound else 'transfers'} read a rank's own rows where the caller keeps "
            "them, without a copy"
        )
        if copied:
            words += (
                f"; on rank {join(list(map(str, copied)))} it is copied into the symmetric buffer before the kernel, "
                f"{reason}"
            )
        lines.append(words)
    return lines


def _obstacle(program: Any, buffer: Any, lanes: list[Lane]) -> str:
    """What kept `chunk-localize-inputs` from rewriting the loads of a buffer."""
    params = [
        param
        for param in program.params
        if isinstance(param, BufferParam) and param.buffer == buffer.name
    ]
    if not params:
        return "no parameter of the kernel is bound to it"
    if len(params) > 1:
        return f"parameter {params[1].name} reads it too"
    if not params[0].descriptor:
        return (
            f"the kernel takes it as a pointer, {params[0].name}; only descriptors can be replaced"
        )
    first = next(p for p in program.params if isinstance(p, BufferParam) and p.descriptor)
    if params[0].name != first.name:
        return f"only the first descriptor of a buffer, {first.name}, can be replaced"
    whole = tuple(buffer.shape[1:])
    for rank, regions in enumerate(buffer.inputs):
        if len(regions) > 1 or any(region.sizes[1:] != whole for region in regions):
            return f"the input of rank {rank} is not one block of whole rows"
    for lane in lanes:
        for tile in lane.tiles:
            if lane.rank in tile.origins and len(tile.origins) > 1:
                if tile.length:
                    break  # Its steps may read whose they are, one by one.
                coords = ", ".join(map(str, tile.coords[: len(program.tiles)]))
                return f"tile ({coords}) of rank {lane.rank} reads rows of it together with others'"
    if any(tile.length for lane in lanes for tile in lane.tiles):
        return f"a step reads rows of several ranks together, or more is done with {params[0].name} than to load blocks"
    return f"the kernel does more with {params[0].name} than load blocks of it"


def _lane(lane: Lane, ctas: int, dims: int) -> list[str]:
    first: dict[Transfer, int] = {}
    at_step: dict[Transfer, str] = {}
    for tile in lane.tiles:
        for transfer in tile.waits:
            first.setdefault(transfer, tile.position)
        for step in tile.steps:
            for transfer in step.waits:
                if first[transfer] == tile.position:
                    words = f" before step {step.number}, after {step.place} of {tile.length}"
                    at_step.setdefault(transfer, words)
    # Of tiles that several CTAs compute, the first part stands for all.
    tiles = [tile for tile in lane.tiles if dims == 3 or tile.coords[2] == 0]

    def before(position: int) -> int:
        return sum(tile.position < position for tile in tiles)

    total = len(tiles)
    ahead = before(min(first.values(), default=len(lane.tiles)))
    share = 100 * ahead // max(total, 1)
    lines = [f"rank {lane.rank}: {total} tiles, {ahead} of them ({share} %) before the first wait"]
    if longest := max((tile.length for tile in tiles), default=0):
        steps = sum(tile.length for tile in tiles)
        lines.append(f"  its tiles walk up to {longest} steps, {steps} in all")
    if lane.needs:
        lines = [f"rank {lane.rank}: at most {total} tiles"]
        first = {}
    if lane.adding:
        lines.append(
            f"  {lane.adding} of its tiles add to what has arrived, and wait for that only before they store"
        )
    if lane.guards:
        lines.append(f"  before its input is replaced it waits for {join(lane.guards)}")
    if lane.opens:
        lines.append(f"  opens a call: raises {flags_of_ranks(lane.opens)}")
    handed = [t for t in lane.transfers if t.tile is not None]
    if handed:
        lines.append(
            f"  {len({t.tile for t in handed})} of its tiles hand {len(handed)} transfers over to the warps beside "
            "them, through shared memory"
        )
    for t in lane.transfers:
        lines.append(f"  {_what(t)} by {t.realization}{_from_tile(t, dims)}{_flags(t)}")
    for call in lane.calls:
        lines.append(
            f"  {call.kind} of {call.tiles} tiles of {call.buffer}, {call.nbytes} bytes, by nccl, after "
            f"{join(call.waits)}"
        )
    for transfer, position in sorted(first.items(), key=lambda item: item[1]):
        coords = ", ".join(map(str, lane.tiles[position].coords[:dims]))
        flags = join([name for name, rank in transfer.raises if rank == lane.rank][:1])
        lines.append(
            f"  needs {transfer.region} from rank {transfer.src} ({flags}) at position {position} "
            f"(round {position // ctas}), tile ({coords}){at_step.get(transfer, '')}: overlaps with "
            f"{before(position)} tiles"
        )
    end = f"after {join(lane.closes_after)}" if lane.closes_after else "after its last tile"
    raises = f": raises {flags_of_ranks(lane.closes)}" if lane.closes else ""
    lines.append(f"  ends a call {end}{raises}")
    return lines


def _what(t: Transfer) -> str:
    if t.staging:
        readers = " and ".join(f"rank {rank}" for _, rank in t.raises) or "other ranks"
        return f"stages its input {t.region} for {readers}"
    if t.counted:
        what = f"{t.source} into {t.region}, the first {t.counted} rows,"
        return f"puts {what} to rank {t.dst}" if t.by == t.src else f"gets {what} from rank {t.src}"
    source = t.source if t.parts == 1 else f"{t.parts} parts from {t.source} on"
    into = "" if t.source == t.region else f" into {t.region}"
    if t.by == t.src:
        return f"puts {source}{into} to rank {t.dst}{_COMBINES[t.reduction]}"
    return f"gets {source}{into} from rank {t.src}{_COMBINES[t.reduction]}"


def _from_tile(t: Transfer, dims: int) -> str:
    return f", from tile ({', '.join(map(str, t.tile[:dims]))})" if t.tile is not None else ""


def _flags(t: Transfer) -> str:
    after = f", after {join(t.waits)}" if t.waits else ""
    raises = f", raises {flags_of_ranks(t.raises)}" if t.raises else ""
    return after + raises
