"""`simulate`: runs a compiled program on the CPU, for all its ranks, and says whether it is sound.

What is executed is the fused kernel itself, `program.ir["fused"]`, on the tables that the runtime would upload,
linked by the runtime's own code into a simulated address space, and the host program of the runtime: staging, guard,
engine list.

What is modelled
----------------
* Every rank, CTA and warp-specialized partition is an agent; a seeded scheduler interleaves them at every operation
  that others can see. All CTAs of a launch are resident. Ranks drift apart over calls as they please.
* TMA loads and stores, cp.async and wgmma complete late and out of order, within what their waits promise: a load's
  bytes arrive on its mbarrier, the groups of bulk stores, cp.async and wgmma in the order of their issue as far as a
  wait can tell.
* The threads of a role are two: the first one, which performs scalar stores and atomics and arrives on mbarriers, and
  the rest. Only explicit barriers, the start and end of warp specialization, waits on mbarriers, and atomics whose
  result is used (Triton broadcasts it behind a barrier) order them. This is what Triton 3.6 makes of the IR; 3.9 adds
  a barrier in front of a release by itself, which no program may count on. So a tensor store, no barrier, a release is
  a race, and is reported where the reader reads.
* Acquire, release and scope of atomics, release sequences through read-modify-writes, fence.acq_rel.sys, kernel and
  stream order; fence.proxy.async between what ordinary stores and copy engines wrote and what TMA reads; the full
  wait_group of bulk stores before a release. Triton 3.6 lowers every store wait to the `.read` form, which says nothing
  about global memory.
* Data races between any two accesses of global memory, by granules of up to 16 bytes; reads of bytes of plan buffers
  and tensors that were not written in the same call; accesses outside a tensor; mbarriers: phases, arrivals, bytes,
  a phase that a waiting role has missed, memory that is freed while they are valid; flags that go back, in wrapping
  arithmetic, twins that are raised before they were consumed.
* Shared memory by slots: an asynchronous access that was not waited for, in either direction, and missing
  fence.proxy.async.shared::cta; a role that ends while its bulk stores may still read. Between ordinary accesses of
  one role Triton inserts barriers itself (its membar analysis), which is taken for granted here and does not count for
  global memory.

What is not
-----------
* Weak memory beyond races: a racy program is reported, and then executed as if memory were sequentially consistent.
* Bank layouts, registers, sizes of shared memory, occupancy, clusters, multicast, time.
* The several warp groups of a role each wait for their own wgmma; here they wait together.
* Floating-point results are those of numpy in the IR's precision; a dot accumulates in float32, in another order than
  the hardware, and TF32 inputs are not rounded.
* Inline assembly other than the device library's is an error, as is any operation without an emitter.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from syncopate.abi import FIRST_EPOCH
from syncopate.errors import SyncopateError
from syncopate.profile import Profile, TimeSource, read_lanes
from syncopate.runtime.faults import decode_fault, describe_signal
from syncopate.runtime.interface import TensorParam
from syncopate.sim.findings import Kind, Stop, TraceEvent, Verdict
from syncopate.sim.host import Host
from syncopate.sim.machine import Machine
from syncopate.sim.rank_memory import Symmetric
from syncopate.sim.scheduler import Policy, Script, Task
from syncopate.sim.stuck import describe_stuck
from syncopate.sim.translate import Kernel, translate
from syncopate.sim.values import element
from syncopate.tables import BufferSpec, Region

__all__ = ["Result", "expect_integer", "simulate"]

Array = np.ndarray[Any, Any]
Inputs = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Result:
    """What a simulation gives.

    Attributes:
        outputs: For each call, the outputs by name: one array for each rank, in the values' float32 or wider.
        inputs: For each call, what went in, in the same form; those drawn at random included.
        buffers: The plan's buffers by name, in the same form, as they are after the last call.
        verdict: Whether the run was sound.
        trace: Signals raised and bulk copies issued, in order; empty unless it was asked for.
        profile: What the roles have left records of, in the simulator's own time; None if the program leaves none.
    """

    outputs: tuple[Mapping[str, list[Array]], ...]
    inputs: tuple[Mapping[str, list[Array]], ...]
    buffers: Mapping[str, list[Array]]
    verdict: Verdict
    trace: tuple[TraceEvent, ...] = ()
    profile: Profile | None = None


def simulate(
    program: Any,
    inputs: Inputs | Sequence[Inputs] | None = None,
    *,
    ranks: int | None = None,
    calls: int | None = None,
    seed: int = 0,
    scheduler: Policy | str | Script = Policy.RANDOM,
    trace: bool = False,
    timeouts: bool = False,
    staged: bool = False,
    first_epoch: int = FIRST_EPOCH,
    partial: Collection[str] = (),
) -> Result:
    """Runs calls of a program back to back on simulated ranks, without any barrier between them.

    Args:
        program: What `syncopate.compile` returned.
        inputs: For each tensor that a call takes, one array for each rank; a sequence of such mappings gives each call
            its own. Left out, every call gets fresh random numbers. A rank that holds several regions of a buffer
            when a call starts takes them from an array of the buffer's shape.
        ranks: Number of ranks, to be sure of it; a program is for one number of them.
        calls: Number of calls; by default as many as there are inputs, or 1.
        seed: Of the interleaving and of random inputs.
        scheduler: `random`, or the extremes `late` (asynchronous operations complete last) and `early`; or a script.
        trace: Whether to keep a trace.
        timeouts: Lets the device's own time limit end waits that cannot end; otherwise they are a deadlock.
        staged: Whether inputs are copied into the buffers in front of the kernel, as the runtime does with those that
            the kernel cannot read where they are.
        first_epoch: Number of the first call, as if so many had been before; near 2³¹ signals wrap around.
        partial: Outputs of which a call may leave parts as they were: poisoned.

    Returns:
        Outputs, trace and verdict. What is wrong with the program is in the verdict, not raised.

    Raises:
        SyncopateError: An argument is wrong.
        SimulationError: The fused kernel holds an operation that the simulator does not know.
    """
    try:
        policy = scheduler if isinstance(scheduler, Script) else Policy(scheduler)
    except ValueError:
        known = ", ".join(member.value for member in Policy)
        raise SyncopateError(f"scheduler: expects one of {known}, but got {scheduler!r}") from None
    seed = expect_integer("seed", seed, 0)
    first_epoch = expect_integer("first_epoch", first_epoch, FIRST_EPOCH)
    if ranks is not None and ranks != program.world_size:
        raise SyncopateError(
            f"ranks: program {program.name} was compiled for {program.world_size}, but got {ranks}; compile a plan "
            f"whose mesh has {ranks}"
        )
    prepared = _prepare_inputs(program, inputs, calls, seed)
    kernel = _translate(program.ir["fused"])
    machine = Machine(program, kernel, policy, seed)
    machine.first_epoch = first_epoch
    machine.describe_flag = lambda rank, index: describe_signal(program, rank, index)
    if trace:
        machine.trace = []
    symmetric = Symmetric.allocate(machine)
    hosts = [
        Host(machine, rank, symmetric, prepared, partial) for rank in range(program.world_size)
    ]
    outputs: list[list[dict[str, Array]]] = [[] for _ in hosts]
    for rank, host in enumerate(hosts):
        machine.scheduler.spawn(
            f"the stream of rank {rank}", host.run(outputs[rank], staged=staged)
        )
        machine.scheduler.spawn(f"the copy engine of rank {rank}", host.engine.run(len(prepared)))
    try:
        stuck = machine.scheduler.run(_IdleWatch(machine, timeouts))
        if not _report_faults(machine, hosts) and stuck:
            _report_stuck(machine, stuck)
    except Stop:
        pass
    machine.verdict.steps = machine.scheduler.steps
    complete = min(map(len, outputs))
    gathered = tuple(
        {name: [mine[call][name] for mine in outputs] for name in outputs[0][call]}
        for call in range(complete)
    )
    held = [host.read_buffers() for host in hosts]
    buffers = {name: [mine[name] for mine in held] for name in held[0]}
    return Result(
        gathered,
        prepared,
        buffers,
        machine.verdict,
        tuple(machine.trace or ()),
        _read_profile(program, hosts),
    )


def _read_profile(program: Any, hosts: Sequence[Host]) -> Profile | None:
    """What roles have left, by all ranks; one clock is behind all of it."""
    ctas = program.comm_ctas + program.num_ctas
    ranks = [
        read_lanes(words, ctas, rank=host.rank, gpu="the simulator")
        for host in hosts
        if (words := host.memory.lanes()) is not None
    ]
    return Profile.of_records(program, ranks, TimeSource.SIMULATED) if ranks else None


@functools.lru_cache(maxsize=16)
def _translate(text: str) -> Kernel:
    return translate(text)


class _IdleWatch:
    """Decides what happens when everybody waits: time passes, once, or it is a deadlock."""

    def __init__(self, machine: Machine, timeouts: bool) -> None:
        self._machine = machine
        self._left = 2 if timeouts and machine.program.timeout_ns else 0

    def __call__(self) -> bool:
        if not self._left:
            return False
        self._left -= 1
        self._machine.skip(self._machine.program.timeout_ns + 1)
        return bool(self._machine.scheduler.parked)


def _report_faults(machine: Machine, hosts: Sequence[Host]) -> bool:
    """Reports the fault records that are set, and says whether there are any."""
    machine.scheduler.current = None
    records = [record for record in (host.memory.fault() for host in hosts) if record is not None]
    for record in records:
        machine.report(Kind.TIMEOUT, str(decode_fault(machine.program, record)))
    # What came after a wait was given up follows from it.
    machine.verdict.findings.sort(key=lambda finding: finding.kind is not Kind.TIMEOUT)
    return bool(records)


def expect_integer(name: str, value: Any, least: int) -> int:
    """An argument that has to be an integer.

    Raises:
        SyncopateError: It is none, or too small.
    """
    if not isinstance(value, int | np.integer) or value < least:
        raise SyncopateError(
            f"{name}: expects an integer of at least {least}, but got {value!r:.60}"
        )
    return int(value)


def _report_stuck(machine: Machine, stuck: Sequence[Task]) -> None:
    message = describe_stuck(machine, stuck)
    machine.scheduler.current = None
    machine.report(Kind.DEADLOCK, message)


def _prepare_inputs(
    program: Any, inputs: Inputs | Sequence[Inputs] | None, calls: int | None, seed: int
) -> tuple[Mapping[str, list[Array]], ...]:
    if calls is not None:
        expect_integer("calls", calls, 1)
    given: list[Inputs | None]
    if inputs is None or isinstance(inputs, Mapping):
        given = [inputs] * (calls or 1)
    else:
        given = list(inputs)
        if calls is not None and calls != len(given):
            raise SyncopateError(
                f"calls: expects {len(given)}, the number of inputs, but got {calls}"
            )
    generator = np.random.default_rng(seed)
    return tuple(_one_input(program, mapping, generator) for mapping in given)


def _one_input(
    program: Any, given: Inputs | None, generator: np.random.Generator
) -> Mapping[str, list[Array]]:
    wanted: dict[str, tuple[list[tuple[int, ...] | None], str]] = {}
    for spec in program.buffers:
        shapes = [_input_shape(spec, regions) for regions in spec.inputs]
        wanted[spec.name] = (shapes, spec.dtype)
    for param in program.params:
        if isinstance(param, TensorParam) and not param.output:
            wanted[param.tensor] = ([param.shape] * program.world_size, param.dtype)
    result: dict[str, list[Array]] = {}
    for name, (shapes, dtype) in wanted.items():
        kind = element(dtype)
        # What no rank provides need not be given.
        if given is None or (name not in given and not any(shapes)):
            arrays: Any = [_draw(generator, shape or (0,), kind) for shape in shapes]
        elif name not in given:
            raise SyncopateError(f"inputs: {name} is missing; a call takes {', '.join(wanted)}")
        else:
            arrays = given[name]
        if len(arrays) != program.world_size:
            raise SyncopateError(
                f"inputs: {name}: expects one array for each of {program.world_size} ranks, but got {len(arrays)}"
            )
        result[name] = []
        for rank, (array, shape) in enumerate(zip(arrays, shapes, strict=True)):
            if shape is not None and tuple(np.shape(array)) != tuple(shape):
                raise SyncopateError(
                    f"inputs: {name} of rank {rank}: expects shape {list(shape)}, but got {list(np.shape(array))}"
                )
            values = np.asarray(array)
            result[name].append(kind.decode(kind.encode(values)))
    for name in given or ():
        if name not in wanted:
            raise SyncopateError(f"inputs: {name} is no input; a call takes {', '.join(wanted)}")
    return result


def _input_shape(spec: BufferSpec, regions: Sequence[Region]) -> tuple[int, ...] | None:
    """The shape of what a rank provides: that of its region; of several, the buffer's; None without any."""
    if not regions:
        return None
    return regions[0].sizes if len(regions) == 1 else spec.shape


def _draw(generator: np.random.Generator, shape: tuple[int, ...], kind: Any) -> Array:
    if kind.is_float:
        return generator.standard_normal(shape, np.float32)
    if kind.name == "i1":
        return generator.integers(0, 2, shape).astype(np.bool_)
    return generator.integers(-8, 8, shape)
