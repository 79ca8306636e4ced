"""What an import comes to: a plan, and the product that stands beside the collective in the file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from syncopate.importers.documents.items import Place
from syncopate.plan import Buffer, Plan

if TYPE_CHECKING:
    from syncopate.kernels import GemmConfig
    from syncopate.workloads import GemmWorkload

__all__ = ["Gemm", "Imported"]


@dataclass(frozen=True)
class Gemm:
    """C[M, N] = A · B of each rank, one factor or the product of which moves.

    Attributes:
        place: Where the file says so.
        m: Rows of C.
        n: Columns of C.
        k: What is summed over.
        dtype: Element type of all of it as MLIR spells it.
        reads: Whether A is what arrives; else C is what leaves.
        transpose_a: Whether A is [K, M].
        transpose_b: Whether B is [K, N] instead of [N, K].
        workload: The workload that the collective and this make, if it is one.
    """

    place: Place
    m: int
    n: int
    k: int
    dtype: str
    reads: bool
    transpose_a: bool = False
    transpose_b: bool = False
    workload: GemmWorkload | None = None

    def bind(self, imported: Imported, config: GemmConfig, **options: Any) -> dict[str, Any]:
        """Arguments of `syncopate.compile` for `syncopate.kernels.gemm`, of which a call takes B as `b`, else A as `a`.

        Args:
            imported: The plan that this was found beside.
            config: How the GEMM is cut into tiles.
            **options: What `bind_gemm` takes besides.
        """
        from syncopate.compiler.binding import Tensor as Operand
        from syncopate.kernels import bind_gemm

        shape = (self.k, self.m) if self.transpose_a else (self.m, self.k)
        a = imported.result if self.reads else Operand("a", shape, self.dtype)
        options |= {"transpose_a": self.transpose_a, "transpose_b": self.transpose_b}
        return bind_gemm(a, self.n, config, c=None if self.reads else imported.given, **options)


@dataclass(frozen=True)
class Imported:
    """A plan of steps.

    Attributes:
        plan: The plan.
        given: The buffer of what ranks bring along, or of what tiles compute.
        result: The buffer of what the steps come to.
        gemm: The product beside it in the file, if there is one that computes what is given, or reads the result.
    """

    plan: Plan
    given: Buffer
    result: Buffer
    gemm: Gemm | None = None
