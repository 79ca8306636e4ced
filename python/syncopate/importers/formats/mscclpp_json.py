"""Imports MSCCL++ execution plans: the JSON that its DSL writes and its executor reads.

Threadblocks put to, and get from, buffers of other ranks, and say so by signals: the n-th signal on a channel belongs
to the n-th wait at its other end. A reader of packets waits for each of them. Threadblocks of a rank meet at barriers,
and hand over by semaphores. Blocks of a group carry out equal parts of an operation. What a pipeline does for one unit
of data after the other is done for all data at once.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from typing import Final

from syncopate.importers.documents.items import MOST, MOST_RANKS, Item
from syncopate.importers.documents.read_json import read_json
from syncopate.importers.formats.mscclpp_threadblocks import FINEST, BlockReader, GpuReader
from syncopate.importers.steps.collective_steps import (
    Collective,
    CollectiveSteps,
    Memory,
    count_chunks,
)
from syncopate.importers.steps.threads import Instruction, run_threads

__all__ = ["COLLECTIVES", "read_mscclpp_json"]

COLLECTIVES: Final = {
    "allgather": Collective.ALL_GATHER,
    "allreduce": Collective.ALL_REDUCE,
    "reducescatter": Collective.REDUCE_SCATTER,
    "alltoall": Collective.ALL_TO_ALL,
    "broadcast": Collective.BROADCAST,
}
"""As MSCCL++ spells them."""


def read_mscclpp_json(text: str, file: str) -> CollectiveSteps:
    """The steps of an execution plan.

    Raises:
        PlanError: The file is malformed, says something that has no meaning, or wants multicast.
    """
    root = read_json(text, file).called("plan")
    gpus = root.items("gpus", "gpu")
    if not 1 <= len(gpus) <= MOST_RANKS:
        root.fail(f"expects 1 to {MOST_RANKS} gpus, but got {len(gpus)}", "gpus")
    for rank, gpu in enumerate(gpus):
        if gpu.integer("id", 0, len(gpus)) != rank:
            gpu.fail(f"expects gpus in the order of their ids, but got {gpu.fields['id']}", "id")
    collective = root.word("collective", COLLECTIVES)
    in_place = root.flag("inplace")
    given, taken, scratch = (
        max(gpu.integer(f"{name}_chunks", 0, MOST) for gpu in gpus)
        for name in ("input", "output", "scratch")
    )
    chunks = count_chunks(root, collective, len(gpus), given, taken, in_place=in_place)
    parts = _find_parts(gpus)
    name = root.text("name", default="imported")
    steps = CollectiveSteps(
        name, collective, len(gpus), chunks * parts, in_place, "sum", root.place
    )
    if scratch:
        steps.scratch[Memory.SCRATCH] = scratch * parts
    readers = [GpuReader(steps, rank, gpu, parts) for rank, gpu in enumerate(gpus)]
    threads: dict[Hashable, list[Instruction]] = {}
    posted: dict[Hashable, int] = {}
    reductions: dict[str, Item] = {}
    for reader in readers:
        posted.update(reader.semaphores)
        for block in reader.blocks:
            key = (reader.rank, block.integer("id", 0, MOST))
            if key in threads:
                block.fail(f"expects each id of a gpu once, but got {key[1]} again", "id")
            threads[key] = list(BlockReader(reader, block, reductions).read())
    if len(reductions) > 1:
        words = sorted(reductions)
        reductions[words[0]].fail(f"expects one reduce_op in a plan, but got {' and '.join(words)}")
    steps.reduction = next(iter(reductions), "sum")
    run_threads(steps, threads, posted)
    if collective is Collective.BROADCAST and steps.moves:
        # The file does not say which rank is the root, but no other one has anything to begin with.
        steps.root = steps.moves[0].src.rank
    return steps


def _find_parts(gpus: Sequence[Item]) -> int:
    """Into how many cells a chunk is cut, so that each group has a whole number for each of its blocks."""
    parts = 1
    for gpu in gpus:
        for block in gpu.items("threadblocks", "threadblock"):
            for op in _all_operations(block):
                if op.has("tbg_info"):
                    group = op.item("tbg_info")
                    parts = math.lcm(parts, group.integer("tbg_size", 1, FINEST + 1))
                    if parts > FINEST:
                        group.fail(
                            f"expects groups to cut chunks into at most {FINEST} parts, but got {parts}"
                        )
    return parts


def _all_operations(block: Item) -> Iterator[Item]:
    for op in block.items("ops", "operation"):
        yield op
        if op.has("ops"):
            yield from op.items("ops", "operation")
