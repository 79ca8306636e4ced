"""Names of flags for people, in the words of docs/protocol.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from syncopate.tables import SignalMeaning

_NAMES = {
    SignalMeaning.DATA: "s{}",
    SignalMeaning.READY: "ready[{}]",
    SignalMeaning.DONE: "done[{}]",
    SignalMeaning.ENGINE_DONE: "engine_done",
    SignalMeaning.GROUP: "tiles[{}]",
}


def raised_flag(program: Any, signal: int) -> str:
    """A flag: `s3` says that transfer 3 is complete; `ready[1]`, `done[1]`, `engine_done`, `tiles[2]`.

    The binary twin of a flag, which streams wait for, has its name and `for streams` behind it.
    """
    meaning, index, twin = program.signal_layout.decode(signal)
    return _NAMES[meaning].format(index) + (" for streams" if twin else "")


def waited_flag(program: Any, signal: int, count: int) -> str:
    """A flag that is waited for; what guards a buffer is the end of the call before."""
    meaning, _, twin = program.signal_layout.decode(signal)
    before = count == 0 or (meaning is SignalMeaning.DONE and twin)
    return raised_flag(program, signal) + (" of the call before" if before else "")


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
