"""All-gathers written transfer by transfer, so that each can have a realization of its own."""

from __future__ import annotations

import itertools
from typing import Any


def gather_by(plan: Any, a: Any, algorithm: str, mix: tuple[str, ...]) -> None:
    """An all-gather of the rows of `a`, transfer by transfer, of which each has another realization than the last."""
    world, rows = plan.world_size, a.shape[0]
    step = -(-rows // world)
    add = plan.get if algorithm.endswith("pull") else plan.put
    last: list[Any] = [None] * world
    realizations = itertools.cycle(mix)
    for hop, owner in itertools.product(range(1, world), range(world)):
        shard = a[min(owner * step, rows) : min((owner + 1) * step, rows), :]
        ring = algorithm.startswith("ring")
        last[owner] = add(
            shard,
            shard,
            src_rank=(owner + hop - 1) % world if ring else owner,
            dst_rank=(owner + hop) % world,
            after=[last[owner]] if ring and hop > 1 else [],
            realization=next(realizations),
        )
