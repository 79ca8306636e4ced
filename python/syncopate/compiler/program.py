"""What `compile` returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from syncopate.compiler.target import Target
from syncopate.errors import SyncopateError
from syncopate.runtime.interface import (
    DEFAULT_TIMEOUT_NS,
    BufferParam,
    KernelImage,
    Param,
    TensorParam,
)
from syncopate.strategy import Strategy
from syncopate.tables import BufferSpec, SignalLayout, Table

if TYPE_CHECKING:
    from syncopate.model import Timeline
    from syncopate.profile import Profile
    from syncopate.runtime import Group, LoadedProgram
    from syncopate.sim import Result
    from syncopate.tune import TuningReport

__all__ = ["Program"]


@dataclass(frozen=True, repr=False)
class Program:
    """A fused kernel with the schedule of every rank; the `runtime.interface.Program` that the runtime loads.

    Calling it runs it on the default process group of torch.distributed; `load` binds it to another group.

    Attributes:
        name: Name of the plan.
        world_size: Number of ranks.
        target: What it was compiled for.
        strategy: The choices that were made.
        buffers: The plan's buffers.
        params: The kernel's parameters that are not compile-time, without the context.
        image: The fused kernel, one for all ranks.
        guard: The small kernel that holds a rank's stream until its peers have got the input that is to be replaced;
            None if no rank gets from another.
        remap: The small kernel that brings outputs of library calls from slots into rows; None if there are none.
        num_ctas: CTAs over which the tiles are distributed.
        comm_ctas: CTAs of a launch in front of those, which carry out the transfers of dedicated realizations.
        tiles: Size of the grid of tiles.
        localized: The buffer whose input a rank's tiles read where the caller keeps it, so that no copy of it is made
            for them; None where they cannot. An input that is not contiguous or not aligned to 16 bytes is copied all
            the same, and so is one that a copy engine of another rank gets; `explain` says why it is None.
        tile_shape: Shape of an output tile in elements, if the kernel stores through a descriptor.
        signal_layout: Numbering of the flags.
        tables: Schedule tables of every rank, by name.
        ir: The program at every stage, as text: ``plan`` (chunk IR as written), ``input`` (all that the passes work
            on), ``lowered`` (what `syncopate-opt --syncopate-pipeline` makes of it), ``fused`` (the kernel in it, in
            generic form), ``ttir`` (the local kernel), ``ttgir``, ``ptx`` (the fused kernel as Triton prints it).
        timeout_ns: Limit of a device wait in nanoseconds; 0 waits for ever.
        tuning: How the strategy was chosen; None if it was given.
        profiled: Whether the kernel leaves records of what it does when.
    """

    name: str
    world_size: int
    target: Target
    strategy: Strategy
    buffers: tuple[BufferSpec, ...]
    params: tuple[Param, ...]
    image: KernelImage = field(repr=False)
    guard: KernelImage | None = field(repr=False)
    remap: KernelImage | None = field(repr=False)
    num_ctas: int
    comm_ctas: int
    tiles: tuple[int, ...]
    localized: str | None
    signal_layout: SignalLayout
    tables: tuple[Mapping[str, Table], ...] = field(repr=False)
    ir: Mapping[str, str] = field(repr=False)
    timeout_ns: int = DEFAULT_TIMEOUT_NS
    tuning: TuningReport | None = field(default=None, repr=False)
    profiled: bool = False

    @property
    def grid(self) -> tuple[int, int, int]:
        """Grid of the launch."""
        return (self.comm_ctas + self.num_ctas, 1, 1)

    def rank_tables(self, rank: int) -> Mapping[str, Table]:
        """The tables of one rank: tiles, waits, commands, signals, calls, groups, tile_groups, slots.

        Raises:
            SyncopateError: The program has no such rank.
        """
        if not 0 <= rank < self.world_size:
            raise SyncopateError(f"rank: expects one in [0, {self.world_size}), but got {rank}")
        return self.tables[rank]

    @cached_property
    def tile_shape(self) -> tuple[int, ...]:
        """Shape of the output tile, in elements.

        Raises:
            SyncopateError: The kernel has no descriptor of an output.
        """
        layouts = iter(self.image.descriptors)
        for param in self.params:
            if isinstance(param, (BufferParam, TensorParam)) and param.descriptor:
                layout = next(layouts)
                if isinstance(param, TensorParam) and param.output:
                    kind = dict(self.image.arguments)[param.name]
                    block = kind[kind.index("[") + 1 : kind.index("]")]
                    return tuple(int(size) for size in block.split(","))
                del layout
        raise SyncopateError(f"program {self.name} stores no output through a descriptor")

    @property
    def workspace_bytes(self) -> int:
        """Symmetric memory that each rank needs: flags and buffers."""
        from syncopate.runtime.memory_plan import plan_memory

        return plan_memory(self).nbytes

    def explain(self, of: Profile | Timeline | None = None) -> str:
        """What overlaps what, how transfers are realized and why, in words.

        Args:
            of: What a call has taken, or would take by `syncopate.model.predict`: also says where that time goes, and
                what to try.
        """
        from syncopate.profile import Profile, describe_run, predicted_run
        from syncopate.show import describe_schedule

        parts = [describe_schedule(self)]
        if self.tuning is not None:
            parts.append(str(self.tuning))
        if isinstance(of, Profile):
            parts.append(of.explain())
        elif of is not None:
            parts.append(describe_run(predicted_run(self, of)))
        return "\n\n".join(parts)

    def __repr__(self) -> str:
        return (
            f"<Program {self.name}: {self.image.name} for {self.world_size} ranks on {self.target}>"
        )

    def simulate(self, inputs: Any = None, *, ranks: int | None = None, **options: Any) -> Result:
        """Runs the fused kernel itself for all ranks on the CPU, and says whether it is sound.

        Args:
            inputs: For each tensor that a call takes, one array for each rank; random numbers if it is left out.
            ranks: Number of ranks, to be sure of it; that of the program if it is left out.
            **options: As for `syncopate.sim.simulate`: calls, seed, scheduler, …

        Returns:
            Outputs, trace and verdict.

        Raises:
            SyncopateError: An argument is wrong, or the kernel holds an operation that the simulator does not know.
        """
        from syncopate.sim import simulate

        return simulate(self, inputs, ranks=ranks, **options)

    def load(self, group: Group | None = None, *, remap: bool = True) -> LoadedProgram:
        """Binds the program to memory and streams. Collective over the group.

        Args:
            group: The ranks to run it on; the default process group of torch.distributed if it is left out.
            remap: Whether calls bring outputs from slots into rows. If not, they give back the slots, and what comes
                next reads those; see `LoadedProgram.slots`.

        Raises:
            SyncopateError: The group has another number of ranks, or the kernel does not fit on the GPU.
        """
        from syncopate import runtime

        return runtime.load(self, runtime.ProcessGroup() if group is None else group, remap=remap)

    @cached_property
    def _loaded(self) -> LoadedProgram:
        return self.load()

    def __call__(self, **tensors: Any) -> Any:
        """Runs the program on the default process group, which loads it the first time; see `LoadedProgram`."""
        return self._loaded(**tensors)
