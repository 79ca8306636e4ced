"""GEMMs with imported files before or behind them, and what they are to compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from import_files import FILES

import syncopate
from syncopate.importers import Collective, CollectiveSteps, Imported, Source, emit_plan, read_steps
from syncopate.kernels import GemmConfig, bind_gemm, gemm

__all__ = ["ImportedGemm", "expect_collective"]

TINY = GemmConfig(block_m=32, block_n=32, block_k=32, num_warps=4, num_ctas=2)
Array = np.ndarray[Any, Any]


def expect_collective(collective: Collective, given: Sequence[Array]) -> list[Array]:
    """What ranks have in the end, of what each has in the beginning: by rank, its rows."""
    ranks = len(given)
    if collective is Collective.ALL_GATHER:
        return [np.concatenate(given)] * ranks
    if collective is Collective.ALL_REDUCE:
        return [sum(given)] * ranks
    rows = -(-len(given[0]) // ranks)
    blocks = [[part[rank * rows : (rank + 1) * rows] for part in given] for rank in range(ranks)]
    if collective is Collective.REDUCE_SCATTER:
        return [sum(some) for some in blocks]
    # The rows of a shorter block stand at the beginning of a whole one.
    return [
        np.concatenate([np.pad(part, ((0, rows - len(part)), (0, 0))) for part in some])
        for some in blocks
    ]


@dataclass(frozen=True)
class ImportedGemm:
    """A GEMM that reads what a file brings (inputs), or computes what it moves (tiles).

    Attributes:
        name: Of the file, in `FILES`.
        ranks: Number of ranks.
        source: Where the file's beginning comes from.
        shape: M, N and K; M is that of what the file moves.
    """

    name: str
    ranks: int
    source: Source
    shape: tuple[int, int, int] = (96, 64, 64)

    @property
    def steps(self) -> CollectiveSteps:
        form, _, write = FILES[self.name]
        return read_steps(write(self.ranks), form, self.name)

    @property
    def rows(self) -> int:
        """Of what a rank brings along, or computes."""
        gathers = self.steps.collective is Collective.ALL_GATHER
        return self.shape[0] // self.ranks if gathers else self.shape[0]

    def build(self) -> tuple[Any, Imported]:
        m, n, k = self.shape
        columns = k if self.source is Source.INPUTS else n
        imported = emit_plan(self.steps, (m, columns), "bf16", source=self.source)
        if self.source is Source.INPUTS:
            bound = bind_gemm(imported.result, n, TINY)
        else:
            a = syncopate.Tensor("a", (self.rows, k), "bf16")
            bound = bind_gemm(a, n, TINY, c=imported.given)
        return syncopate.compile(gemm, imported.plan, **bound), imported

    def given_name(self, imported: Imported) -> str:
        """By what name a call takes A, or what becomes of it."""
        return imported.given.name if self.source is Source.INPUTS else "a"

    def expect(self, given: Sequence[Array], weights: Sequence[Array]) -> list[Array]:
        """The output of each rank."""
        collective = self.steps.collective
        if self.source is Source.INPUTS:
            moved = expect_collective(collective, given)
            return [a @ b.T for a, b in zip(moved, weights, strict=True)]
        parts = [a @ b.T for a, b in zip(given, weights, strict=True)]
        return expect_collective(collective, parts)


def all_gemms(ranks: int) -> list[ImportedGemm]:
    """All files, before a GEMM and behind one; tiles of all ranks read the same, so none reads a reduce-scatter."""
    return [
        ImportedGemm(name, ranks, source)
        for name, (_, collective, _) in FILES.items()
        for source in Source
        if source is Source.TILES or collective != "reduce_scatter"
    ]
