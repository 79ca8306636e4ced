"""Attention workloads as their users load them, and what torch makes of them in float32."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass
from typing import Any

import torch

from syncopate.plan.sequence import Sharding
from syncopate.runtime import Group
from syncopate.workloads import AttentionKind, AttentionWorkload

__all__ = ["DOUBLE_RING", "KINDS", "KindCase"]

CALLS = 10


def _attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, head_dim: int, causal: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs [rows, heads · head_dim] and logarithms [heads, rows] of queries that are the last ones of the keys."""
    q, k, v = (x.float().view(len(x), -1, head_dim).transpose(0, 1) for x in (q, k, v))
    k, v = (x.repeat_interleave(len(q) // len(k), 0) for x in (k, v))
    scores = q @ k.transpose(1, 2) * head_dim**-0.5
    if causal:
        kept = torch.ones(scores.shape[1:], dtype=torch.bool, device="cuda").tril()
        scores = scores.masked_fill(~kept, float("-inf"))
    return (scores.softmax(2) @ v).transpose(0, 1).flatten(1), scores.logsumexp(2)


@dataclass(frozen=True)
class KindCase:
    """A workload of as many ranks as there are.

    Attributes:
        kind: Who has what.
        sequence: Elements of the sequence, or keys of each sequence.
        more: Other fields of the workload.
    """

    kind: AttentionKind
    sequence: int
    more: tuple[tuple[str, Any], ...] = ()

    def workload(self, world: int) -> AttentionWorkload:
        """The workload."""
        return AttentionWorkload(
            self.kind, 12, 6, 64, self.sequence, world, **dict(self.more), dtype="bf16"
        )

    def run(self, group: Group, num_ctas: int) -> None:
        """Loads it and compares the results of some calls."""
        work = self.workload(group.world_size)
        config = dataclasses.replace(work.choose_config(), num_ctas=num_ctas)
        with work.load(group, config=config, timeout=10.0) as loaded:
            for seed in range(CALLS):
                (self._run_decode if self.kind is AttentionKind.DECODE else self._run)(
                    work, group, loaded, seed
                )
            loaded.synchronize()

    def _run(self, work: AttentionWorkload, group: Group, loaded: Any, seed: int) -> None:
        generator = torch.Generator("cuda").manual_seed(seed)
        shards, whole = work.shards, {}
        for name, width in zip("qkv", (work.row[0], work.row[1], work.row[1]), strict=True):
            size = (work.sequence, width)
            whole[name] = torch.randn(size, generator=generator, device="cuda").bfloat16()
        wanted, logs = [], []
        for begin, end in itertools.pairwise(work.cu_seqlens or (0, work.sequence)):
            parts = (whole[name][begin:end] for name in "qkv")
            out, lse = _attend(*parts, work.head_dim, work.causal)
            wanted.append(out)
            logs.append(lse)
        out, lse = torch.cat(wanted), torch.cat(logs, 1)
        full = work.sharding is Sharding.ZIGZAG
        given: dict[str, list[torch.Tensor]] = {name: [] for name in "qkv"}
        for rank in group.local_ranks:
            places = torch.from_numpy(shards.positions(rank)).cuda().long()
            for name, x in whole.items():
                padded = torch.where(places[:, None] >= 0, x[places], 0)
                short = not full and (name != "q" or self.kind is AttentionKind.ULYSSES)
                given[name].append(padded[places >= 0] if short else padded)
        results = loaded(**(given if len(group.local_ranks) > 1 else _first(given)))
        results = results if len(group.local_ranks) > 1 else [results]
        heads = work.batch * work.heads // work.world_size
        for rank, (o, found) in zip(group.local_ranks, results, strict=True):
            places = torch.from_numpy(shards.positions(rank)).cuda().long()
            has = places >= 0
            if self.kind is AttentionKind.ULYSSES:
                own, found_logs, logs_of_rank = o, found, lse[rank * heads : (rank + 1) * heads]
            else:
                own, found_logs, logs_of_rank = o[has], found[:, has], lse[:, places[has]]
            # Weights and outputs are rounded to 8 bits; outputs are at most of the order of 1.
            torch.testing.assert_close(own.float(), out[places[has]], rtol=2e-2, atol=2e-2)
            torch.testing.assert_close(found_logs, logs_of_rank, rtol=1e-4, atol=1e-4)

    def _run_decode(self, work: AttentionWorkload, group: Group, loaded: Any, seed: int) -> None:
        generator = torch.Generator("cuda").manual_seed(seed)
        world, size = work.world_size, (work.batch * work.capacity, work.row[1])

        def draw(size: tuple[int, ...]) -> torch.Tensor:
            return torch.randn(size, generator=generator, device="cuda").bfloat16()

        q = draw((work.batch, work.row[0]))
        k, v = ([draw(size) for _ in range(world)] for _ in range(2))
        lengths = torch.randint(
            1,
            work.capacity + 1,
            (world, work.batch),
            generator=generator,
            device="cuda",
            dtype=torch.int32,
        )
        ranks = group.local_ranks
        # Cloned, since a row of a matrix may start anywhere, and kernels want multiples of 16 bytes.
        given = {"q": [q for _ in ranks], "lengths": [lengths[rank].clone() for rank in ranks]}
        given |= {name: [x[rank] for rank in ranks] for name, x in (("k", k), ("v", v))}
        results = loaded(**(given if len(ranks) > 1 else _first(given)))
        for o, lse in results if len(ranks) > 1 else [results]:
            for sequence in range(work.batch):
                first = sequence * work.capacity
                keys, values = (
                    torch.cat(
                        [
                            x[rank][first : first + int(lengths[rank, sequence])]
                            for rank in range(world)
                        ]
                    )
                    for x in (k, v)
                )
                out, logs = _attend(
                    q[sequence : sequence + 1], keys, values, work.head_dim, causal=False
                )
                torch.testing.assert_close(o[sequence].float(), out[0], rtol=2e-2, atol=2e-2)
                torch.testing.assert_close(lse[sequence], logs[:, 0], rtol=1e-4, atol=1e-4)


def _first(given: dict[str, list[torch.Tensor]]) -> dict[str, torch.Tensor]:
    return {name: each[0] for name, each in given.items()}


def _case(kind: AttentionKind, sequence: int, **more: Any) -> KindCase:
    return KindCase(kind, sequence, tuple(more.items()))


KINDS = {
    "zig-zag ring": _case(AttentionKind.RING, 1501, causal=True, sharding=Sharding.ZIGZAG),
    "packed": _case(AttentionKind.RING, 1501, causal=True, cu_seqlens=(0, 300, 301, 900, 1501)),
    "packed, batch of two": _case(
        AttentionKind.SEQUENCE_PARALLEL, 1000, batch=2, cu_seqlens=(0, 128, 1000)
    ),
    "ulysses": _case(AttentionKind.ULYSSES, 1001),
    "ulysses, causal": _case(AttentionKind.ULYSSES, 2048, causal=True),
    "decode": _case(AttentionKind.DECODE, 3001, batch=3),
}
DOUBLE_RING = _case(AttentionKind.RING, 1502, causal=True, sharding=Sharding.ZIGZAG, node_size=2)
"""Of an even number of ranks."""
