"""The programs behind the operators: made when a call needs one, and kept for the next.

A program belongs to a group, a workload (with its M) and a strategy. Making one is collective: the ranks compare what
they are about to make, compile it, and load it when all of them have compiled it. Of those that differ in M alone,
`ROWS_KEPT` are kept; one more takes the place of the one whose last call is longest ago, with its memory and, as a
rule, its code. Of all of a group, `PROGRAMS_KEPT` are. A program that a CUDA graph has captured stays until
`close_programs`. Since all ranks make the same calls, they drop the same ones. One of which a call has failed is
dropped by the rank that learns of it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, TypeVar, cast

import torch
from torch.distributed import distributed_c10d

from syncopate.agreement import expect_same, processes, require
from syncopate.errors import DeviceWaitTimeout, PeerFault, SyncopateError
from syncopate.plan.sequence import Sharding
from syncopate.strategy_names import read_strategy_name
from syncopate.torch.groups import GroupLike, find_group, name_group
from syncopate.torch.layout import align, arrange_weight, name_elements
from syncopate.workloads import (
    AttentionGradients,
    AttentionKind,
    AttentionWorkload,
    GemmKind,
    GemmWorkload,
)
from syncopate.workloads.loaded import LoadedGemm
from syncopate.workloads.loaded_attention import LoadedAttention
from syncopate.workloads.loaded_gradients import LoadedGradients

__all__ = [
    "AUTO",
    "PROGRAMS_KEPT",
    "ROWS_KEPT",
    "close_programs",
    "run",
    "run_attention",
    "run_attention_backward",
    "synchronize",
]

AUTO: Final = "auto"
"""The strategy that is chosen; see docs/tuning.md. An empty text is the default, others are names of strategies."""

PROGRAMS_KEPT: Final = 64
"""Programs of a group that are kept."""

ROWS_KEPT: Final = 8
"""Programs of a group that differ in M alone and are kept."""

_FAULTS: Final = (DeviceWaitTimeout, PeerFault)
"""What a program raises again in each call once it has done so."""

_Result = TypeVar("_Result")


_Workload: TypeAlias = GemmWorkload | AttentionWorkload | AttentionGradients
_Loaded: TypeAlias = LoadedGemm | LoadedAttention | LoadedGradients


@dataclass
class _Entry:
    workload: _Workload
    strategy: str
    loaded: _Loaded
    captured: bool = False

    @property
    def family(self) -> tuple[_Workload, str]:
        """What it shares with programs of other M."""
        return _family(self.workload, self.strategy)


def _family(workload: _Workload, strategy: str) -> tuple[_Workload, str]:
    if isinstance(workload, GemmWorkload):
        return replace(workload, m=workload.world_size), strategy
    return workload, strategy


def _rows(workload: _Workload) -> int | None:
    return workload.m if isinstance(workload, GemmWorkload) else None


def _facts(workload: _Workload) -> dict[str, Any]:
    """What ranks compare before they make a program."""
    if not isinstance(workload, GemmWorkload):
        return {"operator": workload.name}
    return {
        "operator": GemmKind(workload.kind).value,
        "m": workload.m,
        "n": workload.n,
        "k": workload.k,
        "dtype": workload.dtype,
        "transposed B": workload.transpose_b,
        "pitch of B": workload.weight_pitch,
        "returned A": workload.returns_a,
    }


class _Programs:
    """Those of one group, the last used one last."""

    def __init__(self, group: Any) -> None:
        self.group = group
        self.world_size: int = group.size()
        self._entries: OrderedDict[Any, _Entry] = OrderedDict()
        self._given_up: list[_Entry] = []
        self.agreement = processes(group)

    def find(self, key: Any, make: Callable[[], _Workload], strategy: str) -> _Loaded:
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

    def _make(self, workload: _Workload, strategy: str) -> _Entry:
        import syncopate

        target = syncopate.Target.current()
        family = _family(workload, strategy)
        place = self._find_place(family)
        expect_same(
            self.agreement,
            {
                **_facts(workload),
                "strategy": strategy,
                "in place of m": None if place is None else _rows(self._entries[place].workload),
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
            # Only programs of products have others in whose place they may come.
            cast("LoadedGemm", old.loaded).reschedule(cast("GemmWorkload", workload), program)
        except BaseException:
            # Nobody else has it any more.
            old.loaded.close()
            raise
        return _Entry(workload, strategy, old.loaded)

    def _compile(self, workload: _Workload, strategy: str, target: Any) -> Any:
        """The program, once all ranks have one: loading it is collective, and none must wait there for another."""

        def make() -> Any:
            if not isinstance(workload, GemmWorkload):
                chosen = None if strategy == AUTO else self._choose(strategy)
                return workload.compile(chosen, target=target)
            return workload.packed().compile(self._choose(strategy), target=target)

        return require(self.agreement, f"compiling {workload.name}", make)

    def _load(self, workload: _Workload, program: Any) -> _Loaded:
        from syncopate.runtime import ProcessGroup

        group = ProcessGroup(self.group)
        if isinstance(workload, AttentionGradients):
            return LoadedGradients(workload, program, group)
        if isinstance(workload, AttentionWorkload):
            return LoadedAttention(workload, program, group, workload.choose_config())
        return LoadedGemm(workload, program, group)

    def _choose(self, strategy: str) -> Any:
        from syncopate.tune import Auto

        if strategy == AUTO:
            return Auto(agreement=self.agreement)
        return read_strategy_name(strategy) if strategy else None

    def _find_place(self, family: tuple[_Workload, str]) -> Any:
        """The key of the program that may become one more of a family; None if there is room for another."""
        like = [
            key
            for key, entry in self._entries.items()
            if not entry.captured and entry.family == family
        ]
        return like[0] if len(like) >= ROWS_KEPT else None

    def _make_room(self, family: tuple[_Workload, str]) -> _Entry | None:
        """Drops a program if there are too many; gives back one that may become the new one."""
        place = self._find_place(family)
        if place is not None:
            return self._entries.pop(place)
        free = [key for key, entry in self._entries.items() if not entry.captured]
        if len(self._entries) >= PROGRAMS_KEPT and free:
            self._entries.pop(free[0]).loaded.close()
        return None

    def give_up(self, key: Any) -> None:
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


def run(
    kind: GemmKind,
    a: torch.Tensor,
    b: torch.Tensor,
    group_name: str,
    strategy: str,
    *,
    returns_a: bool = False,
) -> Any:
    """Runs a workload on this rank's GPU.

    Args:
        kind: What moves.
        a: What this rank has of A.
        b: B, [K, N].
        group_name: The ranks.
        strategy: `AUTO`, the name of a strategy, or nothing for the default.
        returns_a: Whether to give back A as it has arrived, too.

    Returns:
        What the program gives back. All of it but C of a gather or an exchange before the GEMM lies in memory that the
        next call of the program writes again.

    Raises:
        SyncopateError: There is no program for it, or the ranks do not agree.
        DeviceWaitTimeout: An earlier call of the program did not complete. The next one makes another program.
        PeerFault: Likewise, on another rank.
    """
    dtype = name_elements(a.dtype)
    if a.is_cuda:
        _ensure_context(a.get_device())
    a = align(a)
    b, transpose_b, pitch = arrange_weight(b)
    key = (kind, a.shape, b.shape, dtype, transpose_b, pitch, returns_a, strategy)

    def describe(world_size: int) -> GemmWorkload:
        rows, k = a.shape
        return GemmWorkload(
            kind,
            rows * world_size if kind is GemmKind.AG_GEMM else rows,
            b.shape[1] if transpose_b else b.shape[0],
            k,
            world_size,
            dtype,
            weight_pitch=pitch,
            transpose_b=transpose_b,
            returns_a=returns_a,
        )

    return _call(group_name, key, describe, strategy, a=a, b=b)


def run_attention(
    kind: AttentionKind,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool,
    sharding: Sharding,
    group_name: str,
    strategy: str,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Runs attention on this rank's GPU.

    Args:
        kind: Who has what.
        q: This rank's queries, [rows, heads, head_dim].
        k: Its keys, as many rows.
        v: Its values, likewise.
        causal: Whether a query takes the keys up to its own place only.
        sharding: How the sequence is cut.
        group_name: The ranks.
        strategy: The name of a strategy; `AUTO` or nothing for the default.

    Returns:
        Outputs, [rows, heads · head_dim], which of ULYSSES lie in memory that the next call of the program writes
        again, and logarithms.

    Raises:
        SyncopateError: As for `run`.
        DeviceWaitTimeout: Likewise.
        PeerFault: Likewise.
    """
    describe = _describe_attention(kind, q, k, causal, sharding)
    key = (kind, q.shape, k.shape, q.dtype, causal, sharding, strategy)
    given = _flatten(q=q, k=k, v=v)
    made: tuple[torch.Tensor, torch.Tensor] = _call(group_name, key, describe, strategy, **given)
    return made


def run_attention_backward(
    kind: AttentionKind,
    grad: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    grad_lse: torch.Tensor | None,
    causal: bool,
    sharding: Sharding,
    group_name: str,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Runs the gradients of attention on this rank's GPU, by the default strategy.

    Args:
        kind: Who has what.
        grad: The gradients of this rank's outputs, [rows, heads, head_dim].
        q: Its queries, likewise.
        k: Its keys, [rows, kv_heads, head_dim].
        v: Its values, likewise.
        o: Its outputs, like its queries.
        lse: Its logarithms, as `run_attention` gives them.
        grad_lse: Their gradients, if they have any.
        causal: As for `run_attention`.
        sharding: As for `run_attention`.
        group_name: The ranks.

    Returns:
        The gradients of queries, keys and values, like these.

    Raises:
        SyncopateError: As for `run`.
        DeviceWaitTimeout: Likewise.
        PeerFault: Likewise.
    """
    describe = _describe_attention(kind, q, k, causal, sharding)
    of_lse = grad_lse is not None
    key = ("gradients", kind, q.shape, k.shape, q.dtype, causal, sharding, of_lse)
    given = _flatten(q=q, k=k, v=v, o=o, do=grad) | {"lse": align(lse)}
    if grad_lse is not None:
        given["dlse"] = align(grad_lse)

    def make(world_size: int) -> AttentionGradients:
        return AttentionGradients(describe(world_size), of_lse=of_lse)

    made = _call(group_name, key, make, "", **given)
    of_q, of_k, of_v = (x.view(like.shape) for x, like in zip(made, (q, k, v), strict=True))
    return of_q, of_k, of_v


def _describe_attention(
    kind: AttentionKind, q: torch.Tensor, k: torch.Tensor, causal: bool, sharding: Sharding
) -> Callable[[int], AttentionWorkload]:
    """The workload for so many ranks, each of which has such queries and keys."""
    dtype = name_elements(q.dtype)
    if q.is_cuda:
        _ensure_context(q.get_device())

    def describe(world_size: int) -> AttentionWorkload:
        return AttentionWorkload(
            kind,
            q.shape[1],
            k.shape[1],
            q.shape[2],
            q.shape[0] * world_size,
            world_size,
            causal=causal,
            dtype=dtype,
            sharding=sharding,
        )

    return describe


def _flatten(**tensors: torch.Tensor) -> dict[str, torch.Tensor]:
    """Rows of all heads, as programs take them."""
    return {name: align(x.flatten(1)) for name, x in tensors.items()}


def _call(
    group_name: str,
    key: Any,
    describe: Callable[[int], _Workload],
    strategy: str,
    **tensors: torch.Tensor,
) -> Any:
    """Runs the program of a key, made of the workload for so many ranks if there is none."""
    with _lock:
        programs = _programs(group_name)
        loaded: Any = programs.find(key, lambda: describe(programs.world_size), strategy)
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
