"""The builder of a kernel without code: tiles and what they read and write, as much as a schedule is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from syncopate.mlir import ir
from syncopate.mlir.dialects import chunk as ops
from syncopate.plan.arguments import to_integer, to_integers, to_string
from syncopate.plan.body import Buffer, PlanBody, Token

__all__ = ["TilesPlan"]


class TilesPlan(PlanBody):
    """The part of a plan's builder that binds a kernel without code."""

    def bind_tiles(
        self,
        name: str,
        tiles: Sequence[int],
        *,
        reads: Mapping[Buffer, Sequence[int]] | None = None,
        writes: Mapping[Buffer, Sequence[int]] | None = None,
        after: Iterable[Token] = (),
        ctas: int = 2,
    ) -> None:
        """Adds a `chunk.kernel` with footprints, so that tools can schedule, draw and check the plan.

        `syncopate.compile` adds the kernel that it is given itself, and takes no plan that has one.

        Args:
            name: Of the kernel.
            tiles: Sizes of its grid.
            reads: By buffer, sizes of what a tile reads: dimension d begins at its coordinate d times that size, or at
                0 where the grid has no dimension d.
            writes: Likewise, what a tile writes.
            after: Transfers whose data tiles read.
            ctas: CTAs among which tiles are distributed.

        Raises:
            PlanError: The plan has a kernel already, or a rule of `chunk.kernel` is broken.
        """
        accesses = [("read", reads or {}), ("write", writes or {})]
        buffers = list(dict.fromkeys(buffer for _, some in accesses for buffer in some))
        values = [self._own_buffer("buffer", buffer).value for buffer in buffers]
        tokens, grid = self._own_tokens(after), to_integers("tiles", tiles)
        with self._here():
            op = ops.KernelOp(
                to_string("name", name),
                list(grid),
                to_integer("ctas", ctas),
                values,
                [buffer.name for buffer in buffers],
                tokens,
            )
            with ir.InsertionPoint(op.regions[0].blocks.append()):
                for access, touched in accesses:
                    for buffer, sizes in touched.items():
                        extents = to_integers("sizes", sizes)
                        ops.FootprintOp(
                            ir.Attribute.parse(f"#chunk<access {access}>"),
                            buffer.name,
                            _offsets(len(grid), extents),
                            list(extents),
                        )
            self._checked(op)


def _offsets(dims: int, sizes: Sequence[int]) -> ir.Attribute:
    exprs = [
        ir.AffineExpr.get_dim(dim) * size if dim < dims else ir.AffineExpr.get_constant(0)
        for dim, size in enumerate(sizes)
    ]
    return ir.AffineMapAttr.get(ir.AffineMap.get(dims, 0, exprs))
