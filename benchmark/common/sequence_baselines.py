"""Attention of a shared sequence by torch's operators and NCCL, as users write it; what all ways are checked with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
import torch.distributed as dist

from syncopate.workloads import AttentionKind, AttentionWorkload

__all__ = ["Partial", "SequenceBaselines", "SequenceData", "attend_in_turn"]

Partial = tuple[torch.Tensor, torch.Tensor]
"""Outputs, [batch, heads, rows, head_dim], and logarithms of sums of exponentials of scores, [batch, heads, rows]."""


class SequenceData:
    """Random queries, keys and values of one rank in a few sets, and what comes of each in float32.

    Attributes:
        rows: Of each set, queries, keys and values as our programs take them: [rows, batch · heads · head_dim].
        heads: The same as torch's operators take them: [batch, heads, rows, head_dim].
        whole: Of each set, all keys and values as torch's operators take them.
        references: Outputs in float32, like `heads`.
    """

    def __init__(
        self, workload: AttentionWorkload, rank: int, sets: int, device: torch.device
    ) -> None:
        self.workload = workload
        begin = rank * workload.rows
        own = slice(begin, begin + workload.rows)
        self.rows: list[tuple[torch.Tensor, ...]] = []
        self.heads: list[tuple[torch.Tensor, ...]] = []
        self.whole: list[tuple[torch.Tensor, ...]] = []
        self.references: list[torch.Tensor] = []
        size = (workload.sequence, workload.row[0])
        for seed in range(sets):
            generator = torch.Generator(device).manual_seed(seed)
            q, k, v = (torch.randn(size, generator=generator, device=device).half() for _ in "qkv")
            self.rows.append(tuple(each[own].clone() for each in (q, k, v)))
            self.heads.append(tuple(self.split(each[own]) for each in (q, k, v)))
            self.whole.append((self.split(k), self.split(v)))
            self.references.append(self._attend(*self.heads[-1][:1], *self.whole[-1]))

    def split(self, rows: torch.Tensor) -> torch.Tensor:
        """As torch's operators take it."""
        work = self.workload
        parts = rows.view(rows.shape[0], work.batch, -1, work.head_dim)
        return parts.permute(1, 2, 0, 3).contiguous()

    def _attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """A head at a time, a part of its queries at a time."""
        out = torch.empty(q.shape, device=q.device)
        for batch in range(q.shape[0]):
            for head in range(q.shape[1]):
                keys, values = k[batch, head].float(), v[batch, head].float()
                for begin in range(0, q.shape[2], 2048):
                    some = slice(begin, begin + 2048)
                    scores = q[batch, head, some].float() @ keys.T * q.shape[3] ** -0.5
                    out[batch, head, some] = scores.softmax(1) @ values
        return out

    def check_rows(self, call: Callable[[int], torch.Tensor], calls: int) -> float:
        """The largest relative error of outputs of our programs, over consecutive calls; NaN if any has one."""
        found = [
            self._error(self.split(call(i % len(self.rows))), i % len(self.rows))
            for i in range(calls)
        ]
        return float(torch.stack(found).max())

    def check_heads(self, call: Callable[[int], torch.Tensor]) -> float:
        """The same of torch's, one call with each set."""
        return float(torch.stack([self._error(call(i), i) for i in range(len(self.rows))]).max())

    def _error(self, out: torch.Tensor, index: int) -> torch.Tensor:
        reference = self.references[index]
        return (out.float() - reference).norm() / reference.norm()


class SequenceBaselines:
    """What users run today, on one rank."""

    def __init__(self, workload: AttentionWorkload, data: SequenceData) -> None:
        self.workload, self.data = workload, data
        self.exchanges = workload.kind is AttentionKind.ULYSSES

    def calls(self) -> dict[str, Callable[[int], torch.Tensor]]:
        """By name, what attends with input set `i`."""
        calls: dict[str, Callable[[int], torch.Tensor]] = {
            "sdpa_nccl": self._exchange_and_attend if self.exchanges else self._gather_and_attend
        }
        if not self.exchanges:
            calls["ring_sdpa"] = self._ring
        return calls

    def attend_whole(self, i: int) -> torch.Tensor:
        """Attention of one rank on data that has been moved."""
        q, (k, v) = self.data.heads[i][0], self.data.whole[i]
        if self.exchanges:
            # Some heads of all queries are as many pairs as all heads of some.
            some = slice(q.shape[1] // self.workload.world_size)
            q = k[:, some]
            k, v = k[:, some], v[:, some]
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    def communicate(self, i: int) -> torch.Tensor:
        """What NCCL moves, alone."""
        q, k, v = self.data.heads[i]
        if self.exchanges:
            for each in (q, k, v, q):
                moved = torch.empty_like(each).view(-1)
                dist.all_to_all_single(moved, each.view(-1))
            return moved
        self._gather(k)
        return self._gather(v)

    def _exchange_and_attend(self, i: int) -> torch.Tensor:
        """DeepSpeed's Ulysses: heads for rows, attention, rows for heads."""
        q, k, v = (self._to_heads(each) for each in self.data.heads[i])
        return self._to_rows(torch.nn.functional.scaled_dot_product_attention(q, k, v))

    def _to_heads(self, x: torch.Tensor) -> torch.Tensor:
        """From all heads of some rows to some heads of all rows."""
        batch, heads, rows, dim = x.shape
        world = self.workload.world_size
        parts = x.view(batch, world, heads // world, rows, dim).transpose(0, 1).contiguous()
        moved = torch.empty_like(parts)
        dist.all_to_all_single(moved, parts)
        return moved.permute(1, 2, 0, 3, 4).reshape(batch, heads // world, world * rows, dim)

    def _to_rows(self, x: torch.Tensor) -> torch.Tensor:
        """And back."""
        batch, heads, rows, dim = x.shape
        world = self.workload.world_size
        parts = x.view(batch, heads, world, rows // world, dim).permute(2, 0, 1, 3, 4).contiguous()
        moved = torch.empty_like(parts)
        dist.all_to_all_single(moved, parts)
        return moved.transpose(0, 1).reshape(batch, world * heads, rows // world, dim)

    def _gather(self, x: torch.Tensor) -> torch.Tensor:
        world, (batch, heads, rows, dim) = self.workload.world_size, x.shape
        moved = torch.empty((world, *x.shape), dtype=x.dtype, device=x.device)
        dist.all_gather_into_tensor(moved, x)
        return moved.permute(1, 2, 0, 3, 4).reshape(batch, heads, world * rows, dim)

    def _gather_and_attend(self, i: int) -> torch.Tensor:
        q, k, v = self.data.heads[i]
        return torch.nn.functional.scaled_dot_product_attention(q, self._gather(k), self._gather(v))

    def _ring(self, i: int) -> torch.Tensor:
        """Keys and values go on to the next rank while those that are here are used."""
        q, k, v = self.data.heads[i]
        held: Sequence[torch.Tensor] = (k, v)
        world, rank = self.workload.world_size, dist.get_rank()

        def blocks() -> Iterator[Sequence[torch.Tensor]]:
            nonlocal held
            for step in range(world):
                works, coming = [], [torch.empty_like(each) for each in held]
                if step < world - 1:
                    moves = [dist.P2POp(dist.isend, each, (rank + 1) % world) for each in held]
                    moves += [dist.P2POp(dist.irecv, each, (rank - 1) % world) for each in coming]
                    works = dist.batch_isend_irecv(moves)
                yield held
                for work in works:
                    work.wait()
                held = coming

        return attend_in_turn(q, blocks(), attend_by_flash)


def attend_by_flash(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Partial:
    """Flash attention of torch, which gives logarithms."""
    found = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v)
    return found[0], found[1]


def attend_in_turn(
    q: torch.Tensor,
    blocks: Iterable[Sequence[torch.Tensor]],
    attend: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Partial],
) -> torch.Tensor:
    """Attention to some blocks of keys and values, one after the other, whose partial outputs are merged."""
    out, lse = None, None
    for k, v in blocks:
        part, logs = attend(q, k, v)
        if out is None or lse is None:
            out, lse = part.float(), logs
            continue
        both = torch.logaddexp(lse, logs)
        out = out * (lse - both).exp()[..., None] + part.float() * (logs - both).exp()[..., None]
        lse = both
    assert out is not None
    return out.to(q.dtype)
