"""GEMM + reduce-scatter: every rank multiplies its columns of A by its rows of B; rank r gets block r of the sum.

On GPUs, `torchrun --nproc-per-node 2 examples/gemm_rs.py` runs it beside torch. Anywhere, `python examples/gemm_rs.py`
compiles it and simulates the fused kernels of two ranks.
"""

import argparse
import os

import numpy as np

import syncopate
from syncopate.kernels import GemmConfig, bind_gemm, gemm
from syncopate.plan.templates import reduce_scatter_tiles


def compile_program(
    world: int, m: int, n: int, k: int, arguments: argparse.Namespace, config: GemmConfig
) -> syncopate.Program:
    """Compiles for `world` ranks; K is what one rank has of it."""
    # The plan: all tiles of C are parts of a sum. Blocks of other ranks are computed and sent first; the tiles of the
    # rank's own block then add to what has arrived. NCCL does all of that itself, in calls that take groups of tiles.
    plan = syncopate.Plan("gemm_rs", mesh=[world])
    c = plan.buffer("c", (m, n), "bf16")
    strategy = syncopate.Strategy(splits=arguments.splits, realization=arguments.realization)
    reduce_scatter_tiles(plan, c, strategy)

    # The kernel's parameters: C is the plan's buffer; A and B are the rank's own tensors `a` and `b`.
    a = syncopate.Tensor("a", (m, k), "bf16")
    return syncopate.compile(gemm, plan, **bind_gemm(a, n, config, c=c), target="sm_90")


def run(arguments: argparse.Namespace) -> None:
    """One rank, started by torchrun: compares with torch."""
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    m, n, k = arguments.shape
    program = compile_program(world, m, n, k, arguments, GemmConfig())

    torch.manual_seed(rank)
    a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(n, k, device="cuda", dtype=torch.bfloat16)
    block = program(a=a, b=b)  # a part of a buffer of the program, which the next call writes again

    expected = torch.empty(block.shape, device="cuda")
    dist.reduce_scatter_tensor(expected, a.float() @ b.float().T)
    error = (block.float() - expected).norm() / expected.norm()
    print(f"rank {rank}: relative error {error.item():.1e}")
    dist.destroy_process_group()


def check(arguments: argparse.Namespace) -> None:
    """No GPU: compiles for two ranks and simulates the fused kernel, two calls of it in a random interleaving."""
    config = GemmConfig(block_n=64, num_warps=4, num_ctas=4)
    program = compile_program(2, 512, 128, 128, arguments, config)
    print(program.explain())
    result = program.simulate(ranks=2, calls=2)
    print(f"simulated: {result.verdict}")  # `sound`, or every race and deadlock that was found
    for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
        pairs = zip(inputs["a"], inputs["b"], strict=True)
        expected = sum(a.astype(np.float64) @ b.astype(np.float64).T for a, b in pairs)
        error = np.abs(np.concatenate(outputs["c"]) - expected).max() / np.abs(expected).max()
        print(f"relative error against numpy: {error:.1e}")


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--shape",
        type=int,
        nargs=3,
        default=(8192, 8192, 3584),
        metavar=("M", "N", "K"),
        help="under torchrun: rows of the sum, its columns, columns of a rank's A (default: 8192 8192 3584); "
        "without GPUs it is 512 128 128",
    )
    parser.add_argument(
        "--realization",
        default="ldst_colocated",
        help="who moves parts between ranks: ldst_colocated, ldst_dedicated, tma_colocated, tma_dedicated, "
        "copy_engine, or nccl, which adds them as well (default: %(default)s)",
    )
    parser.add_argument(
        "--splits", type=int, default=2, help="pieces per block (default: %(default)s)"
    )
    arguments = parser.parse_args()
    if "LOCAL_RANK" in os.environ:
        run(arguments)
    else:
        check(arguments)


if __name__ == "__main__":
    main()
