"""What the ranks of `recovery.py` do together: calls of a program, or, without GPUs, exchanges of their agreement."""

from __future__ import annotations

import gc
from typing import Any

BATCH = 8
"""Calls that are enqueued before their results are looked at, so that the GPU is busy when a rank is killed."""


class Exchanges:
    """What ranks say to each other in the store of their group."""

    def __init__(self, limit_s: float) -> None:
        from syncopate.agreement import processes

        self._agreement, self._count = processes(), 0
        self._agreement.seconds = limit_s

    def run(self) -> None:
        """A batch.

        Raises:
            SyncopateError: The other rank has not come.
        """
        for _ in range(BATCH):
            self._count += 1
            heard = self._agreement.exchange("a call", [self._agreement.rank, self._count])
            assert heard == [[rank, self._count] for rank in range(len(heard))], heard

    def close(self) -> None:
        """Nothing is held."""


class Gathers:
    """Calls of an all-gather by a kernel that is written by hand, which needs no compiler but Triton's."""

    @staticmethod
    def warm_up() -> None:
        """Loads the code that makes and checks matrices, which would take a part of the first time limit."""
        import torch
        from workloads import poisoned, random_matrix

        bool((random_matrix((8, 8), 0).clone() != poisoned((8, 8))).any())
        torch.cuda.synchronize()

    def __init__(self, realization: str, limit_s: float) -> None:
        from two_gpus import ODD, gather

        from syncopate.abi import Realization
        from syncopate.runtime import ProcessGroup, load

        group = ProcessGroup()
        kind, limit_ns = Realization[realization.upper()], int(limit_s * 1e9)
        self._rank, self._count = group.rank, 0
        self._work: Any = gather("push", kind, ODD, timeout_ns=limit_ns)(group)
        self._loaded: Any = load(self._work.program, group)

    def run(self) -> None:
        """A batch.

        Raises:
            DeviceWaitTimeout: The other rank has not come.
        """
        work, wrong = self._work, []
        for _ in range(BATCH):
            self._count += 1
            whole, out = work.random(self._count), work.poisoned()
            self._loaded(a=work.shard(whole, self._rank), out=out)
            wrong.append(work.wrong(out, whole, self._rank))
        self._loaded.synchronize()
        assert not any(bool(each) for each in wrong), f"wrong among calls up to {self._count}"

    def close(self) -> None:
        """Frees the program, and refers to nothing of the group any more."""
        self._loaded.close()
        del self._loaded, self._work
        gc.collect()
