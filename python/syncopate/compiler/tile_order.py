"""The order of tiles that a caller gives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from syncopate.errors import SyncopateError

__all__ = ["TileIndices", "order_table", "read_tile_order"]

TileIndices = npt.NDArray[np.int64]


def read_tile_order(tile_order: Any, tiles: Sequence[int], world_size: int) -> TileIndices:
    """The numbers of the tiles of every rank, row-major in the grid, in the order that is given.

    Args:
        tile_order: Numbers of tiles, [tiles] for all ranks or [ranks, tiles].
        tiles: Sizes of the grid.
        world_size: Number of ranks.

    Returns:
        [ranks, tiles], read-only.

    Raises:
        SyncopateError: It is no such array, or does not have each tile once.
    """
    try:
        given = np.asarray(tile_order)
    except (TypeError, ValueError):
        given = np.empty(0, object)
    count = math.prod(tiles)
    if given.dtype.kind not in "iu" or given.shape not in ((count,), (world_size, count)):
        what = (
            f"an array of {given.dtype} of shape {list(given.shape)}"
            if given.ndim
            else f"{tile_order!r:.80}"
        )
        raise SyncopateError(
            f"tile_order: expects integers of shape [{count}] or [{world_size}, {count}], the numbers of all tiles of "
            f"the grid {list(tiles)} for all ranks or for each, but got {what}"
        )
    for rank, order in enumerate(given.reshape(-1, count)):
        _check(order, count, f"rank {rank}: " if given.ndim > 1 else "")
    result = np.broadcast_to(given.astype(np.int64), (world_size, count))
    result.flags.writeable = False
    return result


def _check(order: npt.NDArray[Any], count: int, whose: str) -> None:
    outside = (order < 0) | (order >= count)
    if outside.any():
        raise SyncopateError(
            f"tile_order: {whose}expects tiles in [0, {count}), but got {order[outside][0]} at position "
            f"{int(outside.argmax())}"
        )
    times = np.bincount(order.astype(np.int64), minlength=count)
    if (times != 1).any():
        twice, missing = int(times.argmax()), int(times.argmin())
        first, second = np.flatnonzero(order == twice)[:2]
        raise SyncopateError(
            f"tile_order: {whose}expects each tile once, but tile {twice} stands at positions {first} and {second}, "
            f"and tile {missing} is missing"
        )


def order_table(
    order: TileIndices, tiles: Sequence[int], ctas: int, parts: int
) -> npt.NDArray[np.int64]:
    """The coordinates at each position of a rank, [positions, 3], as `chunk.schedule` has them.

    Args:
        order: Numbers of its tiles.
        tiles: Sizes of the grid.
        ctas: CTAs that compute.
        parts: Among how many each tile of the last round is split; the third coordinate is then the part.
    """
    coordinates = np.zeros((len(order), 3), np.int64)
    coordinates[:, : len(tiles)] = np.stack(np.unravel_index(order, tuple(tiles)), axis=1)
    if parts == 1:
        return coordinates
    whole = len(order) - len(order) % ctas
    last = np.repeat(coordinates[whole:], parts, axis=0)
    last[:, 2] = np.tile(np.arange(parts), len(order) - whole)
    return np.concatenate([coordinates[:whole], last])
