"""Gradients of attention on the ranks of a group, with tensors as their owners have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from syncopate.errors import SyncopateError
from syncopate.plan.sequence import Sharding
from syncopate.runtime import load
from syncopate.workloads.local_ranks import one_each
from syncopate.workloads.sequence_inputs import write_blocks

if TYPE_CHECKING:
    from syncopate.compiler import Program
    from syncopate.kernels import AttentionConfig
    from syncopate.runtime import Group, LoadedProgram
    from syncopate.workloads.attention_gradients import AttentionGradients

__all__ = ["LoadedGradients"]


class LoadedGradients:
    """Runs the two programs of the gradients of an attention workload.

    Attributes:
        gradients: What is computed.
        of_q: The program of the gradients of queries on the group.
        of_kv: The one of the gradients of keys and values.
    """

    def __init__(
        self,
        gradients: AttentionGradients,
        programs: tuple[Program, Program],
        group: Group,
        config_q: AttentionConfig | None = None,
    ) -> None:
        """Loads. Collective over the group; not during a graph capture.

        Args:
            gradients: What is computed.
            programs: What `gradients.compile` has made.
            group: The ranks.
            config_q: The tiles of the first program, if they were not left out.
        """
        self.gradients = gradients
        self._ranks = tuple(group.local_ranks)
        # A call gives what is part of a buffer behind the kernel's tensors; who has no rows gets none.
        own = ["delta"] if gradients.workload.exchanges else ["dq", "delta"]
        self._made = [
            [
                *own,
                *(spec.name for spec in programs[0].buffers if spec.outputs and spec.outputs[rank]),
            ]
            for rank in self._ranks
        ]
        self.of_q = load(programs[0], group)
        try:
            self.of_kv = load(programs[1], group)
        except BaseException:
            self.of_q.close()
            raise
        # The programs' own, on each rank's device, for as long as calls may read them.
        self._tables: list[dict[str, list[torch.Tensor]]] = [{}, {}]
        for rank in self._ranks:
            for taken, given in zip(self._tables, gradients.tables(rank, config_q), strict=True):
                for name, table in given.items():
                    own = _upload(torch.from_numpy(table), group.device(rank))
                    taken.setdefault(name, []).append(own)

    def __call__(self, q: Any, k: Any, v: Any, o: Any, do: Any, lse: Any, dlse: Any = None) -> Any:
        """Runs both programs once.

        Args:
            q: The rank's queries, as `LoadedAttention` takes them.
            k: Its keys, likewise.
            v: Its values, likewise.
            o: Its outputs, as `LoadedAttention` has given them.
            do: The gradients of its outputs, like `o`.
            lse: The logarithms, as `LoadedAttention` has given them: f32 [batch · heads, rows], or of ULYSSES those of
                the rank's heads for all of the sequence.
            dlse: Their gradients, likewise, if `gradients.of_lse`.

        Returns:
            The gradients of queries, keys and values, new tensors like them. Of queries, rows that stand for no element
            mean nothing; of keys and values they are zeros. A group with several local ranks takes lists, and gives a
            list of the three.

        Raises:
            SyncopateError: An argument is wrong.
            DeviceWaitTimeout: An earlier call did not complete.
        """
        given = {"q": q, "k": k, "v": v, "o": o, "do": do, "lse": lse}
        if self.gradients.of_lse:
            given["dlse"] = dlse
        elif dlse is not None:
            raise SyncopateError("dlse: expects None, as gradients were compiled without `of_lse`")
        rows = {name: one_each(name, each, self._ranks) for name, each in given.items()}
        found = self._run(self.of_q, rows | self._tables[0], moved=True)
        made = [dict(zip(*each, strict=True)) for each in zip(self._made, found, strict=True)]
        of_q = [each.pop("dq", like[:0]) for each, like in zip(made, rows["q"], strict=True)]
        if self.gradients.workload.exchanges:
            # The next call writes there again.
            of_q = [dq.clone() for dq in of_q]
        # What the first program has kept takes the place of what the rank has given.
        taken = {name: rows[name] for name in ("q", "k", "v", "do", "lse")}
        taken |= {name.removesuffix("_heads"): [each[name] for each in made] for name in made[0]}
        sums = self._run(self.of_kv, taken | self._tables[1], moved=not self.gradients.keeps)
        results = [
            (dq, *self._divide(dkv, *like))
            for dq, dkv, *like in zip(of_q, sums, rows["k"], rows["v"], strict=True)
        ]
        return results[0] if len(self._ranks) == 1 else results

    def _run(
        self, loaded: LoadedProgram, tensors: dict[str, list[torch.Tensor]], *, moved: bool
    ) -> list[Any]:
        """Calls a program, and gives back its results by local rank; `moved` keys are those that a rank has."""
        workload = self.gradients.workload
        if moved and workload.sharding is Sharding.ZIGZAG:
            write_blocks(loaded, workload, {name: tensors.pop(name) for name in "kv"})
        if len(self._ranks) == 1:
            return [loaded(**{name: each[0] for name, each in tensors.items()})]
        results: list[Any] = loaded(**tensors)
        return results

    def _divide(self, dkv: Any, k: torch.Tensor, v: torch.Tensor) -> list[torch.Tensor]:
        """The gradients of keys and of values, from those of both, which have no row where the rank has no element."""
        results = []
        for place, like in enumerate((k, v)):
            made = torch.empty_like(like, memory_format=torch.contiguous_format)
            length = len(dkv)
            if length:
                parts = dkv.unflatten(1, (-1, 2, self.gradients.workload.head_dim))[:, :, place]
                made[:length].view(parts.shape).copy_(parts)
            made[length:] = 0
            results.append(made)
        return results

    def synchronize(self) -> None:
        """Waits for the calls on the current stream; see `LoadedProgram.synchronize`."""
        self.of_q.synchronize()
        self.of_kv.synchronize()

    def close(self) -> None:
        """Closes the programs; see `LoadedProgram.close`."""
        self.of_kv.close()
        self.of_q.close()

    def __enter__(self) -> LoadedGradients:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _upload(table: torch.Tensor, device: int) -> torch.Tensor:
    return table.to(f"cuda:{device}")
