"""The ranks of a measurement of a machine: a budget, and the one way in which anything is timed."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import torch

from syncopate.runtime.session import Session
from syncopate.runtime.timing import Candidate

if TYPE_CHECKING:
    from syncopate.abi import LibraryCall
    from syncopate.compiler import Program
    from syncopate.kernels import GemmConfig

__all__ = ["Ranks"]

ROUNDS: Final = 7


class Ranks(Session):
    """This rank's GPU and the others, for a limited time."""

    def __init__(self, budget: float) -> None:
        super().__init__()
        properties = torch.cuda.get_device_properties()
        self.gpu, self.sms = str(properties.name), int(properties.multi_processor_count)
        self._end = time.monotonic() + budget
        self.left_out: list[str] = []

    def attempt(self, what: str, measure: Callable[[], Any]) -> Any:
        """What `measure` returns; None on every rank if it fails on any, or if the budget is spent."""
        in_time = self.agree(time.monotonic() < self._end)
        result = super().attempt(what, measure) if in_time else None
        if result is None:
            self.left_out.append(what)
        return result

    def measure_program(
        self, what: str, build: Callable[[], Program], **tensors: Any
    ) -> tuple[Program, float] | None:
        """A program and its time, or None as for `attempt`; no rank loads it before all have compiled it."""
        program = self.attempt(what, build)
        if program is None:
            return None
        us = self.attempt(what, lambda: self.time_program(program, **tensors))
        return None if us is None else (program, us)

    def time_us(self, call: Callable[[], Any]) -> float:
        """Median time of a call that all ranks start together, of the slowest rank."""
        candidate = Candidate("", lambda _: call())
        self.compare([candidate], ROUNDS)
        return candidate.us

    def time_program(self, program: Any, **tensors: Any) -> float:
        """The same of a program, with inputs in place where `tensors` has none."""
        from syncopate.runtime import ProcessGroup, load

        with load(program, ProcessGroup()) as loaded:
            us = self.time_us(lambda: loaded(**tensors))
            loaded.synchronize()
        return us

    def time_collective(self, kind: LibraryCall, nbytes: int, ctas: int) -> float:
        """The same of a library call alone, of a tensor of so many bytes on each rank.

        Args:
            kind: The collective.
            nbytes: Bytes of the whole tensor, of which a multiple of the number of ranks is used.
            ctas: Multiprocessors that it may have; 0 for any number.
        """
        from syncopate.abi import CommandReduction, LibraryCall
        from syncopate.runtime import ProcessGroup

        world = self.world_size
        library = ProcessGroup().library(self.rank, ctas)
        stream = torch.cuda.current_stream().cuda_stream
        whole = torch.zeros(nbytes // 2 // world * world, device="cuda", dtype=torch.bfloat16)
        parts = whole.chunk(world)
        if kind is LibraryCall.ALL_REDUCE:
            call = library.all_reduce(whole, CommandReduction.SUM, stream)
        elif kind is LibraryCall.REDUCE_SCATTER:
            call = library.reduce_scatter(parts[self.rank], whole, CommandReduction.SUM, stream)
        else:
            call = library.all_to_all(torch.empty_like(whole).chunk(world), parts, stream)
        return self.time_us(call)

    def time_gemm(self, config: GemmConfig, rounds: int, columns: int, k: int) -> float:
        """The same of the local kernel alone, under plain Triton, on so many rows and columns of tiles.

        Tiles of a last round are not split, unless the configuration says among how many programs.
        """
        from triton.tools.tensor_descriptor import TensorDescriptor

        from syncopate.kernels import gemm

        m, n, ctas = rounds * config.block_m, columns * config.block_n, self.sms
        config = dataclasses.replace(config, num_ctas=ctas, group_m=rounds)
        a, b, c = self.random(m, k), self.random(n, k), self.random(m, n)
        descriptors = [
            TensorDescriptor.from_tensor(tensor, list(block))
            for tensor, block in (
                (a, (config.block_m, config.block_k)),
                (b, (config.block_n, config.block_k)),
                (c, (config.block_m, config.block_n)),
            )
        ]
        constants = {**config.constexprs(), **config.options()}
        if config.parts is not None and config.parts > 1:
            slots = (ctas, config.block_m, config.block_n)
            constants |= {"SPLIT": True, "parts": config.parts}
            constants["work_ptr"] = torch.empty(slots, dtype=torch.float32, device="cuda")
            constants["counters_ptr"] = torch.zeros(ctas, dtype=torch.int32, device="cuda")
        return self.time_us(lambda: gemm[(ctas,)](*descriptors, m, n, k, **constants))

    def random(self, *shape: int) -> Any:
        """A random matrix of bf16 on this rank's GPU."""
        return torch.randn(shape, device="cuda", dtype=torch.bfloat16)
