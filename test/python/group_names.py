"""What a rank does that leaves one process group after another, in a process of its own."""

import gc
import json

import torch.distributed as dist
from torch.distributed import distributed_c10d

from syncopate.agreement import processes
from syncopate.runtime.process_group import _NodeMemory

WORLD, TURNS = 2, 3


def name_memory(rank, folder):
    """Names the memory of each group, and writes the names down."""
    names = []
    for turn in range(TURNS):
        store = f"file://{folder}/store-{turn}"
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=WORLD)
        node = dist.group.WORLD
        memory = _NodeMemory(node, range(WORLD), rank, WORLD, 0, processes(node))
        memory.prepare()
        # A rendezvous of torch asks for the group by the name of its memory.
        assert distributed_c10d._resolve_process_group(memory._name) is node
        names.append(memory._name)
        del memory, node
        dist.barrier()
        dist.destroy_process_group()
        gc.collect()
    (folder / f"{rank}.json").write_text(json.dumps(names))
