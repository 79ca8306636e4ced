"""Carries out plain plans on this rank: transfers on a side stream, pieces of the GEMM by cuBLAS on the main one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
import torch.distributed as dist
from benchmark.common.plain_plan import PlainPlan, Transfer

__all__ = ["Copies", "Lanes", "Mover", "PlainRun", "SendReceive", "Streams"]


class Mover(Protocol):
    """Who carries steps out. All ranks make the same calls, in the same order."""

    @property
    def buffers(self) -> Mapping[str, torch.Tensor]:
        """The plan's buffers of this rank, by name."""

    def move(self, step: Sequence[Transfer]) -> None:
        """Enqueues this rank's part of a step on the current stream."""

    def end(self) -> None:
        """Enqueues what has to be done before the buffers may be used for something else."""


class SendReceive:
    """By sends and receives of torch.distributed, those of a step as one group."""

    def __init__(self, plan: PlainPlan, dtype: torch.dtype, device: str = "cuda") -> None:
        self.rank = dist.get_rank()
        self.buffers = {
            name: torch.zeros(shape, dtype=dtype, device=device)
            for name, shape in plan.buffers.items()
        }

    def move(self, step: Sequence[Transfer]) -> None:
        """Packs what does not lie in one piece; adds what has come on this stream."""
        operations, arrived = [], []
        for transfer in step:
            src = self.buffers[transfer.src][transfer.src_box.slices]
            dst = self.buffers[transfer.dst][transfer.dst_box.slices]
            if transfer.src_rank == transfer.dst_rank == self.rank:
                _put(dst, src, transfer.sums)
            elif transfer.src_rank == self.rank:
                operations.append(dist.P2POp(dist.isend, src.contiguous(), transfer.dst_rank))
            elif transfer.dst_rank == self.rank:
                into = dst
                if transfer.sums or not dst.is_contiguous():
                    into = torch.empty_like(dst, memory_format=torch.contiguous_format)
                    arrived.append((dst, into, transfer.sums))
                operations.append(dist.P2POp(dist.irecv, into, transfer.src_rank))
        for request in dist.batch_isend_irecv(operations) if operations else ():
            request.wait()
        for dst, src, sums in arrived:
            _put(dst, src, sums)

    def end(self) -> None:
        """A send has ended when its buffer may be used again."""


class Copies:
    """By copies from the memory of the other ranks, which copy engines carry out if rows are whole."""

    def __init__(self, plan: PlainPlan, dtype: torch.dtype) -> None:
        import torch.distributed._symmetric_memory as symmetric

        self.rank = dist.get_rank()
        self.buffers = {
            name: symmetric.empty(*shape, dtype=dtype, device="cuda")
            for name, shape in plan.buffers.items()
        }
        group = dist.group.WORLD.group_name
        self._handles = {
            name: symmetric.rendezvous(buffer, group) for name, buffer in self.buffers.items()
        }
        self._peers = {
            (name, rank): self._handles[name].get_buffer(rank, buffer.shape, dtype)
            for name, buffer in self.buffers.items()
            for rank in range(plan.ranks)
        }
        self._line = next(iter(self._handles.values()))

    def move(self, step: Sequence[Transfer]) -> None:
        """Waits for all ranks to be there, since what a step reads is what others have computed or been sent."""
        self._line.barrier(channel=0)
        for transfer in step:
            if transfer.dst_rank == self.rank:
                src = self._peers[transfer.src, transfer.src_rank][transfer.src_box.slices]
                dst = self.buffers[transfer.dst][transfer.dst_box.slices]
                _put(dst, src, transfer.sums)

    def end(self) -> None:
        """Others may still read this rank's memory."""
        self._line.barrier(channel=0)


def _put(dst: torch.Tensor, src: torch.Tensor, sums: bool) -> None:
    if sums:
        dst.add_(src)
    else:
        dst.copy_(src)


class Lanes(Protocol):
    """The two streams of a call."""

    def side(self) -> contextlib.AbstractContextManager[Any]:
        """What is enqueued inside goes to the side stream."""

    def mark(self, on_side: bool) -> Any:
        """An event behind what has been enqueued so far on one of the two."""

    def wait(self, event: Any, on_side: bool) -> None:
        """Makes one of the two wait for an event."""


class Streams:
    """The current stream, and one of this class for the side."""

    def __init__(self) -> None:
        self._side = torch.cuda.Stream()

    def side(self) -> contextlib.AbstractContextManager[Any]:
        """The side stream as the current one."""
        stream: contextlib.AbstractContextManager[Any] = torch.cuda.stream(self._side)
        return stream

    def mark(self, on_side: bool) -> torch.cuda.Event:
        """Records an event."""
        event = torch.cuda.Event()
        event.record(self._stream(on_side))
        return event

    def wait(self, event: torch.cuda.Event, on_side: bool) -> None:
        """Waits on the device."""
        self._stream(on_side).wait_event(event)

    def _stream(self, on_side: bool) -> torch.cuda.Stream:
        return self._side if on_side else torch.cuda.current_stream()


class PlainRun:
    """A plan and its GEMM on this rank."""

    def __init__(
        self,
        plan: PlainPlan,
        rank: int,
        mover: Mover,
        lanes: Lanes,
        multiply: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Any],
    ) -> None:
        """Prepares.

        Args:
            plan: The plan.
            rank: This rank.
            mover: Who carries steps out.
            lanes: The streams.
            multiply: Given A [m, k], B [k, n] and C [m, n], writes C = A · B on the current stream.
        """
        self.plan, self.rank, self.mover, self.lanes = plan, rank, mover, lanes
        self.multiply = multiply

    def __call__(self, a: torch.Tensor | None, b: torch.Tensor, c: torch.Tensor | None) -> None:
        """Enqueues a call.

        Args:
            a: A [M, K] if C is what moves; else it lies in the plan's buffer.
            b: B as [K, N].
            c: C [M, N] if A is what moves; else it is left in the plan's buffer.
        """
        self.lanes.wait(self.lanes.mark(False), True)
        moved = self.mover.buffers[self.plan.kernel.buffer]
        if self.plan.kernel.reads:
            assert c is not None
            self._gather(moved, b, c)
        else:
            assert a is not None
            self._scatter(a, b, moved)
        with self.lanes.side():
            self.mover.end()
        self.lanes.wait(self.lanes.mark(True), False)

    def _gather(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
        plan, arrived = self.plan, []
        for step in plan.steps:
            with self.lanes.side():
                self.mover.move(step)
            arrived.append(self.lanes.mark(True))
        for piece, steps in zip(plan.orders[self.rank], plan.needed[self.rank], strict=True):
            if steps:
                self.lanes.wait(arrived[steps - 1], False)
            rows = plan.kernel.pieces[piece].slices[0]
            self.multiply(a[rows], b, c[rows])

    def _scatter(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
        plan, computed = self.plan, []
        for piece in plan.orders[self.rank]:
            rows, columns = plan.kernel.pieces[piece].slices
            self.multiply(a[rows], b[:, columns], c[rows, columns])
            computed.append(self.lanes.mark(False))
        for step, pieces in zip(plan.steps, plan.needed[self.rank], strict=True):
            if pieces:
                self.lanes.wait(computed[pieces - 1], True)
            with self.lanes.side():
                self.mover.move(step)
