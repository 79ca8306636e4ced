"""What a tile computes, in numpy, so that a schedule can be checked with real data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Read = Callable[[tuple[int, ...], tuple[int, ...]], Any]


@dataclass(frozen=True)
class Gemm:
    """C = A Bᵀ with A the first buffer of the plan and B local to each rank.

    Attributes:
      tile: rows and columns of a tile of C; tile coordinates count these.
      columns: N, the rows of B and the columns of C.
    """

    tile: tuple[int, int]
    columns: int

    def local(self, rng: np.random.Generator, depth: int) -> Any:
        """A rank's B, drawn afresh for every call."""
        return rng.standard_normal((self.columns, depth), np.float32)

    def compute(
        self, out: Any, local: Any, shape: tuple[int, ...], coords: Any, read: Read
    ) -> None:
        """Fills the tile at `coords` of `out` from what `read(offsets, sizes)` finds."""
        rows, cols = coords[0] * self.tile[0], coords[1] * self.tile[1]
        height = min(self.tile[0], shape[0] - rows)
        window = slice(cols, cols + self.tile[1])
        tile = read((rows, 0), (height, shape[1])) @ local[window].T
        out[rows : rows + height, window] = tile
