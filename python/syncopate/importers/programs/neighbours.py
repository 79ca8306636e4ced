"""The products that stand beside a collective in a program, one of which a plan of the collective is fused with."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from syncopate.importers.imported import Gemm
from syncopate.importers.programs.tensors import Dot, Node, Tensor

__all__ = ["Neighbours", "to_gemm"]


class Neighbours:
    """Products before and behind the values of a graph, through what only passes them on."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._makers: Mapping[str, Node] = {node.result: node for node in nodes}
        self._users: Mapping[str, list[Node]] = defaultdict(list)
        for node in nodes:
            for operand in node.operands:
                self._users[operand].append(node)

    def find(self, node: Node) -> Gemm | None:
        """The product that computes what a collective moves, or else the first that reads what it brings as A."""
        for number, operand in enumerate(node.operands):
            known = node.operand_types[number : number + 1]
            gemm = self._before(operand, known[0] if known else None)
            if gemm is not None:
                return gemm
        return self._behind(node.result, node.type)

    def maker(self, name: str) -> Node | None:
        """What gives a value, before what passes it on."""
        found = self._makers.get(name)
        for _ in self._makers:
            if found is None or not found.passes or not found.operands:
                break
            found = self._makers.get(found.operands[0])
        return found

    def _before(self, name: str, type_: Tensor | None) -> Gemm | None:
        found = self.maker(name)
        if found is None or not isinstance(found.meaning, Dot) or type_ is None:
            return None
        return to_gemm(found, found.meaning, type_.dtype, reads=False)

    def _behind(self, name: str, type_: Tensor | None) -> Gemm | None:
        names = [name]
        for value in names:
            for user in self._users.get(value, []):
                if isinstance(user.meaning, Dot):
                    if type_ is None or not user.operands or user.operands[0] != value:
                        return None
                    return to_gemm(user, user.meaning, type_.dtype, reads=True)
                if user.passes and user.result not in names:
                    names.append(user.result)
        return None


def to_gemm(node: Node, dot: Dot, dtype: str, *, reads: bool) -> Gemm | None:
    """The product as the kernel computes it, if it is one of two matrices, after leading dimensions are made one."""
    from syncopate.workloads.gemm import GEMM_DTYPES

    if len(node.operand_types) != 2 or dot.lhs_batch or dot.rhs_batch:
        return None
    lhs, rhs = node.operand_types
    if lhs is None or rhs is None or len(rhs.shape) != 2 or len(lhs.shape) < 2:
        return None
    if len(dot.lhs_contracting) != 1 or len(dot.rhs_contracting) != 1:
        return None
    (a,), (b,) = dot.lhs_contracting, dot.rhs_contracting
    last = len(lhs.shape) - 1
    if a > last or b > 1 or (a != last and last != 1) or lhs.shape[a] != rhs.shape[b]:
        return None
    # The kernel has one element type, of those that it multiplies.
    if {lhs.dtype, rhs.dtype} != {dtype} or dtype not in GEMM_DTYPES:
        return None
    m, k = math.prod(lhs.shape) // max(1, lhs.shape[a]), lhs.shape[a]
    if min(m, k, rhs.shape[1 - b]) < 1:
        return None
    return Gemm(node.place, m, rhs.shape[1 - b], k, dtype, reads, a != last, b == 0)
