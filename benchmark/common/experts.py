"""Routings for benchmarks of mixtures of experts, as the baselines use them; grouped products of several makers."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist

from syncopate.kernels import GemmConfig, grouped_gemm
from syncopate.plan.tokens import RoutingShape
from syncopate.runtime.routing import RoutedTokens

SETS = 3
TOLERANCE = 1e-2
SHAPES = {"m8192": (8192, 7168, 2048)}


@dataclass(frozen=True)
class Sizes:
    """What is measured: sizes of the routing but the splits, and of the GEMM."""

    world: int
    rank: int
    m: int
    n: int
    k: int
    top_k: int
    experts: int

    def shape(self, splits: int) -> RoutingShape:
        """Sizes of the routing with so many pieces."""
        return RoutingShape(
            self.world, self.m // self.world, self.top_k, self.experts, splits=splits
        )


class Sorted:
    """A routing as the baselines use it: rows by rank and expert, all known to the host.

    Attributes:
        order: Choices of this rank's experts, by expert, as numbers among all choices.
        tokens: The token of each of them, as a number among all tokens.
        per_expert: How many each expert has.
        own_order: Choices of own tokens, by expert, as numbers among these.
        send: The tokens of those.
        send_splits: Rows for each rank.
        receive_splits: Rows from each rank.
        regroup: Where rows by expert are among those that come, which are by source and expert.
        offsets: Where each expert ends, i32.
    """

    def __init__(self, choices: torch.Tensor, sizes: Sizes) -> None:
        local, count = sizes.experts // sizes.world, sizes.m // sizes.world
        flat = choices.flatten()
        order = flat.argsort(dim=0, stable=True)
        owner = flat[order] // local
        self.order = order[owner == sizes.rank]
        self.tokens = self.order // sizes.top_k
        mine = flat[self.order] % local
        self.per_expert = torch.bincount(mine, minlength=local).tolist()
        self.offsets = torch.tensor(self.per_expert, device="cuda").cumsum(0).int()
        own = choices[sizes.rank].flatten()
        own_order = own.argsort(dim=0, stable=True)
        self.own_order = own_order
        self.send = own_order // sizes.top_k
        self.send_splits = torch.bincount(own // local, minlength=sizes.world).tolist()
        source = self.tokens // count
        self.receive_splits = torch.bincount(source, minlength=sizes.world).tolist()
        self.regroup = source.argsort(dim=0, stable=True).argsort(dim=0)


def gather(tensor: torch.Tensor) -> torch.Tensor:
    """The tensors of all ranks, along a new first dimension."""
    out = tensor.new_empty((dist.get_world_size(), *tensor.shape))
    dist.all_gather_into_tensor(out, tensor)
    return out


def parse(description: str, splits: str) -> argparse.Namespace:
    """The command line of a benchmark, and shapes by name."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--shapes", default="", help="MxNxK or names, comma-separated")
    parser.add_argument("--top-k", type=int, default=8)
    parser.add_argument("--experts", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--splits", default=splits, help="comma-separated")
    parser.add_argument("--only", default="", help="only realizations that contain this")
    parser.add_argument("--commit", default="", help="what to write down as the commit")
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    options = parser.parse_args()
    options.splits = [int(text) for text in options.splits.split(",")]
    names = [text for text in options.shapes.split(",") if text]
    shapes = {name: SHAPES.get(name) or tuple(map(int, name.split("x"))) for name in names}
    options.shapes = shapes or SHAPES
    return options


def torch_grouped(
    weights: torch.Tensor,
) -> tuple[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]]:
    """What torch has for products of rows by expert with weights [experts, n, k], and its name.

    The product takes the rows, and where those of each expert end, i32.
    """
    grouped = getattr(torch, "_grouped_mm", None)
    if grouped is not None:
        return "torch_grouped_mm", lambda rows, offsets: grouped(
            rows, weights.transpose(1, 2), offs=offsets
        )

    def loop(rows: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        parts = rows.tensor_split(offsets[:-1].cpu())
        return torch.cat([a @ b.T for a, b in zip(parts, weights, strict=True)])

    return "torch_mm", loop


def triton_grouped(
    weights: torch.Tensor, n: int, m: int
) -> Callable[[torch.Tensor, torch.Tensor, RoutedTokens], torch.Tensor]:
    """Our kernel under plain Triton: a function of rows of X, which of them each block has, and a routing.

    Args:
        weights: [experts * n, k].
        n: Columns of the product.
        m: Its rows, those of all blocks that there can be.
    """
    from triton.tools.tensor_descriptor import TensorDescriptor

    config = GemmConfig(num_ctas=132)
    constexprs = {
        name: config.constexprs()[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K", "NUM_SMS")
    }
    k = weights.shape[1]
    out = torch.empty((m, n), dtype=torch.bfloat16, device="cuda")
    b = TensorDescriptor.from_tensor(weights, [config.block_n, config.block_k])
    c = TensorDescriptor.from_tensor(out, [config.block_m, config.block_n])

    def call(x: torch.Tensor, rows: torch.Tensor, routed: RoutedTokens) -> torch.Tensor:
        grouped_gemm[(config.num_ctas,)](
            x, rows, routed.experts, routed.used, b, c, m, n, k, k, **constexprs, **config.options()
        )
        return out

    return call
