"""The programs behind the operators: made when a call needs one, and kept for the next.

A program belongs to a group, a workload and a strategy. Making one is collective: the ranks compare what they are about
to make, compile it, and load it when all of them have compiled it. Of those of one family, such as products that
differ in M alone, `ROWS_KEPT` are kept; one more takes the place of the one whose last call is longest ago, with its
memory and, as a rule, its code. Of all of a group, `PROGRAMS_KEPT` are. A program that a CUDA graph has captured stays
until `close_programs`. Since all ranks make the same calls, they drop the same ones. One of which a call has failed is
dropped by the rank that learns of it.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

import torch
from torch.distributed import distributed_c10d

from syncopate.agreement import expect_same, processes, require
from syncopate.errors import DeviceWaitTimeout, PeerFault, SyncopateError
from syncopate.forks import expect_gpus
from syncopate.strategy import Strategy
from syncopate.strategy_names import read_strategy_name
from syncopate.torch.groups import GroupLike, find_group, name_group
from syncopate.workloads.protocol import LoadedWorkload, Reschedulable, Workload

__all__ = [
    "AUTO",
    "PROGRAMS_KEPT",
    "ROWS_KEPT",
    "call",
    "check_strategy",
    "close_programs",
    "synchronize",
]

AUTO: Final = "auto"
"""The strategy that is chosen; see docs/tuning.md. An empty text is the default, others are names of strategies."""

PROGRAMS_KEPT: Final = 64
"""Programs of a group that are kept."""

ROWS_KEPT: Final = 8
"""Programs of a group that are of one family and are kept."""

_FAULTS: Final = (DeviceWaitTimeout, PeerFault)
"""What a program raises again in each call once it has done so."""

_Result = TypeVar("_Result")


@dataclass
class _Entry:
    workload: Workload
    strategy: str
    loaded: LoadedWorkload
    captured: bool = False

    @property
    def family(self) -> Hashable:
        """What it shares with programs as which it may go on; None if there are none."""
        return _family(self.workload, self.strategy)


@functools.lru_cache
def _read_strategy(name: str) -> Strategy | None:
    return read_strategy_name(name) if name else None


def check_strategy(name: str) -> None:
    """Raises SyncopateError unless it is `AUTO`, the name of a strategy, or nothing."""
    if name != AUTO:
        _read_strategy(name)


def _family(workload: Workload, strategy: str) -> Hashable:
    return None if workload.family is None else (workload.family, strategy)


def _facts(workload: Workload) -> dict[str, Any]:
    """What ranks compare before they make a program: its fields as plain data."""
    fields = dataclasses.asdict(cast("Any", workload))
    plain: dict[str, Any] = json.loads(json.dumps(fields, default=lambda choice: choice.value))
    return plain


class _Programs:
    """Those of one group, the last used one last."""

    def __init__(self, group: Any) -> None:
        self.group = group
        self.world_size: int = group.size()
        self._entries: OrderedDict[Any, _Entry] = OrderedDict()
        self._given_up: list[_Entry] = []
        self.agreement = processes(group)

    def find(self, key: Hashable, make: Callable[[], Workload], strategy: str) -> LoadedWorkload:
        """The program of a call, made if there is none."""
        capturing = torch.cuda.is_current_stream_capturing()
        entry = self._entries.get(key)
        if entry is None:
            workload = make()
            if capturing:
                raise SyncopateError(
                    f"{workload.name}: expects one call before a CUDA graph is captured, which compiles and loads it"
                )
            entry = _outside_of_pools(lambda: self._make(workload, strategy))
            self._entries[key] = entry
        else:
            self._entries.move_to_end(key)
        entry.captured |= capturing
        return entry.loaded

    def _make(self, workload: Workload, strategy: str) -> _Entry:
        import syncopate

        target = syncopate.Target.current()
        family = _family(workload, strategy)
        place = self._find_place(family)
        expect_same(
            self.agreement,
            {
                **_facts(workload),
                "strategy": strategy,
                "in place of": None if place is None else self._entries[place].workload.name,
                "target": str(target),
                "multiprocessors": target.num_sms,
                "version": syncopate.__version__,
            },
        )
        program = self._compile(workload, strategy, target)
        old = self._make_room(family)
        if old is None:
            return _Entry(workload, strategy, self._load(workload, program))
        try:
            cast("Reschedulable", old.loaded).reschedule(workload, program)
        except BaseException:
            # Nobody else has it any more.
            old.loaded.close()
            raise
        return _Entry(workload, strategy, old.loaded)

    def _compile(self, workload: Workload, strategy: str, target: Any) -> Any:
        """The program, once all ranks have one: loading it is collective, and none must wait there for another."""
        return require(
            self.agreement,
            f"compiling {workload.name}",
            lambda: workload.make_program(self._choose(strategy), target),
        )

    def _load(self, workload: Workload, program: Any) -> LoadedWorkload:
        from syncopate.runtime import ProcessGroup

        return workload.load_program(program, ProcessGroup(self.group))

    def _choose(self, strategy: str) -> Any:
        from syncopate.tune import Auto

        return Auto(agreement=self.agreement) if strategy == AUTO else _read_strategy(strategy)

    def _find_place(self, family: Hashable) -> Any:
        """The key of the program that may become one more of a family; None if there is room for another."""
        like = [
            key
            for key, entry in self._entries.items()
            if family is not None and not entry.captured and entry.family == family
        ]
        return like[0] if len(like) >= ROWS_KEPT else None

    def _make_room(self, family: Hashable) -> _Entry | None:
        """Drops a program if there are too many; gives back one that may become the new one."""
        place = self._find_place(family)
        if place is not None:
            return self._entries.pop(place)
        free = [key for key, entry in self._entries.items() if not entry.captured]
        if len(self._entries) >= PROGRAMS_KEPT and free:
            self._entries.pop(free[0]).loaded.close()
        return None

    def give_up(self, key: Hashable) -> None:
        """Drops a program of which a call has failed, so that the next one makes another."""
        entry = self._entries.pop(key)
        if entry.captured:
            # Its graphs have its addresses.
            self._given_up.append(entry)
        else:
            entry.loaded.close()

    def synchronize(self) -> None:
        """Waits for the calls on the current stream, and gives up the programs that have failed.

        Raises:
            DeviceWaitTimeout: A call did not complete.
            PeerFault: One did not on another rank.
        """
        errors = []
        for key, entry in list(self._entries.items()):
            try:
                entry.loaded.synchronize()
            except _FAULTS as error:
                errors.append(error)
                self.give_up(key)
        if errors:
            raise errors[0]

    def close(self) -> None:
        """Frees them all."""
        for entry in (*self._entries.values(), *self._given_up):
            entry.loaded.close()
        self._entries.clear()
        self._given_up.clear()


_groups: dict[str, _Programs] = {}
_lock = threading.RLock()
_threads = threading.local()


def _begin_process() -> None:
    """Whoever held the lock, or had a context, when this process was forked is not here."""
    global _lock, _threads
    _lock, _threads = threading.RLock(), threading.local()


os.register_at_fork(after_in_child=_begin_process)


def _ensure_context(device: int) -> None:
    """Asks the driver once in each thread: backward passes run in threads of torch's."""
    if device not in (known := _threads.__dict__.setdefault("known", set())):
        from syncopate.runtime import cuda

        cuda.ensure_context(device)
        known.add(device)


def _outside_of_pools(make: Callable[[], _Result]) -> _Result:
    """Calls it in a thread of its own, when this process's GPU has nothing left to do.

    Memory that a thread allocates while torch warms up a CUDA graph belongs to the pool of that graph, and goes with
    it; programs have to stay. The thread has another stream than the caller, and NCCL on it must not run beside kernels
    that wait for other ranks.
    """
    torch.cuda.synchronize()
    results: list[_Result] = []
    errors: list[BaseException] = []
    device = torch.cuda.current_device()

    def call() -> None:
        try:
            with torch.cuda.device(device):
                _ensure_context(device)
                results.append(make())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=call, name="syncopate-load")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def _programs(group_name: str) -> _Programs:
    group = find_group(group_name)
    programs = _groups.get(group_name)
    # Another group may go by that name now.
    if programs is None or programs.group is not group:
        _forget_destroyed()
        programs = _groups[group_name] = _Programs(group)
    return programs


def _forget_destroyed() -> None:
    """Frees the programs of groups that torch has destroyed, and with them what those groups have had."""
    known = distributed_c10d._world.pg_map
    for name in [name for name, programs in _groups.items() if programs.group not in known]:
        _groups.pop(name).close()


def call(
    group_name: str,
    key: Hashable,
    describe: Callable[[int], Workload],
    strategy: str,
    **tensors: torch.Tensor,
) -> Any:
    """Runs a workload on this rank's GPU.

    Args:
        group_name: The ranks.
        key: What calls of the workload, and none of another, have in common, but for the group.
        describe: The workload for so many ranks; asked if there is no program of the key.
        strategy: `AUTO`, the name of a strategy, or nothing for the default.
        **tensors: What its program takes.

    Returns:
        What the program gives back, of which some may lie in memory that its next call writes again.

    Raises:
        SyncopateError: There is no program for it, or the ranks do not agree.
        DeviceWaitTimeout: An earlier call of the program did not complete. The next one makes another program.
        PeerFault: Likewise, on another rank.
    """
    expect_gpus()
    with _lock:
        device = next(iter(tensors.values())).device
        if device.type == "cuda":
            _ensure_context(device.index)
        programs = _programs(group_name)
        loaded = programs.find(key, lambda: describe(programs.world_size), strategy)
        try:
            return loaded(**tensors)
        except _FAULTS:
            programs.give_up(key)
            raise


def _of(group: GroupLike | None) -> list[_Programs]:
    name = None if group is None else name_group(group)
    return [programs for known, programs in _groups.items() if name in (None, known)]


def synchronize(group: GroupLike | None = None) -> None:
    """Waits for the operators on the current stream, and says whether they have completed on all ranks.

    Results are wrong where they have not. Programs that have failed are dropped; the next call makes new ones, on all
    ranks.

    Args:
        group: The group; all groups if it is left out.

    Raises:
        DeviceWaitTimeout: One did not complete.
        PeerFault: One did not on another rank, so that library calls may have brought wrong results.
    """
    if torch.cuda.is_initialized():
        _ensure_context(torch.cuda.current_device())
    with _lock:
        for programs in _of(group):
            programs.synchronize()


def close_programs(group: GroupLike | None = None) -> None:
    """Waits for this process's GPU and frees the programs of a group, or of all groups.

    All ranks have to do so before the next call of an operator, and CUDA graphs that have captured one must be gone.

    Args:
        group: The group; all groups if it is left out.
    """
    with _lock:
        for programs in _of(group):
            programs.close()
