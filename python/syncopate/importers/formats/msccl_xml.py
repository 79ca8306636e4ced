"""Imports MSCCL XML: what msccl-tools and TACCL write, and the MSCCL runtime reads.

A `gpu` has threadblocks, a threadblock at most one peer to send to and one to receive from, and steps one behind the
other. The n-th step that sends to a peer on a channel belongs to the n-th one there that receives. `depid` and `deps`
name a step of another threadblock that has to be over.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from syncopate.importers.documents.items import MOST, MOST_RANKS, Item
from syncopate.importers.documents.read_xml import read_xml
from syncopate.importers.formats.msccl_threadblocks import Channel, ThreadblockReader
from syncopate.importers.steps.collective_steps import (
    Collective,
    CollectiveSteps,
    Memory,
    count_chunks,
)
from syncopate.importers.steps.threads import Instruction, run_threads

__all__ = ["COLLECTIVES", "read_msccl_xml"]

COLLECTIVES: Final = {
    "allgather": Collective.ALL_GATHER,
    "allreduce": Collective.ALL_REDUCE,
    "reduce_scatter": Collective.REDUCE_SCATTER,
    "alltoall": Collective.ALL_TO_ALL,
}
"""As MSCCL spells them."""

_OTHER_NAMES: Final = {"reducescatter": Collective.REDUCE_SCATTER}


def read_msccl_xml(text: str, file: str) -> CollectiveSteps:
    """The steps of an `algo`.

    Raises:
        PlanError: The file is malformed, or says something that has no meaning.
    """
    root = read_xml(text, file)
    if root.what != "algo":
        root.fail("expects the root to be algo")
    gpus = root.elements("gpu")
    ranks = root.integer("ngpus", 1, MOST_RANKS + 1, default=len(gpus))
    if len(gpus) != ranks or not gpus:
        root.fail(f"expects {ranks} gpus, as ngpus says, but got {len(gpus)}")
    by_rank: dict[int, Item] = {}
    for gpu in gpus:
        rank = gpu.integer("id", 0, ranks)
        if rank in by_rank:
            gpu.fail(f"expects each id once, but got {rank} again")
        by_rank[rank] = gpu
    steps = _read_head(root, by_rank)
    threads: dict[Hashable, list[Instruction]] = {}
    spare = [0] * ranks
    channels: dict[Channel, Item] = {}
    for rank in range(ranks):
        reader = ThreadblockReader(steps, rank, by_rank[rank], channels, spare)
        threads.update(reader.read())
    # What is reduced and not stored lies behind the scratch.
    if steps.scratch[Memory.SCRATCH] + max(spare) > 0:
        steps.scratch[Memory.SCRATCH] += max(spare)
    else:
        del steps.scratch[Memory.SCRATCH]
    _check_channels(channels)
    run_threads(steps, threads)
    return steps


def _read_head(root: Item, gpus: dict[int, Item]) -> CollectiveSteps:
    collective = root.word("coll", {**COLLECTIVES, **_OTHER_NAMES})
    sizes = {
        name: max(gpu.integer(name, 0, MOST, default=0) for gpu in gpus.values())
        for name in ("i_chunks", "o_chunks", "s_chunks")
    }
    in_place = root.flag("inplace", default=False)
    chunks = count_chunks(
        root, collective, len(gpus), sizes["i_chunks"], sizes["o_chunks"], in_place=in_place
    )
    if root.has("outofplace") and root.flag("outofplace") == in_place and not in_place:
        root.fail("expects inplace or outofplace, but got neither", "outofplace")
    words = {word: word for word in ("sum", "max", "min")}
    reduction = root.word("redop", {**words, "nop": "sum"}, default="sum")
    name = root.text("name", default="imported")
    steps = CollectiveSteps(name, collective, len(gpus), chunks, in_place, reduction, root.place)
    steps.scratch[Memory.SCRATCH] = sizes["s_chunks"]
    return steps


def _check_channels(channels: dict[Channel, Item]) -> None:
    """Who sends has one who receives."""
    for (way, src, dst, number), block in sorted(channels.items()):
        other = "recv" if way == "send" else "send"
        if (other, src, dst, number) not in channels:
            who = f"gpu {dst} receives from it" if way == "send" else f"gpu {src} sends to it"
            block.fail(
                f"expects a threadblock on channel {number} with which {who}, but there is none",
                way,
            )
