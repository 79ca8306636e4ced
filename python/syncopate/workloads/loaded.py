"""GEMM workloads on the ranks of a group, with tensors as their owners have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
import triton

from syncopate.errors import SyncopateError
from syncopate.kernels.pack_rows import pack_rows
from syncopate.runtime import load
from syncopate.runtime.tensors import check_tensor, torch_dtype
from syncopate.workloads.local_ranks import one_each

if TYPE_CHECKING:
    from syncopate.compiler import Program
    from syncopate.runtime import Group
    from syncopate.workloads.gemm import GemmWorkload

__all__ = ["LoadedGemm"]

_BLOCK = (8, 1024)
_WORDS = {1: torch.int8, 2: torch.int16, 4: torch.int32}


class LoadedGemm:
    """Runs the program of a workload, and copies what it cannot read well where it lies; see `GemmWorkload.packed`.

    A call copies B, and A where even TMA cannot read it. Weights that stay the same need not be copied by each call:
    `pack_weight` does it once.

    Attributes:
        workload: What is computed.
        loaded: The program of `workload.packed()` on the group.
    """

    def __init__(self, workload: GemmWorkload, program: Program, group: Group) -> None:
        """Loads. Collective over the group; not during a graph capture.

        Args:
            workload: What is computed.
            program: What `workload.packed().compile` has made.
            group: The ranks.
        """
        self.loaded = load(program, group)
        self._ranks = tuple(group.local_ranks)
        self._bind(workload)

    def reschedule(self, workload: GemmWorkload, program: Program) -> None:
        """Goes on with another workload, such as one of other rows; see `LoadedProgram.reschedule`. Collective.

        Args:
            workload: What is computed from now on, by as many ranks.
            program: What `workload.packed().compile` has made.
        """
        self.loaded.reschedule(program)
        self._bind(workload)

    def _bind(self, workload: GemmWorkload) -> None:
        """Makes room for what has to be copied."""
        self.workload = workload
        program, group = self.loaded.program, self.loaded.group
        packed = workload.packed()
        moved = {spec.name for spec in program.buffers if any(spec.inputs)}
        self._padded = packed.k != workload.k
        self._operands: dict[str, dict[int, _Operand]] = {}
        weight = packed.weight_pitch or packed.weight_shape[1]
        for name, rows, pitch, given in (
            ("a", workload.m, packed.k, workload.k),
            (
                "b",
                workload.weight_shape[0],
                weight,
                workload.weight_pitch or workload.weight_shape[1],
            ),
        ):
            if pitch == given:
                continue
            self._operands[name] = {}
            for rank in self._ranks:
                device = group.device(rank)
                memory = self.loaded.input(name, rank) if name in moved else None
                own = rows if memory is None else memory.shape[0]
                if memory is None:
                    memory = torch.empty(
                        rows, pitch, dtype=torch_dtype(workload.dtype), device=f"cuda:{device}"
                    )
                shape = (own, workload.k)
                self._operands[name][rank] = _Operand(
                    name, shape, packed.k, memory, workload.dtype, device, name in moved
                )

    def __call__(self, *, a: Any = None, b: Any) -> Any:
        """Runs the workload once.

        Args:
            a: The rank's A, [M, K], or its rows of it if A is gathered. It may be left out if it moves and was written
                where `loaded.input` says.
            b: B, [N, K], or [K, N] if it is transposed, or what `pack_weight` has made of it. A group with several
                local ranks takes lists or mappings with a tensor for each of them.

        Returns:
            What the program gives back; see `LoadedProgram.__call__`.

        Raises:
            SyncopateError: An argument is wrong; nothing was computed.
            DeviceWaitTimeout: An earlier call did not complete.
        """
        tensors = {"b": b} if a is None else {"a": a, "b": b}
        if not self._operands:
            return self.loaded(**tensors)
        result = self.loaded(**self._pack(tensors))
        return self._crop(result) if self.workload.returns_a and self._padded else result

    def _crop(self, result: Any) -> Any:
        """Leaves out the columns that were added to A."""
        if isinstance(result, list):
            return [self._crop(each) for each in result]
        c, a = result
        return c, a[:, : self.workload.k]

    def _pack(self, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """The tensors as the program takes them."""
        self.loaded.check()
        packed: dict[str, Any] = {}
        for name, given in tensors.items():
            operands = self._operands.get(name)
            if operands is None:
                packed[name] = given
                continue
            each = one_each(name, given, self._ranks)
            if any(operand.moves for operand in operands.values()):
                for operand, tensor in zip(operands.values(), each, strict=True):
                    operand.check(tensor)
                self.loaded.acquire()
            results = [
                operand.pack(tensor)
                for operand, tensor in zip(operands.values(), each, strict=True)
            ]
            if not any(operand.moves for operand in operands.values()):
                packed[name] = results if len(results) > 1 else results[0]
        return packed

    def pack_weight(self, b: torch.Tensor, rank: int | None = None) -> torch.Tensor:
        """A copy of B that calls take without copying it.

        Args:
            b: B, [N, K].
            rank: The local rank whose it is; may be left out if there is one.

        Returns:
            The copy; `b` itself where calls do not copy B anyway.

        Raises:
            SyncopateError: B is not of that shape and type.
        """
        operands = self._operands.get("b")
        if operands is None:
            return b
        if rank is None and len(self._ranks) == 1:
            rank = self._ranks[0]
        if rank not in operands:
            raise SyncopateError(
                f"rank: expects one of the local ranks {list(self._ranks)}, but got {rank}"
            )
        return operands[rank].pack(b, fresh=True)

    def synchronize(self) -> None:
        """Waits for the calls on the current stream; see `LoadedProgram.synchronize`."""
        self.loaded.synchronize()

    def close(self) -> None:
        """Closes the program; see `LoadedProgram.close`."""
        self.loaded.close()

    def __enter__(self) -> LoadedGemm:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Operand:
    """A rank's A or B, which has to be copied to where its rows are far enough apart."""

    def __init__(
        self,
        name: str,
        shape: tuple[int, int],
        columns: int,
        memory: torch.Tensor,
        dtype: str,
        device: int,
        moves: bool,
    ) -> None:
        self.name, self.shape, self.moves = name, shape, moves
        self._columns, self._memory, self._dtype, self._device = columns, memory, dtype, device

    def is_packed(self, tensor: Any) -> bool:
        """Whether a program takes the tensor as it is."""
        return (
            not self.moves
            and isinstance(tensor, torch.Tensor)
            and tensor.shape == (self.shape[0], self._columns)
            and tensor.stride() == self._memory.stride()
        )

    def check(self, tensor: Any) -> None:
        """Raises SyncopateError if a call cannot take the tensor."""
        if self.is_packed(tensor):
            return
        check_tensor(self.name, tensor, self.shape, self._dtype, self._device)
        if tensor.stride(1) != 1 and self.shape[1] > 1:
            raise SyncopateError(
                f"{self.name}: expects rows of adjacent elements, but got strides {list(tensor.stride())}; "
                f"pass it contiguous"
            )

    def pack(self, tensor: torch.Tensor, *, fresh: bool = False) -> torch.Tensor:
        """The tensor as a program takes it, on the current stream."""
        self.check(tensor)
        if self.is_packed(tensor):
            return tensor
        memory = torch.empty_like(self._memory) if fresh else self._memory
        rows, pitch = memory.shape
        words = _WORDS[tensor.element_size()]
        grid = (triton.cdiv(rows, _BLOCK[0]), triton.cdiv(pitch, _BLOCK[1]))
        with torch.cuda.device(self._device):
            pack_rows[grid](
                tensor.view(words),
                memory.view(words),
                rows,
                self.shape[1],
                tensor.stride(0),
                pitch,
                *_BLOCK,
            )
        return memory[:, : self._columns]
