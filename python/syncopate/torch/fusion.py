"""A pass for torch.compile that makes fused operators of functional collectives beside products.

    model = torch.compile(model, options={"post_grad_custom_pre_pass": st.CollectiveFusion()})

What tensor parallelism by torch leaves in a graph, forward or backward, is looked for: a gather whose result products
take as their left factor, and a product whose result is added up by a reduce-scatter or an all-reduce. Along other
dimensions than the first, torch.distributed surrounds its collectives by splits and concatenations; these go as well.
What has other users than those stays, and so does what has sizes that are unknown when the graph is made, or elements
that no operator takes where they are.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import fx
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files

from syncopate.errors import SyncopateError
from syncopate.torch import graph_nodes, layout
from syncopate.torch.graph_nodes import call, descendants, erase, raise_above, shape_of
from syncopate.torch.groups import count_ranks
from syncopate.torch.layout import is_multiplied, name_elements
from syncopate.torch.operators import falls_back
from syncopate.torch.programs import AUTO

__all__ = ["CollectiveFusion", "fuse_collectives"]

_aten: Final = torch.ops.aten
_c10d: Final = torch.ops._c10d_functional
_VIEWS: Final = (_aten.view.default, _aten.reshape.default, _aten._unsafe_view.default)
_SPLITS: Final = (_aten.split.Tensor, _aten.split.sizes, _aten.split_with_sizes.default)
_REDUCTIONS: Final = ("sum", "avg")


class CollectiveFusion(CustomGraphPass):  # type: ignore[misc] # mypy sees nothing of torch.
    """`fuse_collectives` as an option of torch.compile, by which its cache knows it.

    Attributes:
        strategy: Of the operators, as text: "auto", the name of a strategy, or nothing for the default.
        fused: How many collectives have been fused so far.
    """

    def __init__(self, strategy: str = AUTO) -> None:
        self.strategy = strategy
        self.fused = 0

    def __call__(self, graph: fx.Graph) -> None:
        """Changes the graph."""
        self.fused += fuse_collectives(graph, self.strategy)

    def uuid(self) -> Any:
        """What graphs of equal code depend on besides."""
        setting = f"{self.strategy} {torch.get_float32_matmul_precision()} {falls_back()}"
        return get_hash_for_files((__file__, graph_nodes.__file__, layout.__file__), setting)


def fuse_collectives(graph: fx.Graph, strategy: str = AUTO) -> int:
    """Makes fused operators of collectives in a graph of aten operators.

    Args:
        graph: The graph, whose nodes have fake values in `meta["val"]`. It is changed.
        strategy: Of the operators, as text.

    Returns:
        How many collectives have been fused.
    """
    fused = 0
    for wait in graph.find_nodes(op="call_function", target=_c10d.wait_tensor.default):
        collective = wait.args[0]
        if not isinstance(collective, fx.Node) or list(collective.users) != [wait]:
            # It may be saved for a backward before it has arrived.
            continue
        if collective.target is _c10d.all_gather_into_tensor.default:
            fused += _fuse_gather(graph, wait, collective, strategy)
        elif collective.target is _c10d.reduce_scatter_tensor.default:
            fused += _fuse_scatter(graph, wait, collective, strategy)
        elif collective.target is _c10d.all_reduce.default:
            fused += _fuse_all_reduce(graph, wait, collective, strategy)
    if fused:
        graph.lint()
    return fused


def _is_taken(a: fx.Node, *weights: fx.Node) -> bool:
    """Whether operators take nodes' values as factors, by their sizes, and by A's device and elements."""
    factors = [node.meta["val"] for node in (a, *weights)]
    if any(type(size) is int and size == 0 for value in factors for size in value.shape):
        return False
    value = factors[0]
    if value.device.type == "cpu":
        return falls_back() and is_multiplied(value)
    if value.device.type != "cuda":
        return False
    try:
        name_elements(value.dtype)
    except SyncopateError:
        return False
    return True


def _rows_of(graph: fx.Graph, node: fx.Node, dim: int) -> fx.Node:
    """The matrix of a tensor's rows, of which dimension `dim` varies slowest."""
    shape = node.meta["val"].shape
    if dim:
        order = [dim, *(each for each in range(len(shape)) if each != dim)]
        node = call(graph, _aten.permute.default, node, order)
    return node if len(shape) == 2 else call(graph, _aten.reshape.default, node, [-1, shape[-1]])


def _tensor_of(graph: fx.Graph, rows: fx.Node, shape: Sequence[int], dim: int) -> fx.Node:
    """The contiguous tensor of that shape whose matrix of rows it is, the other way round."""
    if len(shape) == 2:
        return rows
    moved = [shape[dim], *(size for each, size in enumerate(shape) if each != dim)]
    node = call(graph, _aten.reshape.default, rows, moved)
    if dim:
        order = list(range(1, len(shape)))
        order.insert(dim, 0)
        node = call(graph, _aten.permute.default, node, order)
        node = call(graph, _aten.clone.default, node, memory_format=torch.contiguous_format)
    return node


# Gathers.


@dataclass(frozen=True)
class _Product:
    """A product with gathered rows: `mm`, or `addmm` with a bias, of the rows as a matrix."""

    node: fx.Node
    weight: fx.Node
    bias: fx.Node | None


def _find_gathered(wait: fx.Node, shard: fx.Node) -> tuple[fx.Node, int]:
    """The node that is a gathered tensor, and along which dimension it is.

    A gather along another dimension than the first is split into the ranks' parts, which are concatenated.
    """
    if len(wait.users) != 1:
        return wait, 0
    (split,) = wait.users
    if split.target not in _SPLITS or (split.args[2] if len(split.args) > 2 else 0) != 0:
        return wait, 0
    if any(part.target is not operator.getitem for part in split.users):
        return wait, 0
    parts = sorted(split.users, key=lambda part: part.args[1])
    ends = {user for part in parts for user in part.users}
    shapes = {shape_of(part) for part in parts}
    if len(ends) != 1 or shapes != {shape_of(shard)}:
        return wait, 0
    (cat,) = ends
    if cat.target is not _aten.cat.default or list(cat.args[0]) != parts:
        return wait, 0
    dim = cat.args[1] if len(cat.args) > 1 else 0
    rank = len(shape_of(shard) or ())
    return cat, dim + rank if dim < 0 else dim


def _find_rows(gathered: fx.Node) -> list[fx.Node]:
    """The nodes that have the rows of a gathered tensor in their order, itself among them."""
    width = gathered.meta["val"].shape[-1]
    found = [gathered]
    for node in found:
        for user in node.users:
            shape = shape_of(user)
            if user.target in (*_VIEWS, _aten.clone.default) and shape and shape[-1] == width:
                found.append(user)
    return found


def _find_products(rows: fx.Node) -> list[_Product]:
    """The products that take rows as their left factor."""
    found = []
    for node in rows.users:
        bias, factors = None, node.args
        if node.target is _aten.addmm.default and not node.kwargs:
            bias, *factors = node.args
        elif node.target is not _aten.mm.default:
            continue
        if factors[0] is rows:
            found.append(_Product(node, factors[1], bias))
    return found


def _fuse_gather(graph: fx.Graph, wait: fx.Node, gather: fx.Node, strategy: str) -> bool:
    shard, _, group_name = gather.args
    gathered, dim = _find_gathered(wait, shard)
    shape = shape_of(gathered)
    if shape is None or len(shape) < 2 or dim >= len(shape) - 1 or shape_of(shard) is None:
        return False
    after, rows = descendants(wait), _find_rows(gathered)
    products = [
        product
        for node in rows
        for product in _find_products(node)
        if product.weight not in after
        and product.bias not in after
        and _is_taken(shard, product.weight)
    ]
    if not products:
        return False
    known = {*rows, *(product.node for product in products)}
    others = any(user not in known for node in rows for user in node.users)
    place = next(iter(gather.users))
    for product in products:
        for needed in (product.weight, product.bias):
            if needed is not None:
                raise_above(place, needed)
    with graph.inserting_before(place):
        made = call(
            graph,
            torch.ops.syncopate.all_gather_matmul.default,
            _rows_of(graph, shard, dim),
            [product.weight for product in products],
            group_name,
            others,
            strategy,
        )
        for number, product in enumerate(products):
            out = call(graph, operator.getitem, made, number)
            n = product.node.meta["val"].shape[-1]
            if dim:
                # Products have their rows in the order of the tensor, ours by ranks.
                out = _tensor_of(graph, out, (*shape[:-1], n), dim)
                out = call(graph, _aten.reshape.default, out, [-1, n])
            if product.bias is not None:
                out = call(graph, _aten.add.Tensor, out, product.bias)
            product.node.replace_all_uses_with(out)
        if others:
            whole = call(graph, operator.getitem, made, len(products))
            gathered.replace_all_uses_with(_tensor_of(graph, whole, shape, dim))
    for product in products:
        erase(graph, product.node)
    erase(graph, gathered)
    return True


# Sums.


@dataclass(frozen=True)
class _Summand:
    """A product whose result is added up over ranks.

    Attributes:
        product: `mm`, or `addmm` with a bias for columns.
        shape: Its result's shape where it is added up, leading dimensions included.
    """

    product: fx.Node
    shape: tuple[int, ...]

    @property
    def factors(self) -> tuple[fx.Node, fx.Node]:
        """A and B."""
        a, b = self.product.args[-2:]
        return a, b

    def with_bias(self, graph: fx.Graph, out: fx.Node, reduce_op: str, group_name: str) -> fx.Node:
        """Adds to rows of a result what becomes of the bias of all ranks."""
        if self.product.target is _aten.mm.default:
            return out
        all_reduce = torch.ops.syncopate.all_reduce.default
        bias = call(graph, all_reduce, self.product.args[0], group_name)
        if reduce_op == "avg":
            bias = call(graph, _aten.div.Tensor, bias, count_ranks(group_name))
        return call(graph, _aten.add.Tensor, out, bias)


def _find_summand(node: Any) -> _Summand | None:
    """The product that a node is, or a view of, if nothing else uses it."""
    shape = shape_of(node) if isinstance(node, fx.Node) else None
    if shape is None or len(shape) < 2:
        return None
    if node.target in _VIEWS:
        node = node.args[0]
        if len(node.users) != 1 or (shape_of(node) or ())[1:] != shape[-1:]:
            return None
    if node.target is _aten.addmm.default:
        bias = shape_of(node.args[0])
        return _Summand(node, shape) if not node.kwargs and bias == shape[-1:] else None
    return _Summand(node, shape) if node.target is _aten.mm.default else None


def _find_scattered(source: fx.Node) -> tuple[fx.Node, int]:
    """What is scattered, and along which dimension.

    For a scatter along another dimension than the first, parts are concatenated along the first one.
    """
    if source.target is not _aten.cat.default or len(source.users) != 1:
        return source, 0
    parts = list(source.args[0])
    along = source.args[1] if len(source.args) > 1 else 0
    splits = {part.args[0] for part in parts if part.target is operator.getitem}
    in_order = [part.args[1] for part in parts if part.target is operator.getitem]
    if along != 0 or len(splits) != 1 or in_order != list(range(len(parts))):
        return source, 0
    (split,) = splits
    alone = all(len(part.users) == 1 for part in parts) and len(split.users) == len(parts)
    whole = split.args[0]
    if split.target not in _SPLITS or not alone or len({shape_of(part) for part in parts}) != 1:
        return source, 0
    dim = split.args[2] if len(split.args) > 2 else 0
    rank = len(shape_of(whole) or ())
    return whole, dim + rank if dim < 0 else dim


def _fuse_scatter(graph: fx.Graph, wait: fx.Node, scatter: fx.Node, strategy: str) -> bool:
    source, reduce_op, world, group_name = scatter.args
    whole, dim = _find_scattered(source)
    summand = _find_summand(whole)
    if summand is None or reduce_op not in _REDUCTIONS or len(whole.users) != 1:
        return False
    shape, scattered = summand.shape, shape_of(wait)
    if scattered is None or dim >= len(shape) - 1 or shape[dim] != world * scattered[dim]:
        return False
    a, b = summand.factors
    if not _is_taken(a, b):
        return False
    with graph.inserting_before(wait):
        if dim:
            a = call(graph, _aten.reshape.default, a, [*shape[:-1], a.meta["val"].shape[-1]])
            a = _rows_of(graph, a, dim)
        made = call(
            graph,
            torch.ops.syncopate.matmul_reduce_scatter.default,
            a, b, reduce_op, group_name, strategy,
        )  # fmt: skip
        made = summand.with_bias(graph, made, reduce_op, group_name)
        wait.replace_all_uses_with(_tensor_of(graph, made, scattered, dim))
    erase(graph, wait)
    return True


def _fuse_all_reduce(graph: fx.Graph, wait: fx.Node, reduce: fx.Node, strategy: str) -> bool:
    source, reduce_op, group_name = reduce.args
    summand = _find_summand(source)
    if summand is None or reduce_op not in _REDUCTIONS or len(source.users) != 1:
        return False
    a, b = summand.factors
    if not _is_taken(a, b):
        return False
    with graph.inserting_before(wait):
        # Gradients are in the graph already.
        made = call(
            graph,
            torch.ops.syncopate.matmul_all_reduce.default,
            a, b, reduce_op, group_name, True, strategy,
        )  # fmt: skip
        made = summand.with_bias(graph, made, reduce_op, group_name)
        wait.replace_all_uses_with(_tensor_of(graph, made, summand.shape, 0))
    erase(graph, wait)
    return True
