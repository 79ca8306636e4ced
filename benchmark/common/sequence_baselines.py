"""Attention of a shared sequence by torch's operators and NCCL, as users write it; what all ways are checked with."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
import torch.distributed as dist
from benchmark.common.attention_kernel import launch
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor.experimental import context_parallel
from torch.distributed.tensor.experimental._attention import _cp_options
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right

from syncopate import Strategy
from syncopate.choices import Realization
from syncopate.kernels import AttentionConfig
from syncopate.plan.sequence import Sharding
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
        self.workload, self.rank = workload, rank
        self.rows: list[tuple[torch.Tensor, ...]] = []
        self.heads: list[tuple[torch.Tensor, ...]] = []
        self.whole: list[tuple[torch.Tensor, ...]] = []
        self.references: list[torch.Tensor] = []
        dtype = {"f16": torch.float16, "bf16": torch.bfloat16}[workload.dtype]
        wide, narrow = workload.row
        for seed in range(sets):
            generator = torch.Generator(device).manual_seed(seed)
            q, k, v = (
                torch.randn((workload.sequence, width), generator=generator, device=device).to(
                    dtype
                )
                for width in (wide, narrow, narrow)
            )
            self.rows.append(tuple(self._own(each) for each in (q, k, v)))
            self.heads.append(tuple(map(self.split, self.rows[-1])))
            self.whole.append((self.split(k), self.split(v)))
            self.references.append(self._attend(*self.heads[-1][:1], *self.whole[-1]))

    @property
    def ranges(self) -> Sequence[tuple[int, int]]:
        """Where the rank's blocks of the sequence begin and end."""
        return self.workload.shards.ranges(self.rank)

    def _own(self, whole: torch.Tensor) -> torch.Tensor:
        """A rank's rows."""
        return torch.cat([whole[begin:end] for begin, end in self.ranges])

    def split(self, rows: torch.Tensor) -> torch.Tensor:
        """As torch's operators take it."""
        work = self.workload
        parts = rows.view(rows.shape[0], work.batch, -1, work.head_dim)
        return parts.permute(1, 2, 0, 3).contiguous()

    def _attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """A head at a time, a part of its queries at a time."""
        out = torch.empty(q.shape, device=q.device)
        group = q.shape[1] // k.shape[1]
        places = torch.cat([torch.arange(*each, device=q.device) for each in self.ranges])
        columns = torch.arange(k.shape[2], device=q.device)
        for batch in range(q.shape[0]):
            for head in range(q.shape[1]):
                keys, values = k[batch, head // group].float(), v[batch, head // group].float()
                for begin in range(0, q.shape[2], 2048):
                    some = slice(begin, begin + 2048)
                    scores = q[batch, head, some].float() @ keys.T * q.shape[3] ** -0.5
                    if self.workload.causal:
                        scores.masked_fill_(columns > places[some, None], float("-inf"))
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
        """By name, what attends with input set `i`; outputs as `SequenceData.heads` has queries."""
        attend = self._exchange_and_attend if self.exchanges else self._gather_and_attend
        calls: dict[str, Callable[[int], torch.Tensor]] = {
            "sdpa_nccl": attend,
            "cudnn_nccl": functools.partial(_within, SDPBackend.CUDNN_ATTENTION, attend),
            "flash_nccl": functools.partial(_within, SDPBackend.FLASH_ATTENTION, attend),
            "kernel_nccl": self._move_and_launch,
        }
        if not self.exchanges:
            calls["torch_cp"] = self._context_parallel
            if not self.workload.causal and self.workload.heads == self.workload.kv_heads:
                calls["ring_sdpa"] = self._ring
        return calls

    def alone(self) -> dict[str, Callable[[int], torch.Tensor]]:
        """By name, attention of one rank on data that has been moved: torch's ways, and the local kernel."""
        return {
            "sdpa": self._attend_whole,
            "cudnn": functools.partial(_within, SDPBackend.CUDNN_ATTENTION, self._attend_whole),
            "flash": functools.partial(_within, SDPBackend.FLASH_ATTENTION, self._attend_whole),
            "kernel": self._launch_whole,
        }

    def _attend_whole(self, i: int) -> torch.Tensor:
        return self._attend(*self._moved[i])

    @functools.cached_property
    def _moved(self) -> list[tuple[torch.Tensor, ...]]:
        """Of each set, queries, keys and values that a rank computes with."""
        sets = [
            (heads[0], *whole)
            for heads, whole in zip(self.data.heads, self.data.whole, strict=True)
        ]
        if not self.exchanges:
            return sets
        # Whatever queries: those of some rows stand for all.
        world = self.workload.world_size
        return [
            tuple(
                each.chunk(world, dim=1)[0].contiguous()
                for each in (q.repeat(1, 1, world, 1), k, v)
            )
            for q, k, v in sets
        ]

    def _attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Attention to all keys; of a causal one, each block of queries to those up to its own places."""
        sdpa = functools.partial(
            torch.nn.functional.scaled_dot_product_attention, enable_gqa=q.shape[1] != k.shape[1]
        )
        if not self.workload.causal:
            return sdpa(q, k, v)
        if self.exchanges:
            return sdpa(q, k, v, is_causal=True)
        done, row = [], 0
        for begin, end in self.data.ranges:
            mask = causal_lower_right(end - begin, end)
            some = q[:, :, row : row + end - begin]
            done.append(sdpa(some, k[:, :, :end], v[:, :, :end], attn_mask=mask))
            row += end - begin
        return torch.cat(done, dim=2)

    def _launch_whole(self, i: int) -> torch.Tensor:
        return self._launch(*self._joined[i])

    @functools.cached_property
    def _joined(self) -> list[tuple[torch.Tensor, ...]]:
        """What `_moved` gives, as the local kernel takes it."""
        return [tuple(map(_join, each)) for each in self._moved]

    def _launch(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """The local kernel, as it is bound in the workload; rows of all heads."""
        work = self.workload
        out = torch.empty_like(q)
        lse = torch.empty((q.shape[1] // work.head_dim, len(q)), device=q.device)
        config = work.choose_config(Strategy(realization=Realization.COPY_ENGINE))
        assert isinstance(config, AttentionConfig)
        positions = None
        if work.causal and not self.exchanges:
            positions = torch.from_numpy(work.shards.positions(self.data.rank)).to(q.device)
        launch((q, k, v), out, lse, work.head_dim, config, causal=work.causal, positions=positions)
        return out

    def _move_and_launch(self, i: int) -> torch.Tensor:
        """The local kernel, behind NCCL, and in front of it where outputs move."""
        q, k, v = self.data.rows[i]
        if not self.exchanges:
            return self.data.split(self._launch(q, *map(self._gather_rows, (k, v))))
        own = [self._exchange_rows(each) for each in (q, k, v)]
        out = self._launch(*own)
        world, rows = self.workload.world_size, self.workload.rows
        moved = torch.empty_like(out)
        dist.all_to_all_single(moved, out)
        return self.data.split(moved.view(world, rows, -1).transpose(0, 1).reshape(rows, -1))

    def _exchange_rows(self, x: torch.Tensor) -> torch.Tensor:
        """From all heads of some rows to some heads of all rows."""
        world, rows = self.workload.world_size, len(x)
        parts = x.view(rows, world, -1).transpose(0, 1).contiguous()
        moved = torch.empty_like(parts)
        dist.all_to_all_single(moved, parts)
        return moved.view(world * rows, -1)

    def _gather_rows(self, x: torch.Tensor) -> torch.Tensor:
        moved = torch.empty((self.workload.world_size, *x.shape), dtype=x.dtype, device=x.device)
        dist.all_gather_into_tensor(moved, x)
        return self._order(moved, 1).flatten(0, 1)

    def _order(self, parts: torch.Tensor, dim: int) -> torch.Tensor:
        """Parts of all ranks, in dimension `dim` - 1, as parts of the sequence."""
        if self.workload.sharding is not Sharding.ZIGZAG:
            return parts
        first, second = parts.chunk(2, dim=dim)
        return torch.cat([first, second.flip(dim - 1)], dim=dim - 1)

    @functools.cached_property
    def _mesh(self) -> DeviceMesh:
        return init_device_mesh("cuda", (self.workload.world_size,))

    def _context_parallel(self, i: int) -> torch.Tensor:
        """The context parallelism of torch, which passes keys and values on, or gathers them."""
        q, k, v = self.data.heads[i]
        # It wants something to shard, from which it takes the device. What is computed with is sharded already.
        anything = torch.empty(2 * self.workload.world_size, device=q.device)
        # Not to share out what is not causal is none of its arguments.
        _cp_options.enable_load_balance = self.workload.causal
        out, failed = q, None
        with context_parallel(
            self._mesh,
            buffers=[anything],
            buffer_seq_dims=[0],
            no_restore_buffers={anything},
        ):
            # An error that leaves the context leaves torch's attention as it is within.
            try:
                out = torch.nn.functional.scaled_dot_product_attention(
                    q, k, v, is_causal=self.workload.causal, enable_gqa=q.shape[1] != k.shape[1]
                )
            except Exception as error:
                failed = error
        if failed is not None:
            raise failed
        return out

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
        return self._to_rows(self._attend(q, k, v))

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
        parts = self._order(moved.permute(1, 2, 0, 3, 4), 3)
        return parts.reshape(batch, heads, world * rows, dim)

    def _gather_and_attend(self, i: int) -> torch.Tensor:
        q, k, v = self.data.heads[i]
        return self._attend(q, self._gather(k), self._gather(v))

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


def _within(backend: SDPBackend, attend: Callable[[int], torch.Tensor], i: int) -> torch.Tensor:
    """Attends by one of torch's implementations."""
    with sdpa_kernel(backend):
        return attend(i)


def _join(heads: torch.Tensor) -> torch.Tensor:
    """From [batch, heads, rows, head_dim] to [rows, batch · heads · head_dim]."""
    return heads.permute(2, 0, 1, 3).flatten(1).contiguous()


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
