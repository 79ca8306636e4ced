"""A program bound to a group: what a user calls."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import torch

from syncopate.agreement import require
from syncopate.errors import SyncopateError
from syncopate.forks import expect_gpus, expect_process, this_process
from syncopate.runtime import cuda
from syncopate.runtime.engine import CopyWait
from syncopate.runtime.fault_watch import FaultWatch
from syncopate.runtime.groups import Group, SymmetricAllocation
from syncopate.runtime.interface import Program
from syncopate.runtime.joint_calls import JointCalls
from syncopate.runtime.memory_plan import plan_memory, resolve
from syncopate.runtime.rank_state import RankState, load_library
from syncopate.runtime.remap import slot_table
from syncopate.runtime.rescue import watchdog
from syncopate.runtime.table_checks import check_reach

if TYPE_CHECKING:
    from syncopate.profile import Profile


class LoadedProgram:
    """Runs a program on the local ranks of a group.

    A call enqueues and returns; like any torch operation it is ordered by the current stream. Calls may be captured in
    a CUDA graph. All ranks have to make the same calls, and calls of several programs in the same order, unless their
    kernels fit on the GPU together. A call on another stream than the one before waits for that.

    After a device wait reached its time limit, the next call, `check` and `synchronize` raise `DeviceWaitTimeout`; the
    program has to be loaded again. Where it makes library calls, `synchronize` also raises `PeerFault` for a wait of
    another rank.
    """

    def __init__(self, program: Program, group: Group, *, remap: bool = True) -> None:
        """Allocates, uploads and loads. Collective over the group; not during a graph capture.

        Args:
            program: The compiled program.
            group: The ranks to run it on.
            remap: Whether calls bring outputs from slots into rows; if not, they give back all slots.

        Raises:
            SyncopateError: The group has another number of ranks, or the kernel does not fit on the GPU.
        """
        expect_gpus()
        self.group, self._process = group, this_process()
        self._remap = remap
        self._memory: SymmetricAllocation | None = None
        self._nbytes = 0
        self._last_stream: int | None = None
        board = group.fault_board()
        self._place(program)
        with torch.cuda.device(self._device):
            self._rescue_stream = cuda.create_stream()
            self._event, self._order = cuda.create_event(), cuda.create_event()
            self._joint = JointCalls(self._device, list(self._ranks))
        self._faults = FaultWatch(board, self._device, self._rescue_stream)
        self._closed = False
        group.barrier()
        self._watch()

    def _place(self, program: Program) -> None:
        """Makes the state of all local ranks, in memory that is there if it is enough."""
        group = self.group
        if program.world_size != group.world_size:
            raise SyncopateError(
                f"group: expects {program.world_size} ranks, for which program {program.name} was compiled, "
                f"but got {group.world_size}"
            )
        for rank in group.local_ranks:
            check_reach(program, rank, [group.reaches(rank, q) for q in range(program.world_size)])
        plan = plan_memory(program)
        if self._memory is None or plan.nbytes > self._nbytes:
            self._memory, self._nbytes = group.allocate(plan.nbytes), plan.nbytes
        memory, addresses = self._memory, resolve(plan, self._memory.addresses)
        ranks: dict[int, RankState] = {}

        def bind() -> None:
            for rank in group.local_ranks:
                with torch.cuda.device(group.device(rank)):
                    ranks[rank] = RankState(
                        program, group, rank, memory, plan, addresses, libraries[rank], self._remap
                    )

        def warm_up() -> None:
            for rank, state in ranks.items():
                with torch.cuda.device(group.device(rank)):
                    state.warm_up()

        try:
            with torch.cuda.device(group.device(group.local_ranks[0])):
                libraries = {rank: load_library(program, group, rank) for rank in group.local_ranks}
            # No rank makes a library call before all can.
            require(group.agreement, f"loading {program.name}", bind)
            require(group.agreement, f"loading {program.name}", warm_up)
        except BaseException:
            for state in ranks.values():
                state.close()
            raise
        first = ranks[group.local_ranks[0]]
        self.program, self._ranks = program, ranks
        self._device = first.device
        # One local rank without a stream of its own runs on torch's current stream, the fast path.
        self._only = first if len(ranks) == 1 and first.own_stream is None else None

    def _watch(self) -> None:
        self._faults.follow(self.program, list(self._ranks.values()))
        if any(state.engine is not None for state in self._ranks.values()):
            watchdog.watch(self)

    def reschedule(self, program: Program) -> None:
        """Goes on with another program, such as one of the same plan and kernel for another number of rows.

        Code that is the same is not loaded again, and the memory stays if it is enough: it is that of the largest
        program so far, so load the largest first if memory is not to be allocated on the way, and be there twice while
        it grows. Waits for all calls of all ranks. Collective over the group; not during a graph capture, and graphs
        captured before must not be replayed. Tensors that `input`, `buffer`, `slots` and calls have given are no longer
        the program's.

        Args:
            program: The program, for as many ranks.

        Raises:
            SyncopateError: It has another number of ranks, or, after which this one is closed, does not fit on the GPU.
            DeviceWaitTimeout: An earlier call did not complete.
        """
        if program.world_size != self.group.world_size:
            raise SyncopateError(
                f"program: expects one for {self.group.world_size} ranks, but {program.name} was compiled for "
                f"{program.world_size}"
            )
        self.check()
        if cuda.is_capturing(torch._C._cuda_getCurrentRawStream(self._device)):
            raise SyncopateError(
                "reschedule: a program cannot change while a CUDA graph is captured"
            )
        torch.cuda.synchronize(self._device)
        self.check()
        # Nobody reads or writes this rank's memory any more.
        self.group.barrier()
        before = self._ranks
        watchdog.forget(self)
        try:
            self._place(program)
        except BaseException:
            self.close()
            raise
        self._watch()
        for state in before.values():
            state.close()
        self.group.barrier()

    def __call__(self, **tensors: Any) -> Any:
        """Runs the program once.

        Args:
            **tensors: By name: the rank's own input region of a buffer (left out, or the tensor of `input`, if it was
                written in place); the kernel's other tensors; outputs, optionally. A group with several local ranks
                takes a list or a mapping with one tensor for each of them.

        Returns:
            The output, or a tuple of them; for a group with several local ranks a list of that. An output that the plan
            names is a part of a symmetric buffer, which the next call writes again.

        Raises:
            SyncopateError: An argument is wrong; nothing was enqueued.
            DeviceWaitTimeout: An earlier call did not complete.
        """
        self.check()
        if self._only is None:
            return self._joint.call(list(self._ranks.values()), tensors)
        state = self._only
        stream = torch._C._cuda_getCurrentRawStream(self._device)
        if stream != self._last_stream:
            self._follow(stream)
        if torch._C._cuda_getDevice() != self._device:
            raise SyncopateError(
                f"the current device is not cuda:{self._device}, on which the program was loaded; set it before"
            )
        state.prepare(tensors)
        state.stage(stream)
        state.enqueue_engine()
        state.launch(stream)
        if state.engine is not None and cuda.is_capturing(stream):
            state.engine.join(stream)
        return state.result()

    def _follow(self, stream: int) -> None:
        """Makes a stream wait for calls on another one: two calls at once would count one epoch."""
        last, self._last_stream = self._last_stream, stream
        # What is captured waits for nothing outside of its graph, which torch replays behind what it has captured.
        if last is not None and not cuda.is_capturing(stream) and not cuda.is_capturing(last):
            cuda.record_and_wait(self._order, last, stream)

    def profile(self, **tensors: Any) -> Profile:
        """Runs the program once and says what its roles did when. Collective over the group; waits for the call.

        The first calls after loading are slower than later ones: call a few times before.

        Args:
            **tensors: As for a call.

        Raises:
            SyncopateError: The program was compiled without `profile=True`, or an argument is wrong.
            DeviceWaitTimeout: A call did not complete.
        """
        from syncopate.profile import Profile, TimeSource

        if not self.program.profiled:
            raise SyncopateError(
                f"program {self.program.name} leaves no records of its calls; compile it with profile=True"
            )
        self.synchronize()
        for state in self._ranks.values():
            with torch.cuda.device(state.device):
                state.clear_records()
        self.group.barrier()
        self(**tensors)
        self.synchronize()
        self.group.barrier()
        own = require(
            self.group.agreement,
            "reading records",
            lambda: {rank: state.read_records() for rank, state in self._ranks.items()},
        )
        return Profile.of_records(self.program, self.group.gather(own), TimeSource.MEASURED)

    def detached(self) -> AbstractContextManager[None]:
        """Calls in this context do not make the current stream wait for the ranks' own streams; its end does.

        Ranks then drift apart over calls as they do on GPUs of their own. Inputs and outputs have to live until the
        end. Without ranks that have streams of their own this changes nothing.
        """
        return self._joint.detached(list(self._ranks.values()))

    def input(self, name: str, rank: int | None = None) -> torch.Tensor:
        """The region of a symmetric buffer that a rank holds when a call starts: a zero-copy input.

        Write it and leave the tensor out of the call. Call `acquire` before writing it, unless nothing was called since
        the last write.

        Args:
            name: Name of the buffer.
            rank: A local rank; may be left out if there is one.
        """
        state = self._state(rank)
        if name not in state.inputs:
            raise SyncopateError(
                f"{name}: not an input buffer with a single region on rank {state.rank}; there are {list(state.inputs)}"
            )
        return state.inputs[name]

    def buffer(self, name: str, rank: int | None = None) -> torch.Tensor:
        """A local rank's whole instance of a symmetric buffer: after a call, what it received."""
        state = self._state(rank)
        names = [spec.name for spec in self.program.buffers]
        if name not in names:
            raise SyncopateError(
                f"{name}: not a buffer of program {self.program.name}; there are {names}"
            )
        return state.buffer(name)[1]

    def slots(self, name: str, rank: int | None = None) -> torch.Tensor:
        """In which rows of the slots an output lies: what kernels pass to `syncopate.language.slot_offsets`.

        Args:
            name: Name of a buffer that library calls read or write.
            rank: A local rank; may be left out if there is one.

        Returns:
            i32, by rows of the rank's output and columns of its tiles.

        Raises:
            SyncopateError: There is no such buffer, or it holds no output in slots.
        """
        state = self._state(rank)
        for spec in self.program.buffers:
            if spec.name == name and spec.slots is not None and spec.outputs[state.rank]:
                return slot_table(spec, state.rank, state.device)
        raise SyncopateError(f"{name}: not a buffer that gives back tiles in slots")

    @property
    def workspace_bytes(self) -> int:
        """Memory of a rank's GPU that the program has: symmetric memory, tables, scratch, outputs in rows."""
        own = max(state.device_bytes for state in self._ranks.values())
        return own + (0 if self._memory is None else self._nbytes)

    def watch_copies(
        self, make_event: Callable[[int], tuple[Any, Callable[[], int]]], rank: int | None = None
    ) -> list[CopyWait]:
        """Has an event recorded behind each wait of a side stream that copies to other ranks follow, for measurements.

        Args:
            make_event: Given the raw handle of the stream, gives an event and what records it there.
            rank: A local rank; may be left out if there is one.

        Returns:
            The waits, in their order; none without copy engines.
        """
        state = self._state(rank)
        if state.engine is None or self._memory is None:
            return []
        stream = state.engine.stream
        ranges = [(begin, begin + self._nbytes) for begin in self._memory.addresses]
        return state.engine.watch_copies(ranges, state.rank, lambda: make_event(stream))

    def _state(self, rank: int | None) -> RankState:
        if rank is None and len(self._ranks) == 1:
            return next(iter(self._ranks.values()))
        if rank not in self._ranks:
            raise SyncopateError(
                f"rank: expects one of the local ranks {list(self._ranks)}, but got {rank}"
            )
        return self._ranks[rank]

    def acquire(self) -> None:
        """Holds the current stream until no peer reads this process's inputs, so that `input` may be written."""
        self.check()
        caller = torch._C._cuda_getCurrentRawStream(self._device)
        for state in self._ranks.values():
            state.acquire(caller)

    def faulted(self) -> bool:
        """Whether a device wait of a local rank reached its time limit. Reads host memory only."""
        return self._faults.seen()

    def check(self) -> None:
        """Raises `DeviceWaitTimeout` if a device wait of a local rank has reached its time limit so far.

        Reads host memory only. Also raises what `synchronize` has raised, and a `SyncopateError` in a process that was
        forked from the one that has loaded the program, or when it is closed.
        """
        expect_process(self._process, "a loaded program")
        if self._closed:
            raise SyncopateError(f"program {self.program.name} is closed; load it again")
        self._faults.check()

    def synchronize(self) -> None:
        """Waits until the calls on the current stream have finished.

        Raises:
            DeviceWaitTimeout: One of them did not complete.
            PeerFault: One of them did not on another rank, so that library calls may have brought wrong results.
        """
        self.check()
        with torch.cuda.device(self._device):
            caller = torch._C._cuda_getCurrentRawStream(self._device)
            cuda.call("cuEventRecord", self._event, caller)
            while not cuda.event_done(self._event):
                self.check()
                time.sleep(20e-6)
        self.check()
        self._faults.check_peers()

    def rescue(self) -> float | None:
        """Lets the side streams go after a fault, as the watchdog asks for; see `Rescuable.rescue`."""
        return self._faults.rescue()

    def close(self) -> None:
        """Waits for this process's GPU, frees streams and code, and lets go of the memory.

        Not collective: the memory becomes another program's when all ranks have closed this one, and no tensor of it is
        left.
        """
        if self._closed:
            return
        self._closed = True
        if self._process is not this_process():
            # All of it is its parent's.
            return
        while (delay := self.rescue()) is not None:
            time.sleep(delay)
        torch.cuda.synchronize(self._device)
        watchdog.forget(self)
        self._faults.end(self._free)

    def _free(self) -> None:
        for state in self._ranks.values():
            state.close()
        self._memory = None
        self._joint.close()
        for event in (self._event, self._order):
            cuda.call("cuEventDestroy_v2", event)
        cuda.call("cuStreamDestroy_v2", self._rescue_stream)

    def __enter__(self) -> LoadedProgram:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
