"""Ways to cut the waves of a GEMM into groups, each of which is sent by one library call."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Sequence

__all__ = ["Groups", "choose_partitions", "fit_groups", "regular_partitions", "spell_groups"]

Groups = tuple[int, ...]

MOST_DEFAULT_CALLS = 8
"""As many calls has a strategy without waves at most."""


def fit_groups(groups: Sequence[int], waves: int) -> Groups:
    """The groups that a strategy's `waves` stand for: the last number goes on, and nothing goes beyond the last wave.

    Args:
        groups: As in a strategy; none are at most eight calls of as many waves each.
        waves: All waves.
    """
    given = list(groups) or [-(-waves // MOST_DEFAULT_CALLS)]
    fitted: list[int] = []
    while (left := waves - sum(fitted)) > 0:
        fitted.append(min(given[min(len(fitted), len(given) - 1)], left))
    return tuple(fitted)


def choose_partitions(
    waves: int, most: int, draw: random.Random, first: Iterable[Groups] = ()
) -> list[Groups]:
    """All partitions of the waves, if there are at most `most`, else that many different random ones.

    They are in random order, so that those before the time is over are a fair choice. Every partition is as likely as
    any other: between any two waves is a cut, or there is none.

    Args:
        waves: Waves to cut.
        most: How many partitions are wanted.
        draw: Where chance comes from.
        first: Partitions that are to stand before them, whatever chance says.
    """
    chosen = dict.fromkeys(tuple(groups) for groups in first)
    if 2 ** (waves - 1) <= most:
        every = list(range(2 ** (waves - 1)))
        draw.shuffle(every)
        return list(chosen | dict.fromkeys(_cut(waves, bits) for bits in every))
    while len(chosen) < most:
        chosen[_cut(waves, draw.getrandbits(waves - 1))] = None
    return list(chosen)


def regular_partitions(waves: int) -> list[Groups]:
    """Partitions that someone would try first: equal groups, growing and shrinking ones, and a small first or last."""
    growing: list[int] = []
    while sum(growing) < waves:
        growing.append(min(2 ** len(growing), waves - sum(growing)))
    equal = [fit_groups((size,), waves) for size in (1, 2, 3, 4, -(-waves // 2), waves)]
    ends: list[Groups] = [(1, waves - 1), (waves - 1, 1)] if waves > 1 else []
    ends += [(1, waves - 2, 1)] if waves > 2 else []
    return list(dict.fromkeys([*equal, tuple(growing), tuple(reversed(growing)), *ends]))


def spell_groups(groups: Iterable[int]) -> str:
    """For tables: 3x1+2x4 are three groups of one wave, and two of four."""
    runs = [(len(list(run)), size) for size, run in itertools.groupby(groups)]
    return "+".join(f"{count}x{size}" if count > 1 else str(size) for count, size in runs)


def _cut(waves: int, bits: int) -> Groups:
    groups, size = [], 1
    for place in range(waves - 1):
        if bits >> place & 1:
            groups.append(size)
            size = 0
        size += 1
    return (*groups, size)
