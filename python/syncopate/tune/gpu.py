"""Runs candidates on GPUs: compiles and loads them, checks their results, and times single calls."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import torch
import torch.distributed as dist

from syncopate.errors import SyncopateError
from syncopate.runtime import ProcessGroup, load
from syncopate.runtime.interface import TensorParam
from syncopate.runtime.tensors import torch_dtype
from syncopate.runtime.timing import time_call_us
from syncopate.tune.space import Candidate
from syncopate.workloads.reference import draw_input, draw_weight, multiply

if TYPE_CHECKING:
    from syncopate.compiler import Program
    from syncopate.runtime import LoadedProgram
    from syncopate.workloads import GemmWorkload

__all__ = ["GpuBench", "gemm_bench", "plan_bench"]

CALLS: Final = 6
"""Calls of a candidate whose results are checked, one right behind the other."""

TOLERANCES: Final = {1: 1e-1, 2: 1e-2, 4: 1e-2, 8: 1e-6}
"""Of the relative error of a result in the Frobenius norm, by the bytes of an element: a few times what rounding makes
of it, with float32 rounded to 10 bits of mantissa."""

SCALES: Final = (1.0, 2.0, 0.5)
"""Exact results scale with their input by a power of two, and so do rounded ones: no two calls have one result."""


class GpuBench:
    """This rank's GPU, in a process group."""

    def __init__(
        self,
        compile: Callable[[Candidate], Program],
        inputs: Sequence[Mapping[str, Any]],
        references: Sequence[torch.Tensor],
        group: dist.ProcessGroup,
        node_size: int | None = None,
    ) -> None:
        """Takes what all candidates get. Collective.

        Args:
            compile: Compiles a candidate.
            inputs: Tensors of a call by name, for some calls that differ.
            references: The result of each, in float32.
            group: The ranks.
            node_size: Ranks of a node, if there are several nodes.
        """
        self._compile, self._inputs, self._references = compile, inputs, references
        self._line, self._ranks = torch.zeros(1, device="cuda"), group
        self._group = _group_of_nodes(group, node_size)

    def compile(self, candidate: Candidate) -> Program:
        """Compiles a candidate."""
        return self._compile(candidate)

    def start(self, program: Any) -> GpuRunner:
        """Loads a program."""
        loaded = load(program, self._group)
        return GpuRunner(loaded, self._inputs, self._references, self._align)

    def _align(self) -> None:
        dist.all_reduce(self._line, group=self._ranks)


def _group_of_nodes(group: dist.ProcessGroup, node_size: int | None) -> ProcessGroup:
    """The group; ranks of a node are consecutive."""
    if node_size is None:
        return ProcessGroup(group)
    first = dist.get_rank(group) // node_size * node_size
    members = dist.get_process_group_ranks(group)[first : first + node_size]
    # Only its store and its ranks are needed, so no communicator, for which ranks of other nodes would have to come.
    node = dist.new_group(members, backend="gloo", use_local_synchronization=True)
    return ProcessGroup(group, node)


class GpuRunner:
    """A loaded program."""

    def __init__(
        self,
        loaded: LoadedProgram,
        inputs: Sequence[Mapping[str, Any]],
        references: Sequence[torch.Tensor],
        align: Callable[[], None],
    ) -> None:
        self._loaded, self._inputs, self._references = loaded, inputs, references
        self._align = align
        self._turns = itertools.cycle(inputs)
        self._tolerance = 0.0

    def check(self) -> None:
        """Compares the results of some calls with torch's.

        Raises:
            SyncopateError: One is wrong, or a wait has reached its time limit.
        """
        results = []
        for call in range(CALLS):
            which = call % len(self._inputs)
            out = self._loaded(**self._inputs[which])
            self._tolerance = TOLERANCES[out.element_size()]
            results.append(_error(out, self._references[which]))
        self._loaded.synchronize()
        worst = max(float(error) for error in results)
        # NaN is in no order.
        if not all(float(error) < self._tolerance for error in results):
            raise SyncopateError(f"gives wrong results: relative error {worst:.1e}")

    def sample_us(self) -> float:
        """Microseconds of one call that all ranks start together."""
        tensors = next(self._turns)
        us = time_call_us(lambda: self._loaded(**tensors), self._align)
        self._loaded.synchronize()
        return us

    def close(self) -> None:
        """Frees what the program has."""
        self._loaded.close()


def _error(out: Any, reference: torch.Tensor) -> torch.Tensor:
    if not isinstance(out, torch.Tensor) or out.shape != reference.shape:
        raise SyncopateError(f"gives no tensor of shape {list(reference.shape)}")
    return (out.float() - reference).norm() / reference.norm()


def gemm_bench(
    workload: GemmWorkload,
    compile: Callable[[Candidate], Program],
    group: dist.ProcessGroup,
    seed: int = 0,
) -> GpuBench:
    """A bench for a workload, with random operands, checked against torch in float32.

    Args:
        workload: The workload.
        compile: Compiles a candidate.
        group: As many ranks as the workload has.
        seed: Of the operands.
    """
    rank = dist.get_rank(group)
    a = draw_input(workload, rank, seed, "cuda")
    b = draw_weight(workload, rank, seed, "cuda")
    reference = multiply(workload, rank, seed, "cuda")
    # CUDA may wait for all kernels before it loads another one, and candidates wait for other ranks.
    float(_error(reference.to(a.dtype), reference))
    inputs = [{"a": (a.float() * scale).to(a.dtype), "b": b} for scale in SCALES]
    references = [reference * scale for scale in SCALES]
    return GpuBench(compile, inputs, references, group, workload.node_size)


def plan_bench(
    default: Program,
    compile: Callable[[Candidate], Program],
    group: dist.ProcessGroup,
    seed: int = 0,
) -> GpuBench:
    """A bench for any program, with random operands, and results compared to those of the default.

    Args:
        default: The program with the default strategy.
        compile: Compiles a candidate.
        group: The ranks.
        seed: Of the operands.

    Raises:
        SyncopateError: An operand has integers, which cannot be made up, or there is more than one result.
    """
    rank = dist.get_rank(group)
    generator = torch.Generator("cuda").manual_seed(seed + rank)
    tensors: dict[str, torch.Tensor] = {}
    for name, shape, dtype in _operands(default, rank):
        kind = torch_dtype(dtype)
        if not kind.is_floating_point:
            raise SyncopateError(
                f"tensor {name!r} has elements of {dtype}, which cannot be made up"
            )
        values = torch.randn(shape, generator=generator, device="cuda")
        tensors[name] = values.to(kind)
    with load(default, ProcessGroup(group)) as loaded:
        out = loaded(**tensors)
        loaded.synchronize()
        if not isinstance(out, torch.Tensor):
            raise SyncopateError("it has several results")
        reference = out.float().clone()
    return GpuBench(compile, [tensors], [reference], group)


def _operands(program: Program, rank: int) -> Iterator[tuple[str, tuple[int, ...], str]]:
    """Names, shapes and element types of what a call takes on a rank."""
    for buffer in program.buffers:
        regions = buffer.inputs[rank]
        if len(regions) > 1:
            raise SyncopateError(f"the input of buffer {buffer.name!r} has several regions")
        for region in regions:
            yield buffer.name, tuple(region.sizes), buffer.dtype
    known = {}
    for param in program.params:
        if isinstance(param, TensorParam) and not param.output:
            known[param.tensor] = (tuple(param.shape), param.dtype)
    for name, (shape, dtype) in known.items():
        yield name, shape, dtype
