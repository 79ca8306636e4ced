"""How ranks come to do the same: each says something, and all hear what every one has said.

Processes say it in the store of their process group, without touching a GPU. A rank writes under the number of the
exchange, and reads what the others have written; one that does not come within a time limit is named.

All functions that take an agreement are collective: all ranks call them, in the same order. Importing this needs no
torch.
"""

from __future__ import annotations

import datetime
import json
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from syncopate.errors import SyncopateError
from syncopate.forks import expect_process, this_process

__all__ = [
    "Agreement",
    "Alone",
    "Processes",
    "agree",
    "agree_on",
    "attempt",
    "expect_same",
    "find_agreement",
    "from_first",
    "maximum",
    "processes",
    "require",
    "settle",
]

SECONDS: Final = 300.0
"""For how long a rank waits for the others."""

_LONGEST: Final = 2000
"""Characters of an error that other ranks are told."""

_Made = TypeVar("_Made")


class Agreement(Protocol):
    """The ranks that do something together."""

    @property
    def rank(self) -> int:
        """This one."""

    def exchange(self, place: str, said: Any = None, doing: str = "") -> list[Any]:
        """What each rank says, on every rank.

        Args:
            place: At which place of what they do the ranks are, in a few words.
            said: Plain data.
            doing: What for, for messages.

        Raises:
            SyncopateError: A rank has not come, or is at another place, as after an error that it alone has had. They
                agree on nothing more then.
        """


class Alone:
    """One process that decides for itself."""

    rank: Final = 0

    def exchange(self, place: str, said: Any = None, doing: str = "") -> list[Any]:
        """What it says."""
        return [json.loads(json.dumps(said))]


class Processes:
    """The ranks of a store."""

    def __init__(
        self, store: Any, rank: int, world_size: int, *, seconds: float = SECONDS, group: Any = None
    ) -> None:
        """Begins to count exchanges.

        Args:
            store: A `torch.distributed.Store` of all ranks.
            rank: This process's rank.
            world_size: Number of ranks.
            seconds: For how long to wait for the others.
            group: The process group whose store it is, if there is one.
        """
        self._store, self._world_size = store, world_size
        self.rank, self.seconds = rank, seconds
        self._group = None if group is None else weakref.ref(group)
        # Who makes a group anew may do so in the same store, where keys of the last one still are.
        ticket = store.add(f"syncopate/agreement/tickets/{rank}", 1)
        self._prefix, self._number = f"syncopate/agreement/{ticket}", 0
        self._broken = ""
        self._process = this_process()

    @property
    def name(self) -> str:
        """What no other agreement in the store is called."""
        return self._prefix

    @property
    def group(self) -> Any:
        """The process group; None if it is gone, or there was none."""
        return None if self._group is None else self._group()

    def exchange(self, place: str, said: Any = None, doing: str = "") -> list[Any]:
        """In the store."""
        expect_process(self._process, "the process group's store")
        if self._broken:
            # Ranks that went on would take what belongs to one exchange for another.
            raise SyncopateError(
                f"{self._broken}; ranks that have lost each other agree on nothing more: make the process group again"
            )
        self._number += 1
        self._store.set(self._key(self.rank), json.dumps([place, said]))
        texts = [self._read(rank, doing) for rank in range(self._world_size)]
        # Who has come here has read everything of the time before.
        if self._number > 1:
            self._store.delete_key(self._key(self.rank, self._number - 1))
        told = [json.loads(text) for text in texts]
        for rank, (other, _) in enumerate(told):
            if other != told[0][0]:
                self._broken = (
                    f"rank {rank} has come to {other}, but rank 0 to {told[0][0]}; "
                    "one of them may have failed alone"
                )
                raise SyncopateError(self._broken)
        return [said for _, said in told]

    def _read(self, rank: int, doing: str) -> str:
        key = self._key(rank)
        try:
            self._store.wait([key], datetime.timedelta(seconds=self.seconds))
            text: str = self._store.get(key).decode()
        except RuntimeError as error:
            what = f": {doing}" if doing else ""
            self._broken = (
                f"rank {rank} has not made this call within {self.seconds:g} s{what}; all ranks of a group have to "
                f"make the same calls, in the same order ({str(error).splitlines()[0]})"
            )
            raise SyncopateError(self._broken) from None
        return text

    def _key(self, rank: int, number: int | None = None) -> str:
        return f"{self._prefix}/{self._number if number is None else number}/{rank}"


_known: weakref.WeakKeyDictionary[Any, Processes] = weakref.WeakKeyDictionary()


def processes(group: Any = None) -> Processes:
    """The processes of a group of torch.distributed, each of which holds one agreement for it.

    Args:
        group: The group; the default one if it is left out.
    """
    import torch.distributed as dist
    from torch.distributed import distributed_c10d

    group = dist.group.WORLD if group is None else group
    known = _known.get(group)
    if known is None:
        store = distributed_c10d._get_process_group_store(group)
        known = Processes(store, dist.get_rank(group), dist.get_world_size(group), group=group)
        _known[group] = known
    return known


def find_agreement(world_size: int) -> Agreement:
    """The processes of torch.distributed, if it is in use with this many; else this process alone.

    Args:
        world_size: Ranks of what is to be decided.
    """
    # Whoever has not imported torch has no group.
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.distributed.is_available():
        dist = torch.distributed
        if dist.is_initialized() and dist.get_world_size() == world_size:
            return processes()
    return Alone()


def maximum(agreement: Agreement, values: Sequence[float]) -> list[float]:
    """The largest of each value over the ranks; all give equally many."""
    told = agreement.exchange("the maximum of values", list(values))
    return [max(some) for some in zip(*told, strict=True)]


def agree(agreement: Agreement, good: bool) -> bool:
    """Whether it is good on every rank."""
    return all(agreement.exchange("a vote", bool(good)))


def agree_on(agreement: Agreement, data: Any) -> bool:
    """Whether every rank has the same plain data."""
    first, *others = agreement.exchange("a comparison of data", data)
    return all(other == first for other in others)


def expect_same(agreement: Agreement, doing: Mapping[str, Any]) -> None:
    """Returns when all ranks have come here with the same.

    Args:
        agreement: The ranks.
        doing: What they do, by name, as plain data.

    Raises:
        SyncopateError: A rank does something else, or has not come.
    """
    words = ", ".join(f"{name} {doing[name]!r}" for name in doing)
    told = agreement.exchange("a comparison of calls", dict(doing), words)
    first = told[0]
    for rank, other in enumerate(told):
        differing = [name for name in first if other.get(name) != first[name]]
        if differing:
            shown = ", ".join(f"{name} {other.get(name)!r}" for name in differing)
            wanted = ", ".join(f"{name} {first[name]!r}" for name in differing)
            raise SyncopateError(
                f"rank {rank} calls with {shown}, but rank 0 with {wanted}; all ranks of a group have to make the "
                f"same calls, in the same order"
            )


def settle(agreement: Agreement, problem: str) -> str:
    """What is wrong on the first rank where something is, and which rank that is; nothing if all is well."""
    for rank, told in enumerate(agreement.exchange("the end of a step", problem[:_LONGEST])):
        if told:
            return f"rank {rank}: {told}"
    return ""


def attempt(
    agreement: Agreement, make: Callable[[], _Made]
) -> tuple[_Made | None, str, Exception | None]:
    """What is made, if no rank fails: ranks that went on alone would wait for that one for ever.

    Args:
        agreement: The ranks.
        make: Called on each of them.

    Returns:
        What this rank has made, or None; what went wrong, on which rank, the same on all of them; and the error, where
        it is this one's.
    """
    made, problem = None, None
    try:
        made = make()
    except Exception as error:
        problem = error
    try:
        why = settle(agreement, "" if problem is None else f"{type(problem).__name__}: {problem}")
    except SyncopateError as lost:
        raise lost from problem
    return (None if why else made), why, problem


def require(agreement: Agreement, what: str, make: Callable[[], _Made]) -> _Made:
    """What is made on this rank, if no rank fails.

    Args:
        agreement: The ranks.
        what: Is made, for messages.
        make: Called on each rank.

    Raises:
        SyncopateError: It failed on another rank, which the message names.
        Exception: It failed on this one.
    """
    made, why, problem = attempt(agreement, make)
    if problem is not None:
        raise problem
    if why:
        raise SyncopateError(f"{what}: failed on {why}")
    return made  # type: ignore[return-value]


def from_first(agreement: Agreement, make: Callable[[], Any]) -> Any:
    """What rank 0 makes, as plain data, on every rank; if that fails, all fail, and nobody waits for it.

    Args:
        agreement: The ranks.
        make: Called on rank 0 alone.

    Raises:
        SyncopateError: Rank 0 has failed.
    """
    said: dict[str, Any] = {}
    if agreement.rank == 0:
        try:
            said = {"made": make()}
            json.dumps(said)
        except Exception as error:
            said = {"error": f"{type(error).__name__}: {error}"[:_LONGEST]}
    told = agreement.exchange("a choice of rank 0", said)[0]
    if "error" in told:
        raise SyncopateError(f"rank 0 cannot choose: {told['error']}")
    return told["made"]
