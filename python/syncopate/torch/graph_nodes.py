"""Nodes of graphs of torch.compile: what they are known to be, and how they are made, moved and erased."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch._guards import detect_fake_mode

__all__ = ["call", "descendants", "erase", "raise_above", "shape_of"]


def erase(graph: fx.Graph, node: fx.Node) -> None:
    """Erases a node that nothing uses, and what only it has used.

    Collectives would outlive what torch erases as dead code, since they count as having effects.
    """
    if node.users or node.op != "call_function" or node._erased:
        return
    inputs = node.all_input_nodes
    graph.erase_node(node)
    for each in inputs:
        erase(graph, each)


def shape_of(node: fx.Node) -> tuple[int, ...] | None:
    """The shape of a node's value; None if a size is not known."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or not all(type(size) is int for size in value.shape):
        return None
    return tuple(value.shape)


def call(graph: fx.Graph, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
    """A node at the place of insertion, with its fake value."""
    node = graph.call_function(target, args, kwargs)
    values = fx.map_arg(args, lambda arg: arg.meta["val"])
    mode = detect_fake_mode(values)
    if mode is not None:
        with mode:
            node.meta["val"] = target(*values, **kwargs)
    return node


def descendants(node: fx.Node) -> set[fx.Node]:
    """All that depends on a node, itself included."""
    found: set[fx.Node] = set()
    left = [node]
    while left:
        one = left.pop()
        if one not in found:
            found.add(one)
            left.extend(one.users)
    return found


def raise_above(place: fx.Node, node: fx.Node) -> None:
    """Moves what a node depends on, and itself, in front of a place on which it does not depend."""
    if node < place:
        return
    for needed in node.all_input_nodes:
        raise_above(place, needed)
    place.prepend(node)
