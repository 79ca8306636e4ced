"""Files of other systems, written here: rings and exchanges of all pairs, for any number of ranks."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class MscclFile:
    """MSCCL XML, step by step; `after` names a step by what `step` has returned for it."""

    collective: str
    ranks: int
    input_chunks: int
    output_chunks: int
    scratch_chunks: int = 0
    in_place: bool = True
    blocks: dict[tuple[int, int, int, int], list[str]] = field(default_factory=dict)

    def step(
        self,
        rank: int,
        kind: str,
        src: str = "i-1",
        dst: str = "o-1",
        *,
        send: int = -1,
        recv: int = -1,
        channel: int = 0,
        count: int = 1,
        after: tuple[int, int] = (-1, -1),
    ) -> tuple[int, int]:
        block = self.blocks.setdefault((rank, send, recv, channel), [])
        (number,) = (
            i
            for i, key in enumerate(key for key in self.blocks if key[0] == rank)
            if key == (rank, send, recv, channel)
        )
        block.append(
            f'      <step s="{len(block)}" type="{kind}" srcbuf="{src[0]}" srcoff="{src[1:]}" dstbuf="{dst[0]}" '
            f'dstoff="{dst[1:]}" cnt="{count}" depid="{after[0]}" deps="{after[1]}" hasdep="0"/>'
        )
        return number, len(block) - 1

    def text(self) -> str:
        lines = [
            f'<algo name="written" proto="Simple" nchannels="1" ngpus="{self.ranks}" coll="{self.collective}" '
            f'inplace="{int(self.in_place)}">'
        ]
        for rank in range(self.ranks):
            lines.append(
                f'  <gpu id="{rank}" i_chunks="{self.input_chunks}" o_chunks="{self.output_chunks}" '
                f's_chunks="{self.scratch_chunks}">'
            )
            mine = [(key, steps) for key, steps in self.blocks.items() if key[0] == rank]
            for number, ((_, send, recv, channel), steps) in enumerate(mine):
                lines.append(f'    <tb id="{number}" send="{send}" recv="{recv}" chan="{channel}">')
                lines += [*steps, "    </tb>"]
            lines.append("  </gpu>")
        return "\n".join([*lines, "</algo>", ""])


def msccl_ring_all_gather(ranks: int) -> str:
    file = MscclFile("allgather", ranks, 1, ranks)
    for rank in range(ranks):
        ends = {"send": (rank + 1) % ranks, "recv": (rank - 1) % ranks}
        for distance in range(ranks):
            cell = f"o{(rank - distance) % ranks}"
            kind = "s" if distance == 0 else "r" if distance == ranks - 1 else "rcs"
            file.step(rank, kind, cell, cell, **ends)
    return file.text()


def msccl_ring_all_reduce(ranks: int) -> str:
    file = MscclFile("allreduce", ranks, ranks, ranks)
    for rank in range(ranks):
        ends = {"send": (rank + 1) % ranks, "recv": (rank - 1) % ranks}
        for distance in range(2 * ranks - 1):
            cell = f"i{(rank - distance) % ranks}"
            kind = "rrs" if distance < ranks - 1 else "rcs"
            kind = {0: "s", ranks - 1: "rrcs", 2 * ranks - 2: "r"}.get(distance, kind)
            file.step(rank, kind, cell, cell, **ends)
    return file.text()


def msccl_ring_reduce_scatter(ranks: int) -> str:
    file = MscclFile("reduce_scatter", ranks, ranks, 1)
    for rank in range(ranks):
        ends = {"send": (rank + 1) % ranks, "recv": (rank - 1) % ranks}
        for distance in range(1, ranks + 1):
            cell = f"i{(rank - distance) % ranks}"
            kind = {1: "s", ranks: "rrc"}.get(distance, "rrs")
            file.step(rank, kind, cell, cell, **ends)
    return file.text()


def msccl_pairs_all_to_all(ranks: int) -> str:
    file = MscclFile("alltoall", ranks, ranks, ranks, in_place=False)
    for rank in range(ranks):
        file.step(rank, "cpy", f"i{rank}", f"o{rank}")
        for peer in range(ranks):
            if peer != rank:
                file.step(rank, "s", f"i{peer}", f"o{rank}", send=peer)
                file.step(rank, "r", f"i{rank}", f"o{peer}", recv=peer)
    return file.text()


def msccl_pairs_all_reduce(ranks: int) -> str:
    """Out of place: each rank adds its block of all others' inputs, which come to scratch, and sends it to all."""
    file = MscclFile("allreduce", ranks, ranks, ranks, scratch_chunks=ranks, in_place=False)
    for rank in range(ranks):
        others = [peer for peer in range(ranks) if peer != rank]
        came = {}
        for peer in others:
            file.step(rank, "s", f"i{peer}", f"s{rank}", send=peer)
            came[peer] = file.step(rank, "r", f"i{rank}", f"s{peer}", recv=peer)
        done = file.step(rank, "cpy", f"i{rank}", f"o{rank}")
        for peer in others:
            done = file.step(rank, "re", f"s{peer}", f"o{rank}", after=came[peer])
        for peer in others:
            file.step(rank, "s", f"o{rank}", f"o{rank}", send=peer, after=done)
            file.step(rank, "r", f"o{peer}", f"o{peer}", recv=peer)
    return file.text()


def msccl_exchange(ranks: int) -> str:
    """Recursive doubling on the whole buffer in place: both of a pair send what they then add to."""
    file = MscclFile("allreduce", ranks, 1, 1)
    distance = 1
    while distance < ranks:
        for rank in range(ranks):
            # All in one threadblock for each peer; the steps of one wait for the add before.
            peer = rank ^ distance
            before = rank ^ (distance // 2)
            number = [0, 0, 1, 1, 2][distance] - 1
            after = (number, 1) if distance > 1 and before != rank else (-1, -1)
            file.step(rank, "s", "i0", "i0", send=peer, recv=peer, after=after)
            file.step(rank, "rrc", "i0", "i0", send=peer, recv=peer)
        distance *= 2
    return file.text()


class MscclppFile:
    """An MSCCL++ execution plan, operation by operation, each threadblock of which is for one peer."""

    def __init__(
        self,
        collective: str,
        ranks: int,
        chunks: tuple[int, int, int],
        *,
        in_place: bool = True,
        buffers: str = "ios",
    ) -> None:
        self.ranks = ranks
        self.content: dict[str, Any] = {
            "name": "written",
            "collective": collective,
            "protocol": "Simple",
            "inplace": in_place,
            "gpus": [self._gpu(rank, chunks, buffers) for rank in range(ranks)],
        }

    def _gpu(self, rank: int, chunks: tuple[int, int, int], buffers: str) -> dict[str, Any]:
        peers = [peer for peer in range(self.ranks) if peer != rank]
        names = ("input_chunks", "output_chunks", "scratch_chunks")
        return {
            "id": rank,
            **dict(zip(names, chunks, strict=True)),
            "threadblocks": [
                {
                    "id": number,
                    "ops": [],
                    "channels": [{"channel_type": "memory", "channel_ids": [number]}],
                    "remote_buffer_refs": [
                        {
                            "access_channel_type": "memory",
                            "remote_buffer_ids": [
                                len(buffers) * number + i for i in range(len(buffers))
                            ],
                        }
                    ],
                }
                for number in range(len(peers))
            ],
            "channels": [{"channel_type": "memory", "connected_to": peers}],
            "remote_buffers": [
                {"rank": peer, "type": letter, "access_channel_types": ["memory"]}
                for peer in peers
                for letter in buffers
            ],
            "semaphores": [],
        }

    def block(self, rank: int, peer: int) -> list[dict[str, Any]]:
        """The operations of the threadblock for a peer."""
        number = peer - (peer > rank)
        operations: list[dict[str, Any]] = self.content["gpus"][rank]["threadblocks"][number]["ops"]
        return operations

    def add(
        self, rank: int, peer: int, name: str, src: Any = (), dst: Any = (), **more: Any
    ) -> None:
        """An operation; cells are a letter and a number, those of the peer with a + before them."""
        operation: dict[str, Any] = {"name": name}
        for end, cells in (("src_buff", src), ("dst_buff", dst)):
            listed = [cells] if isinstance(cells, str) else list(cells)
            if listed:
                operation[end] = [self._cells(text) for text in listed]
        if "signal" in name or "wait" in name:
            operation["channel_ids"] = [0]
        self.block(rank, peer).append({**operation, "channel_type": "memory", **more})

    @staticmethod
    def _cells(text: str) -> dict[str, Any]:
        if text[0] == "+":
            return {"buffer_id": "ios".index(text[1]), "index": int(text[2:]), "size": 1}
        return {"type": text[0], "index": int(text[1:]), "size": 1}

    def text(self) -> str:
        return json.dumps(self.content, indent=1)


def mscclpp_pairs_all_gather(ranks: int) -> str:
    file = MscclppFile("allgather", ranks, (1, ranks, 0))
    for rank in range(ranks):
        for peer in range(ranks):
            if peer != rank:
                file.add(rank, peer, "put", f"o{rank}", f"+o{rank}")
                file.add(rank, peer, "signal")
                file.add(rank, peer, "wait")
    return file.text()


def mscclpp_packets_all_reduce(ranks: int) -> str:
    """In one step: all parts go to all ranks as packets."""
    file = MscclppFile("allreduce", ranks, (1, 1, ranks))
    for rank in range(ranks):
        peers = [peer for peer in range(ranks) if peer != rank]
        for peer in peers:
            file.add(rank, peer, "ppkt", "i0", f"+s{rank}")
        count = len(peers)
        for peer in peers:
            file.add(rank, peer, "barrier", barrier_id=0, num_threadblocks=count)
        packets = [f"s{peer}" for peer in peers]
        file.add(rank, peers[0], "repkt", ["i0", *packets], "i0", reduce_op="sum")
    return file.text()


def mscclpp_reading_reduce_scatter(ranks: int) -> str:
    """Each rank reads its block of all others, in the order of the ranks."""
    file = MscclppFile("reducescatter", ranks, (ranks, 1, 0), in_place=False)
    for rank in range(ranks):
        peers = [peer for peer in range(ranks) if peer != rank]
        file.content["gpus"][rank]["semaphores"] = [{"init_value": 0} for _ in peers]
        file.add(rank, peers[0], "copy", f"i{rank}", "o0")
        for number, peer in enumerate(peers):
            if number:
                file.add(rank, peer, "sem_acquire", semaphore_ids=[number - 1])
            file.add(rank, peer, "nop")
            file.add(rank, peer, "rre", ["o0", f"+i{rank}"], "o0", reduce_op="sum")
            file.add(rank, peer, "sem_release", semaphore_ids=[number])
        file.add(rank, peers[-1], "sem_acquire", semaphore_ids=[len(peers) - 1])
    return file.text()


def mscclpp_pairs_all_to_all(ranks: int) -> str:
    """Pulled, in two halves by groups of two threadblocks that stand in one pipeline."""
    file = MscclppFile("alltoall", ranks, (ranks, ranks, 0), in_place=False)
    for rank in range(ranks):
        peers = [peer for peer in range(ranks) if peer != rank]
        file.add(rank, peers[0], "copy", f"i{rank}", f"o{rank}")
        for peer in peers:
            for half in range(2):
                group = {"tb_id": half, "tbg_size": 2}
                operation = {
                    "name": "get",
                    "src_buff": [{"buffer_id": 0, "index": rank, "size": 1}],
                    "dst_buff": [{"type": "o", "index": peer, "size": 1}],
                    "channel_type": "memory",
                    "tbg_info": group,
                }
                context = {"unit_size": 1024, "num_chunks": 1}
                pipeline = {"name": "pipeline", "iter_context": context, "ops": [operation]}
                file.block(rank, peer).append(pipeline)
    return file.text()


def mscclpp_broadcast(ranks: int, root: int, *, in_place: bool = True) -> str:
    """Two chunks go from the root around; every rank waits for them before it passes them on."""
    file = MscclppFile("broadcast", ranks, (2, 2, 0), in_place=in_place)
    if not in_place:
        for chunk in range(2):
            file.add(root, (root + 1) % ranks, "copy", f"i{chunk}", f"o{chunk}")
    for chunk in range(2):
        for step in range(ranks - 1):
            rank, there = (root + step) % ranks, (root + step + 1) % ranks
            if step:
                file.add(rank, (rank - 1) % ranks, "wait")
                file.add(rank, (rank - 1) % ranks, "sem_release", semaphore_ids=[0])
                file.add(rank, there, "sem_acquire", semaphore_ids=[0])
            memory = "i" if step == 0 else "o"
            file.add(rank, there, "put", f"{memory}{chunk}", f"+o{chunk}")
            file.add(rank, there, "signal")
    for _ in range(2):
        file.add((root - 1) % ranks, (root - 2) % ranks, "wait")
    for gpu in file.content["gpus"]:
        gpu["semaphores"] = [{"init_value": 0}]
    return file.text()


def taccl_file(
    name: str,
    ranks: int,
    inputs: list[list[int]],
    outputs: list[list[int]],
    steps: list[list[list[Any]]],
) -> str:
    content = {
        "sccl_type": "algorithm",
        "name": f"{name}-written",
        "instance": {"sccl_type": "instance", "steps": len(steps)},
        "input_map": {str(rank): addresses for rank, addresses in enumerate(inputs)},
        "output_map": {str(rank): addresses for rank, addresses in enumerate(outputs)},
        "steps": [{"sccl_type": "step", "rounds": 1, "sends": sends} for sends in steps],
        "collective": {"sccl_type": "collective", "name": f"{name}(n={ranks})", "nodes": ranks},
        "topology": {"sccl_type": "topology", "name": "all"},
    }
    return json.dumps(content, indent=1)


def taccl_ring_all_gather(ranks: int) -> str:
    steps = [
        [[(rank - step) % ranks, rank, (rank + 1) % ranks, float(step), 0] for rank in range(ranks)]
        for step in range(ranks - 1)
    ]
    everything = [list(range(ranks))] * ranks
    return taccl_file("Allgather", ranks, [[rank] for rank in range(ranks)], everything, steps)


def _taccl_reducing(ranks: int) -> list[list[list[Any]]]:
    return [
        [
            [(rank - step - 1) % ranks, rank, (rank + 1) % ranks, float(step), 0, "rrc"]
            for rank in range(ranks)
        ]
        for step in range(ranks - 1)
    ]


def taccl_ring_reduce_scatter(ranks: int) -> str:
    everything = [list(range(ranks))] * ranks
    own = [[rank] for rank in range(ranks)]
    return taccl_file("ReduceScatter", ranks, everything, own, _taccl_reducing(ranks))


def taccl_ring_all_reduce(ranks: int) -> str:
    gathering = [
        [
            [(rank - step) % ranks, rank, (rank + 1) % ranks, float(step), 0, None]
            for rank in range(ranks)
        ]
        for step in range(ranks - 1)
    ]
    everything = [list(range(ranks))] * ranks
    steps = _taccl_reducing(ranks) + gathering
    return taccl_file("Allreduce", ranks, everything, everything, steps)


def taccl_ring_all_to_all(ranks: int) -> str:
    """Blocks go on from rank to rank, through scratch on the way."""
    steps = [
        [
            [dst * ranks + src, (src + step) % ranks, (src + step + 1) % ranks, float(step), 0]
            for src in range(ranks)
            for dst in range(ranks)
            if (dst - src) % ranks > step
        ]
        for step in range(ranks - 1)
    ]
    inputs = [[dst * ranks + rank for dst in range(ranks)] for rank in range(ranks)]
    outputs = [[rank * ranks + src for src in range(ranks)] for rank in range(ranks)]
    return taccl_file("Alltoall", ranks, inputs, outputs, steps)


FILES: Mapping[str, tuple[str, str, Callable[[int], str]]] = {
    writer.__name__: (form, collective, writer)
    for form, collective, writer in [
        ("msccl-xml", "all_gather", msccl_ring_all_gather),
        ("msccl-xml", "all_reduce", msccl_ring_all_reduce),
        ("msccl-xml", "reduce_scatter", msccl_ring_reduce_scatter),
        ("msccl-xml", "all_to_all", msccl_pairs_all_to_all),
        ("msccl-xml", "all_reduce", msccl_pairs_all_reduce),
        ("mscclpp-json", "all_gather", mscclpp_pairs_all_gather),
        ("mscclpp-json", "all_reduce", mscclpp_packets_all_reduce),
        ("mscclpp-json", "reduce_scatter", mscclpp_reading_reduce_scatter),
        ("mscclpp-json", "all_to_all", mscclpp_pairs_all_to_all),
        ("taccl-json", "all_gather", taccl_ring_all_gather),
        ("taccl-json", "reduce_scatter", taccl_ring_reduce_scatter),
        ("taccl-json", "all_reduce", taccl_ring_all_reduce),
        ("taccl-json", "all_to_all", taccl_ring_all_to_all),
    ]
}
"""By name, the format, the collective, and what writes the file for so many ranks."""
