"""A mixture of experts: tokens go to the ranks of experts that they have chosen, and what becomes of them comes back.

An expert is two matrices with a ReLU between them. The first product is fused with the dispatch of tokens; the second
is the same kernel without communication; a third kernel adds up, for each token, what its experts have computed, fused
with a reduce-scatter. How many tokens go where is never known to the host.

On GPUs, `torchrun --nproc-per-node 2 examples/moe.py` runs it beside torch. Anywhere with torch,
`python examples/moe.py` compiles it and simulates the fused kernels of two ranks.
"""

import argparse
import os

import numpy as np
import torch

import syncopate
from syncopate.kernels import (
    GemmConfig,
    bind_combine_rows,
    bind_grouped_gemm,
    combine_rows,
    grouped_gemm,
)
from syncopate.plan.tokens import RoutingShape, combine_tokens, dispatch_tokens
from syncopate.runtime.routing import RoutedTokens, route_tokens


def compile_programs(
    shape: RoutingShape, width: int, hidden: int, config: GemmConfig, rows: GemmConfig
) -> tuple[syncopate.Program, syncopate.Program]:
    """Compiles the dispatch with the first product, and what brings the results of the second one together."""
    plan = syncopate.Plan("dispatch", mesh=[shape.world_size])
    dispatch = dispatch_tokens(plan, shape, width, "bf16")
    there = syncopate.compile(
        grouped_gemm, plan, **bind_grouped_gemm(dispatch, shape, hidden, config)
    )
    plan = syncopate.Plan("combine", mesh=[shape.world_size])
    combined = combine_tokens(plan, shape, width, "bf16", strategy=syncopate.Strategy(splits=2))
    back = syncopate.compile(combine_rows, plan, **bind_combine_rows(combined, shape, rows))
    return there, back


def expected(tokens, choices, weights, first, second) -> torch.Tensor:
    """What the layer gives for tokens [n, width], choice by choice, in float32; `first` and `second` are by expert."""
    out = torch.zeros(tokens.shape, device=tokens.device)
    for expert in range(first.shape[0]):
        token, number = (choices == expert).nonzero(as_tuple=True)
        hidden = (tokens[token].float() @ first[expert].float().T).relu()
        made = hidden @ second[expert].float().T
        out.index_add_(0, token, weights[token, number, None] * made)
    return out


def run(arguments: argparse.Namespace) -> None:
    """One rank, started by torchrun: compares with torch."""
    import torch.distributed as dist
    from triton.tools.tensor_descriptor import TensorDescriptor

    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    count, width, hidden = arguments.shape
    shape = RoutingShape(world, count, arguments.top_k, arguments.experts, splits=4)
    config = GemmConfig(num_ctas=132)
    rows = GemmConfig(block_m=32, block_n=128, num_warps=4)
    there, back = compile_programs(shape, width, hidden, config, rows)

    torch.manual_seed(0)  # the same experts on every rank, of which each has its own
    scale = {"dtype": torch.bfloat16, "device": "cuda"}
    first = torch.randn(shape.experts, hidden, width, **scale) * width**-0.5
    second = torch.randn(shape.experts, width, hidden, **scale) * hidden**-0.5
    mine = slice(rank * shape.experts_per_rank, (rank + 1) * shape.experts_per_rank)
    torch.manual_seed(1 + rank)
    tokens = torch.randn(count, width, **scale)
    scores, choices = torch.rand(count, shape.experts, device="cuda").topk(shape.top_k)

    # What all ranks know of each other: choices and what they count.
    all_choices = torch.empty((world, *choices.shape), dtype=choices.dtype, device="cuda")
    all_weights = torch.empty((world, *scores.shape), dtype=scores.dtype, device="cuda")
    dist.all_gather_into_tensor(all_choices, choices)
    dist.all_gather_into_tensor(all_weights, scores)
    routed = route_tokens(all_choices, rank, shape)

    made = there(
        tokens=tokens,
        tokens_sends=tokens[routed.send_rows],
        tokens_words=routed.words,
        rows=routed.rows,
        experts=routed.experts,
        used=routed.used,
        b=first[mine].reshape(-1, width),
    ).relu_()
    m = made.shape[0]
    results = torch.empty(m, width, **scale)
    weights = second[mine].reshape(-1, hidden)
    constexprs = {
        name: config.constexprs()[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K", "NUM_SMS")
    }
    grouped_gemm[(config.num_ctas,)](
        made,
        torch.arange(m, dtype=torch.int32, device="cuda"),
        routed.experts,
        routed.used,
        TensorDescriptor.from_tensor(weights, [config.block_n, config.block_k]),
        TensorDescriptor.from_tensor(results, [config.block_m, config.block_n]),
        m,
        width,
        hidden,
        hidden,
        **constexprs,
        **config.options(),
    )
    out = back(y=results, places=routed.places, weights=all_weights)

    right = expected(tokens, choices, scores, first, second)
    error = (out.float() - right).norm() / right.norm()
    print(f"rank {rank}: relative error {error.item():.1e}")
    dist.destroy_process_group()


def check(arguments: argparse.Namespace) -> None:
    """No GPU: compiles for two ranks and simulates the fused kernels; the second product is left to torch."""
    shape = RoutingShape(2, 48, 2, 4, block_m=16, splits=2)
    width, hidden = 64, 96
    config = GemmConfig(block_m=16, block_n=64, block_k=32, num_warps=4, num_ctas=2)
    rows = GemmConfig(block_m=16, block_n=64, num_warps=4, num_ctas=2)
    there, back = compile_programs(shape, width, hidden, config, rows)
    print(there.explain())
    torch.manual_seed(0)
    first = torch.randn(shape.experts, hidden, width).bfloat16() * width**-0.5
    second = torch.randn(shape.experts, width, hidden).bfloat16() * hidden**-0.5
    tokens = torch.randn(2, shape.tokens, width).bfloat16()
    scores, choices = torch.rand(2, shape.tokens, shape.experts).topk(shape.top_k)
    routed = [route_tokens(choices, rank, shape) for rank in range(2)]
    experts = [part.flatten(0, 1) for part in first.chunk(2)]
    dispatched = simulate(there, routed, tokens=tokens, b=experts)
    results = []
    for made, weights, mine in zip(dispatched["c"], second.chunk(2), routed, strict=True):
        blocks = torch.from_numpy(np.array(made, np.float32)).relu().split(shape.block_m)
        owners = mine.experts.tolist()
        # Blocks behind the last one of an expert hold nothing.
        results.append(
            torch.cat([a @ weights[e].float().T for a, e in zip(blocks, owners, strict=True)])
        )
    combined = simulate(back, routed, y=results, weights=[scores, scores])["combined"]
    for rank, out in enumerate(combined):
        right = expected(tokens[rank], choices[rank], scores[rank], first, second)
        error = (torch.from_numpy(np.array(out, np.float32)) - right).norm() / right.norm()
        print(f"rank {rank}: relative error against torch: {error.item():.1e}")


def simulate(program: syncopate.Program, routed: list[RoutedTokens], **tensors) -> dict:
    """One call of a program on two ranks, in a random interleaving, with what it takes of a routing."""
    inputs = {name: [part.float().numpy() for part in parts] for name, parts in tensors.items()}
    if "tokens" in tensors:
        pairs = zip(inputs["tokens"], routed, strict=True)
        inputs["tokens_sends"] = [part[one.send_rows.numpy()] for part, one in pairs]
        inputs["tokens_words"] = [one.words.numpy() for one in routed]
        names, partial = ("rows", "experts", "used"), ["c"]
    else:
        names, partial = ("places",), []
    inputs |= {name: [getattr(one, name).numpy() for one in routed] for name in names}
    result = program.simulate(inputs, partial=partial)
    print(f"simulated: {result.verdict}")  # `sound`, or every race and deadlock that was found
    return dict(result.outputs[0])


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--shape",
        type=int,
        nargs=3,
        default=(4096, 2048, 1024),
        metavar=("TOKENS", "WIDTH", "HIDDEN"),
        help="under torchrun: tokens of a rank, their width, that of an expert (default: 4096 2048 1024); "
        "without GPUs it is 48 64 96",
    )
    parser.add_argument(
        "--experts", type=int, default=64, help="of all ranks (default: %(default)s)"
    )
    parser.add_argument("--top-k", type=int, default=8, help="of each token (default: %(default)s)")
    arguments = parser.parse_args()
    if "LOCAL_RANK" in os.environ:
        run(arguments)
    else:
        check(arguments)


if __name__ == "__main__":
    main()
