"""What people use today for a GEMM with communication, each as good as it gets with public means."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from benchmark.common.data import GemmData

from syncopate.kernels import gemm, gemm_pointers
from syncopate.runtime.session import Session
from syncopate.runtime.timing import Candidate
from syncopate.workloads import GemmKind, GemmWorkload

__all__ = ["Baselines"]

SPLITS = (2, 4, 8)


class Baselines:
    """Candidates for one workload on one rank."""

    def __init__(self, workload: GemmWorkload, data: GemmData, session: Session) -> None:
        self.workload, self.data, self.session = workload, data, session
        self.kind = GemmKind(workload.kind)
        m, n, k = workload.shape
        self.rows = m // session.world_size
        self.c = torch.empty((m, n), dtype=torch.bfloat16, device="cuda")
        # What moves: the factor before the GEMM, or its product after it.
        self.before = self.kind.is_before
        moved = (m, k) if self.before else (m, n)
        if self.kind is GemmKind.GEMM_RS:
            moved = (self.rows, n)
        self.moved = torch.empty(moved, dtype=torch.bfloat16, device="cuda")
        if self.kind is GemmKind.GEMM_AR:
            self.moved = self.c

    def gemms(self) -> list[Candidate]:
        """The GEMM alone on data that has been moved: cuBLAS, and our local kernel under plain Triton."""
        return [
            Candidate("gemm_cublas", self._multiply),
            Candidate("gemm_triton", self.local_kernel()),
        ]

    def communication(self) -> Candidate:
        """The communication alone: NCCL."""
        return Candidate("nccl", self._communicate)

    def sequence(self, name: str = "cublas_nccl") -> Candidate:
        """cuBLAS, and NCCL before or after it."""

        def call(i: int) -> torch.Tensor:
            if self.before:
                moved = self._communicate(i)
                return torch.mm(moved, self.data.weight.T, out=self.c)
            self._multiply(i)
            return self._communicate(i)

        return Candidate(name, call)

    def split_streams(self) -> list[Candidate]:
        """NCCL on a second stream, piece by piece, while the GEMM of other pieces runs."""
        make = {
            GemmKind.AG_GEMM: self._split_gather,
            GemmKind.A2A_GEMM: self._split_exchange_before,
        }.get(self.kind, self._split_after)
        return [
            Candidate(f"split_streams/{pieces}", make(pieces))
            for pieces in SPLITS
            if self.rows % pieces == 0
        ]

    def async_tp(self) -> Candidate | None:
        """AsyncTP, the fused operator of torch over symmetric memory, where there is one."""
        name = dist.group.WORLD.group_name
        ops, weight = torch.ops.symm_mem, self.data.weight.T

        def gather(i: int) -> torch.Tensor:
            inputs = self.data.inputs[i]
            _, outputs = ops.fused_all_gather_matmul(inputs, [weight], 0, name, return_A=False)
            return outputs[0]

        def scatter(i: int) -> torch.Tensor:
            out: torch.Tensor = ops.fused_matmul_reduce_scatter(
                self.data.inputs[i], weight, "sum", 0, name
            )
            return out

        call = {GemmKind.AG_GEMM: gather, GemmKind.GEMM_RS: scatter}.get(self.kind)
        if call is None:
            return None
        # CUDA may wait for all kernels before it loads another one, and the operator's kernels wait for other ranks:
        # its products, of a rank's rows each, have to be loaded on all ranks before it first runs.
        for factor in (self.data.inputs[0], self.data.factors[0]):
            for block in factor.split(self.rows):
                torch.mm(block, weight)
        torch.cuda.synchronize()
        dist.barrier()
        # The first call allocates its workspace, and says whether the operator takes these shapes.
        call(0)
        torch.cuda.synchronize()
        return Candidate("async_tp", call)

    def _multiply(self, i: int) -> torch.Tensor:
        return torch.mm(self.data.factors[i], self.data.weight.T, out=self.c)

    def _communicate(self, i: int) -> torch.Tensor:
        given = self.data.inputs[i] if self.before else self.c
        if self.kind is GemmKind.AG_GEMM:
            dist.all_gather_into_tensor(self.moved, given)
        elif self.kind is GemmKind.GEMM_RS:
            dist.reduce_scatter_tensor(self.moved, given)
        elif self.kind is GemmKind.GEMM_AR:
            dist.all_reduce(self.moved)
        else:
            dist.all_to_all_single(self.moved, given)
        return self.moved

    def local_kernel(self, spared: int = 0) -> Callable[[int], torch.Tensor]:
        """Our local kernel under plain Triton, on all multiprocessors but some."""
        from triton.tools.tensor_descriptor import TensorDescriptor

        m, n, k = self.data.shape
        ctas = torch.cuda.get_device_properties().multi_processor_count - spared
        config = dataclasses.replace(self.workload.choose_config(), num_ctas=ctas)
        parts = config.count_parts(m, n, k, ctas)
        constants = {**config.constexprs(), **config.options(), "SPLIT": parts > 1, "parts": parts}
        if parts > 1:
            slots = (ctas, config.block_m, config.block_n)
            constants["work_ptr"] = torch.empty(slots, dtype=torch.float32, device="cuda")
            constants["counters_ptr"] = torch.zeros(ctas, dtype=torch.int32, device="cuda")
        grid = (ctas,)
        if not self.workload.uses_tma:

            def by_pointers(i: int) -> torch.Tensor:
                a, b = self.data.factors[i], self.data.weight
                gemm_pointers[grid](a, b, self.c, m, n, k, k, k, n, **constants)
                return self.c

            return by_pointers

        def describe(tensor: torch.Tensor, block: Sequence[int]) -> TensorDescriptor:
            return TensorDescriptor.from_tensor(tensor, list(block))

        inputs = [describe(a, (config.block_m, config.block_k)) for a in self.data.factors]
        b = describe(self.data.weight, (config.block_n, config.block_k))
        c = describe(self.c, (config.block_m, config.block_n))

        def by_descriptors(i: int) -> torch.Tensor:
            gemm[grid](inputs[i], b, c, m, n, k, **constants)
            return self.c

        return by_descriptors

    def _blocks(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.view(self.session.world_size, self.rows, -1)

    def _pieces(self, pieces: int) -> list[tuple[slice, torch.cuda.Event]]:
        step = self.rows // pieces
        return [(slice(i * step, (i + 1) * step), torch.cuda.Event()) for i in range(pieces)]

    def _split_gather(self, pieces: int) -> Callable[[int], torch.Tensor]:
        """The own shard's GEMM runs first, then each piece's as it arrives."""
        side, start = torch.cuda.Stream(priority=-1), torch.cuda.Event()
        world, rank, k = self.session.world_size, self.session.rank, self.data.shape[2]
        parts = self._pieces(pieces)
        gathered = [
            torch.empty((world, self.rows // pieces, k), dtype=self.c.dtype, device="cuda")
            for _ in parts
        ]
        outputs, weight = self._blocks(self.c), self.data.weight.T

        def call(i: int) -> torch.Tensor:
            shard = self.data.inputs[i]
            start.record()
            with torch.cuda.stream(side):
                side.wait_event(start)
                for piece, (some, arrived) in zip(gathered, parts, strict=True):
                    dist.all_gather_into_tensor(piece.view(-1, k), shard[some])
                    arrived.record()
            torch.mm(shard, weight, out=outputs[rank])
            for piece, (some, arrived) in zip(gathered, parts, strict=True):
                torch.cuda.current_stream().wait_event(arrived)
                for peer in range(world):
                    if peer != rank:
                        torch.mm(piece[peer], weight, out=outputs[peer, some])
            return self.c

        return call

    def _split_exchange_before(self, pieces: int) -> Callable[[int], torch.Tensor]:
        side, start = torch.cuda.Stream(priority=-1), torch.cuda.Event()
        parts, weight = self._pieces(pieces), self.data.weight.T
        received, outputs = self._blocks(self.moved), self._blocks(self.c)

        def call(i: int) -> torch.Tensor:
            given = self._blocks(self.data.inputs[i])
            start.record()
            with torch.cuda.stream(side):
                side.wait_event(start)
                for some, arrived in parts:
                    dist.all_to_all(list(received[:, some]), list(given[:, some]))
                    arrived.record()
            for some, arrived in parts:
                torch.cuda.current_stream().wait_event(arrived)
                for source in range(self.session.world_size):
                    torch.mm(received[source, some], weight, out=outputs[source, some])
            return self.c

        return call

    def _split_after(self, pieces: int) -> Callable[[int], torch.Tensor]:
        """NCCL moves each piece of every block while the next is computed."""
        side, done = torch.cuda.Stream(priority=-1), torch.cuda.Event()
        parts, weight = self._pieces(pieces), self.data.weight.T
        world, n = self.session.world_size, self.data.shape[1]
        # A piece of all blocks in one tensor, as NCCL's sums need it.
        computed = [
            torch.empty((world, self.rows // pieces, n), dtype=self.c.dtype, device="cuda")
            for _ in parts
        ]

        def move(piece: torch.Tensor, some: slice) -> None:
            if self.kind is GemmKind.GEMM_RS:
                dist.reduce_scatter_tensor(self.moved[some], piece.view(-1, n))
            elif self.kind is GemmKind.GEMM_A2A:
                dist.all_to_all(list(self._blocks(self.moved)[:, some]), list(piece))
            else:
                dist.all_reduce(piece)

        def call(i: int) -> torch.Tensor:
            factor = self._blocks(self.data.factors[i])
            for piece, (some, event) in zip(computed, parts, strict=True):
                for rank in range(world):
                    torch.mm(factor[rank, some], weight, out=piece[rank])
                event.record()
                with torch.cuda.stream(side):
                    side.wait_event(event)
                    move(piece, some)
            with torch.cuda.stream(side):
                done.record()
            torch.cuda.current_stream().wait_event(done)
            # The sums of an all-reduce stay in their pieces.
            return self.moved

        return call
