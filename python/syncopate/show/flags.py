"""The names of flags, in the words of docs/protocol.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def raised_flag(program: Any, signal: int) -> str:
    """A flag: `s3` says that transfer 3 is complete; `ready[1]`, `done[1]`, `engine_done`.

    The binary twin of a flag, which streams wait for, has its name and `for streams` behind it.
    """
    layout, world = program.signal_layout, program.world_size
    for kind, words in (
        ("ready", "ready[{}]"),
        ("done", "done[{}]"),
        ("ready_twin", "ready[{}] for streams"),
        ("done_twin", "done[{}] for streams"),
    ):
        first = getattr(layout, kind)
        if first <= signal < first + world:
            return words.format(signal - first)
    if signal == layout.engine_done:
        return "engine_done"
    if signal >= layout.data_twin:
        return f"s{signal - layout.data_twin} for streams"
    return f"s{signal}"


def waited_flag(program: Any, signal: int, count: int) -> str:
    """A flag that is waited for; what guards a buffer is the end of the call before."""
    layout, world = program.signal_layout, program.world_size
    twin = layout.done_twin <= signal < layout.done_twin + world
    before = " of the call before" if count == 0 or twin else ""
    return raised_flag(program, signal) + before


def join(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def flags_of_ranks(flags: Iterable[tuple[str, int]]) -> str:
    """Raised flags by name: `s3 at rank 1`, `done[0] at ranks 1, 2 and 3`."""
    ranks: dict[str, list[int]] = {}
    for name, rank in flags:
        ranks.setdefault(name, []).append(rank)
    return join(
        [
            f"{name} at rank{'s' if len(at) > 1 else ''} {join(list(map(str, at)))}"
            for name, at in ranks.items()
        ]
    )
