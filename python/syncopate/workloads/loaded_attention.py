"""Attention workloads on the ranks of a group, with tensors as their owners have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from syncopate.plan.sequence import Sharding
from syncopate.runtime import load
from syncopate.workloads.local_ranks import one_each
from syncopate.workloads.sequence_inputs import write_blocks

if TYPE_CHECKING:
    from syncopate.compiler import Program
    from syncopate.runtime import Group
    from syncopate.workloads.attention import AttentionWorkload

__all__ = ["LoadedAttention"]


class LoadedAttention:
    """Runs the program of an attention workload.

    Attributes:
        workload: What is computed.
        loaded: The program on the group.
    """

    def __init__(
        self, workload: AttentionWorkload, program: Program, group: Group, config: Any
    ) -> None:
        """Loads. Collective over the group; not during a graph capture.

        Args:
            workload: What is computed.
            program: What `workload.compile` has made with `config`.
            group: The ranks.
            config: The tiles.
        """
        self.workload = workload
        self.loaded = load(program, group)
        self._ranks = tuple(group.local_ranks)
        devices = [group.device(rank) for rank in self._ranks]
        tables = [workload.tables(rank, config) for rank in self._ranks]
        # The program's own, on each rank's device, for as long as calls may read them.
        self._tables = {
            name: [
                torch.from_numpy(own[name]).to(f"cuda:{device}")
                for own, device in zip(tables, devices, strict=True)
            ]
            for name in tables[0]
        }
        self._returns_buffer = any(any(spec.outputs) for spec in program.buffers)

    def __call__(self, q: Any, k: Any, v: Any, lengths: Any = None) -> Any:
        """Runs the workload once.

        Args:
            q: The rank's queries, [workload.rows, batch · heads · head_dim]; those of its elements of the sequence, as
                `shards.positions` says; of ULYSSES, without rows that stand for none; of DECODE, all, on every rank.
            k: The rank's keys, [rows, batch · kv_heads · head_dim]; without rows at the end that stand for none. Of
                DECODE, [batch · capacity, kv_heads · head_dim].
            v: Its values, likewise.
            lengths: Of DECODE, i32 [batch]: how many keys of each sequence the rank has.

        Returns:
            Outputs, like `q`, and f32 logarithms of the sums of the exponentials of scores: [batch · heads, rows]; of
            ULYSSES, those of the rank's heads for all of the sequence; of DECODE, [batch, heads]. A group with several
            local ranks takes lists, and gives a list of both.

        Raises:
            SyncopateError: An argument is wrong; nothing was computed.
            DeviceWaitTimeout: An earlier call did not complete.
        """
        tensors = {"q": one_each("q", q, self._ranks)}
        keys = {"k": one_each("k", k, self._ranks), "v": one_each("v", v, self._ranks)}
        if self.workload.sharding is Sharding.ZIGZAG:
            write_blocks(self.loaded, self.workload, keys)
        else:
            tensors |= keys
        if lengths is not None:
            tensors["lengths"] = one_each("lengths", lengths, self._ranks)
        tensors |= self._tables
        if len(self._ranks) == 1:
            return self._order(self.loaded(**{name: each[0] for name, each in tensors.items()}))
        return [self._order(found) for found in self.loaded(**tensors)]

    def _order(self, found: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        """Outputs and logarithms; a call gives what is part of a buffer behind the kernel's tensors."""
        return (found[1], found[0]) if self._returns_buffer else found

    def synchronize(self) -> None:
        """Waits for the calls on the current stream; see `LoadedProgram.synchronize`."""
        self.loaded.synchronize()

    def close(self) -> None:
        """Closes the program; see `LoadedProgram.close`."""
        self.loaded.close()

    def __enter__(self) -> LoadedAttention:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
