"""What a call is given for the local ranks of a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from syncopate.errors import SyncopateError

__all__ = ["one_each"]


def one_each(name: str, given: Any, ranks: Sequence[int]) -> list[Any]:
    """One tensor for each local rank: a tensor if there is one rank, or a list, or a mapping by rank.

    Raises:
        SyncopateError: There are as many tensors as some other number.
    """
    if len(ranks) == 1 and not isinstance(given, (Mapping, list, tuple)):
        return [given]
    if isinstance(given, Mapping):
        return [given.get(rank) for rank in ranks]
    if isinstance(given, Sequence) and len(given) == len(ranks):
        return list(given)
    raise SyncopateError(
        f"{name}: expects a list or a mapping with one tensor for each of {len(ranks)} ranks, but got {given!r:.80}"
    )
