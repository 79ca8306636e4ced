"""All-gather + GEMM: every rank has a block of rows of A and its own B; C = gather(A) Bᵀ.

On GPUs, `torchrun --nproc-per-node 2 examples/ag_gemm.py` runs it beside torch. Anywhere,
`python examples/ag_gemm.py` compiles it and simulates the fused kernels of four ranks.
"""

import argparse
import os

import numpy as np

import syncopate
from syncopate import Strategy
from syncopate.kernels import GemmConfig, bind_gemm, gemm


def compile_program(
    world: int, m: int, n: int, k: int, strategy: Strategy, config: GemmConfig
) -> syncopate.Program:
    """Compiles for `world` ranks; N is what one rank has of it."""
    # The plan: A lies in symmetric memory, each rank holds its block, all get all of it.
    plan = syncopate.Plan("ag_gemm", mesh=[world])
    a = plan.buffer("a", (m, k), "bf16", shard_axis=0)
    plan.all_gather(a, axis=0)

    # The kernel's parameters: A is the plan's buffer; B and C are the rank's own tensors `b` and `c`.
    arguments = bind_gemm(a, n, config)
    return syncopate.compile(gemm, plan, **arguments, strategy=strategy, target="sm_90")


def run(arguments: argparse.Namespace, strategy: Strategy) -> None:
    """One rank, started by torchrun: compares with torch."""
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    m, n, k = arguments.shape
    program = compile_program(world, m, n, k, strategy, GemmConfig())

    torch.manual_seed(rank)
    a = torch.randn(m // world, k, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(n, k, device="cuda", dtype=torch.bfloat16)
    c = program(a=a, b=b)  # on the default process group; loaded by the first call

    whole = torch.empty(m, k, device="cuda", dtype=torch.bfloat16)
    dist.all_gather_into_tensor(whole, a)
    expected = whole.float() @ b.float().T
    error = (c.float() - expected).abs().max() / expected.abs().max()
    print(f"rank {rank}: relative error {error.item():.1e}")
    dist.destroy_process_group()


def check(strategy: Strategy) -> None:
    """No GPU: compiles for four ranks and simulates the fused kernel, two calls of it in a random interleaving."""
    config = GemmConfig(block_n=64, num_warps=4, num_ctas=8)
    program = compile_program(4, 512, 512, 512, strategy, config)
    print(program.explain())
    result = program.simulate(ranks=4, calls=2)
    print(f"simulated: {result.verdict}")  # `sound`, or every race and deadlock that was found
    for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
        whole = np.concatenate(inputs["a"]).astype(np.float64)
        expected = [whole @ b.T for b in inputs["b"]]
        error = np.abs(np.subtract(outputs["c"], expected)).max() / np.abs(expected).max()
        print(f"relative error against numpy: {error:.1e}")


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--shape",
        type=int,
        nargs=3,
        default=(8192, 3584, 8192),
        metavar=("M", "N", "K"),
        help="under torchrun: rows of A, rows of a rank's B, columns of both (default: 8192 3584 8192); "
        "without GPUs it is 512 512 512",
    )
    parser.add_argument(
        "--realization",
        default="ldst_colocated",
        help="who moves the data: ldst_colocated, ldst_dedicated, tma_colocated, tma_dedicated or copy_engine "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--algorithm",
        default="direct",
        help="direct, ring, bidirectional_ring or recursive_doubling (default: %(default)s)",
    )
    parser.add_argument("--direction", default="push", help="push or pull (default: %(default)s)")
    parser.add_argument(
        "--splits", type=int, default=1, help="pieces per transfer (default: %(default)s)"
    )
    arguments = parser.parse_args()
    strategy = Strategy(
        algorithm=arguments.algorithm,
        direction=arguments.direction,
        realization=arguments.realization,
        splits=arguments.splits,
    )
    if "LOCAL_RANK" in os.environ:
        run(arguments, strategy)
    else:
        check(strategy)


if __name__ == "__main__":
    main()
