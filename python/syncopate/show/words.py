"""A schedule in words: what overlaps what, by which means, and why."""

from __future__ import annotations

from typing import Any

from syncopate.show.model import Lane, Transfer, read_lanes

_MEANS = {
    "copy_engine": "by the copy engine, enqueued by the host on a side stream; takes no SM and no "
    "register, best for few large pieces",
    "ldst_colocated": "by four more warps of each computing CTA with 16-byte loads and stores; "
    "starts with the kernel, no host in between, small pieces cost little",
}


def describe_schedule(program: Any) -> str:
    """What each rank computes, sends and waits for, one paragraph per rank.

    Args:
      program: has `world_size`, `num_ctas`, `tile_shape`, `buffers`, `signal_layout`
        and `rank_tables(rank)`.
    """
    lanes = read_lanes(program)
    used = dict.fromkeys(t.realization for lane in lanes for t in lane.transfers)
    lines = [f"{program.world_size} ranks, {program.num_ctas} CTAs each"]
    strategy = getattr(program, "strategy", None)
    if strategy is not None:
        lines.append(
            f"strategy: all-gathers by {_value(strategy.algorithm)}, transfers in "
            f"{strategy.splits} piece(s) by {_value(strategy.realization)}, tiles by "
            f"{_value(strategy.order)} in groups of {strategy.group} rows; what the plan itself "
            "says goes first"
        )
    lines += [f"{name}: data are moved {_MEANS.get(name, 'by ' + name)}" for name in used]
    if strategy is not None and _value(strategy.order) == "arrival":
        lines.append(
            "order: a CTA computes first what reads only its rank's own data, then what reads "
            "others' in the order in which they should arrive; so transfers run beside tiles that "
            "do not need them"
        )
    for lane in lanes:
        lines += ["", *_lane(lane, program.num_ctas)]
    return "\n".join(lines)


def _value(choice: Any) -> str:
    return str(getattr(choice, "value", choice))


def _lane(lane: Lane, ctas: int) -> list[str]:
    first: dict[Transfer, int] = {}
    for tile in lane.tiles:
        for transfer in tile.waits:
            first.setdefault(transfer, tile.position)
    total = len(lane.tiles)
    ahead = min(first.values(), default=total)
    share = 100 * ahead // max(total, 1)
    lines = [f"rank {lane.rank}: {total} tiles, {ahead} of them ({share} %) before the first wait"]
    for t in lane.transfers:
        after = f", after {' and '.join(t.waits)}" if t.waits else ""
        if t.staging:
            readers = " and ".join(f"rank {rank}" for rank, _ in t.signals) or "other ranks"
            lines.append(f"  stages its input {t.region} for {readers} by {t.realization}{after}")
            continue
        arrow = f"to rank {t.dst}" if t.by == t.src else f"from rank {t.src}"
        verb = "puts" if t.by == t.src else "gets"
        lines.append(f"  {verb} {t.region} {arrow} by {t.realization}{after}")
    for transfer, position in sorted(first.items(), key=lambda item: item[1]):
        coords = ", ".join(map(str, lane.tiles[position].coords))
        lines.append(
            f"  needs {transfer.region} from rank {transfer.src} at position {position} "
            f"(round {position // ctas}), tile ({coords}): overlaps with {position} tiles"
        )
    return lines
