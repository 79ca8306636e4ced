"""What moves at one place of a file that speaks of tensors, and the plan that moves it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from syncopate.errors import PlanError
from syncopate.importers.documents.items import Place
from syncopate.importers.imported import Gemm, Imported
from syncopate.importers.layouts.layout import Box, Layout
from syncopate.importers.layouts.resharding import reshard, swap_blocks
from syncopate.importers.names import Source

if TYPE_CHECKING:
    from syncopate.workloads import GemmWorkload

__all__ = ["Exchange"]


@dataclass(frozen=True)
class Exchange:
    """What moves at one place of a file.

    Attributes:
        name: What it is.
        place: Where the file says so.
        src: What ranks have.
        dst: What they are to have.
        dtype: Element type as MLIR spells it.
        gemm: The product beside it.
        blocks: If not None, the dimension along which block j of a rank's box goes to the j-th rank of its group, and
            these groups; boxes are of one size then.
    """

    name: str
    place: Place
    src: Layout
    dst: Layout
    dtype: str
    gemm: Gemm | None = None
    blocks: tuple[int, tuple[tuple[int, ...], ...]] | None = None

    def beside(self, gemm: Gemm | None) -> Exchange:
        """The same with a product beside it, if what moves can be a matrix, and the workload that the two make."""
        found = None if gemm is None else self._flatten()
        if gemm is None or found is None:
            return self
        return replace(found, gemm=replace(gemm, workload=found._find_workload(gemm)))

    def _flatten(self) -> Exchange | None:
        """The same of two dimensions; None if what moves would not be rows or columns any more."""
        boxes = (*self.src.boxes, *self.dst.boxes)
        dims = len(boxes[0].sizes)
        if dims < 3:
            return self if dims == 2 else None
        ends = [max(box.offsets[dim] + box.sizes[dim] for box in boxes) for dim in range(dims)]
        cut = [dim for dim in range(dims - 1) if any(box.sizes[dim] != ends[dim] for box in boxes)]
        axis = None if self.blocks is None else self.blocks[0]
        if axis is not None and axis < dims - 1:
            cut = sorted({*cut, axis})
        if len(cut) > 1 or (cut and math.prod(ends[: cut[0]]) != 1):
            return None
        rows = cut[0] if cut else 0
        length = math.prod(ends[rows + 1 : -1])

        def flat(layout: Layout) -> Layout:
            found = tuple(
                Box(
                    (box.offsets[rows] * length, box.offsets[-1]),
                    (box.sizes[rows] * length, box.sizes[-1]),
                )
                for box in layout.boxes
            )
            return replace(layout, boxes=found)

        blocks = None if self.blocks is None else (int(axis == dims - 1), self.blocks[1])
        return replace(self, src=flat(self.src), dst=flat(self.dst), blocks=blocks)

    def _find_workload(self, gemm: Gemm) -> GemmWorkload | None:
        """The workload of all ranks, in their order, along rows."""
        from syncopate.workloads import GemmKind, GemmWorkload

        src, dst = self.src, self.dst
        ranks = range(len(src.boxes))
        every = (tuple(ranks),)
        whole = dst.boxes[0] if gemm.reads else src.boxes[0]
        rows = [whole.cut(0, rank, len(ranks)) for rank in ranks]
        kind = None
        if self.blocks is not None:
            if self.blocks == (0, every):
                kind = GemmKind.A2A_GEMM if gemm.reads else GemmKind.GEMM_A2A
        elif gemm.reads and not src.parts and list(src.boxes) == rows:
            kind = GemmKind.AG_GEMM if set(dst.boxes) == {whole} else None
        elif not gemm.reads and src.parts == every and src.reduction == "sum":
            if list(dst.boxes) == rows:
                kind = GemmKind.GEMM_RS
            elif set(dst.boxes) == {whole}:
                kind = GemmKind.GEMM_AR
        if kind is None or gemm.transpose_a or len(ranks) < 2:
            return None
        return GemmWorkload(
            kind, gemm.m, gemm.n, gemm.k, len(ranks), gemm.dtype, transpose_b=gemm.transpose_b
        )

    def build(self, source: Source | None = None, *, kernel: bool = False) -> Imported:
        """The plan.

        Args:
            source: Where what ranks have comes from; by default from tiles if the product beside it computes it.
            kernel: Whether to add a kernel without code, for tools.

        Raises:
            PlanError: There is no plan that does it.
        """
        if source is None:
            tiles = self.gemm is not None and not self.gemm.reads
            source = Source.TILES if tiles else Source.INPUTS
        about: dict[str, Any] = {
            "name": self.name,
            "source": source,
            "kernel": kernel,
            "apart": self.gemm is not None and self.gemm.reads,
            "place": (self.place.file, self.place.line),
        }
        try:
            if self.blocks is not None:
                axis, groups = self.blocks
                imported = swap_blocks(self.src, axis, groups, self.dtype, **about)
            else:
                imported = reshard(self.src, self.dst, self.dtype, **about)
        except PlanError as error:
            if str(error).startswith(f"{self.place}:"):
                raise
            self.place.fail(f"{self.name}: {error}")
        asked = self.gemm is not None and (source is Source.INPUTS) == self.gemm.reads
        return replace(imported, gemm=self.gemm if asked else None)
