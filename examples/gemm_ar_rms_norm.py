"""GEMM + all-reduce + residual addition + RMSNorm, as behind a projection whose K is cut among the ranks.

Two programs, one after the other on the same stream, and nothing on the host in between: GEMM + reduce-scatter leaves
each rank its block of rows of the sum; that rank adds the residual to them, normalizes them, and sends each row to all
others as soon as it is done. Adding and normalizing once instead of on every rank costs nothing more on the way: the
second half of an all-reduce carries the normalized rows.

On GPUs, `torchrun --nproc-per-node 2 examples/gemm_ar_rms_norm.py` runs it beside torch. Anywhere,
`python examples/gemm_ar_rms_norm.py` compiles it and simulates the fused kernels of two ranks.
"""

import argparse
import os

import numpy as np

import syncopate
from syncopate.kernels import GemmConfig, add_rms_norm, bind_add_rms_norm, bind_gemm, gemm
from syncopate.plan.templates import all_gather_tiles, reduce_scatter_tiles

EPSILON = 1e-6


def compile_programs(
    world: int,
    m: int,
    n: int,
    k: int,
    *,
    realization: str = "ldst_colocated",
    splits: int = 2,
    config: GemmConfig | None = None,
    norm_ctas: int = 132,
) -> tuple[syncopate.Program, syncopate.Program]:
    """Compiles for `world` ranks, which have to divide M; K is what one rank has of it.

    Returns:
        GEMM + reduce-scatter, which takes `a` and `b`; and what takes its result as `x`, with `residual`, the rank's
        rows of that, and `weight`, and gives those rows of X + residual, and all normalized rows.
    """
    plan = syncopate.Plan("gemm_rs", mesh=[world])
    c = plan.buffer("c", (m, n), "bf16")
    strategy = syncopate.Strategy(splits=splits, realization=realization)
    reduce_scatter_tiles(plan, c, strategy)
    a = syncopate.Tensor("a", (m, k), "bf16")
    bind = bind_gemm(a, n, config or GemmConfig(), c=c)
    first = syncopate.compile(gemm, plan, **bind, target="sm_90")

    plan = syncopate.Plan("rms_norm_ag", mesh=[world])
    own = plan.buffer("own", (m // world, n), "bf16")
    y = plan.buffer("y", (m, n), "bf16")
    all_gather_tiles(plan, own, y, strategy)
    bind = bind_add_rms_norm(own, epsilon=EPSILON, num_ctas=norm_ctas)
    return first, syncopate.compile(add_rms_norm, plan, **bind, target="sm_90")


def run(arguments: argparse.Namespace) -> None:
    """One rank, started by torchrun: compares with torch."""
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    m, n, k = arguments.shape
    gemm_rs, norm_ag = compile_programs(world, m, n, k, realization=arguments.realization)

    torch.manual_seed(rank)
    a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(n, k, device="cuda", dtype=torch.bfloat16)
    residual = torch.randn(m // world, n, device="cuda", dtype=torch.bfloat16)
    torch.manual_seed(world)
    weight = torch.randn(n, device="cuda", dtype=torch.bfloat16)
    block = gemm_rs(a=a, b=b)
    _, y = norm_ag(x=block, residual=residual, weight=weight)

    total = a.float() @ b.float().T
    dist.all_reduce(total)
    residuals = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    dist.all_gather_into_tensor(residuals, residual)
    total += residuals.float()
    expected = total * torch.rsqrt(total.square().mean(1, keepdim=True) + EPSILON) * weight.float()
    error = (y.float() - expected).norm() / expected.norm()
    print(f"rank {rank}: relative error {error.item():.1e}")
    dist.destroy_process_group()


def check(arguments: argparse.Namespace) -> None:
    """No GPU: compiles for two ranks and simulates the fused kernels, each in a random interleaving."""
    config = GemmConfig(block_n=64, num_warps=4, num_ctas=4)
    gemm_rs, norm_ag = compile_programs(
        2, 256, 128, 128, realization=arguments.realization, config=config, norm_ctas=4
    )
    first = gemm_rs.simulate()
    print(f"GEMM + reduce-scatter simulated: {first.verdict}")
    inputs = first.inputs[0]
    draw = np.random.default_rng()
    rest = {
        "residual": [draw.standard_normal((128, 128), np.float32) for _ in range(2)],
        "weight": [draw.standard_normal(128, np.float32)] * 2,
    }
    second = norm_ag.simulate({"x": first.outputs[0]["c"], **rest})
    print(f"residual + RMSNorm + all-gather simulated: {second.verdict}")
    pairs = zip(inputs["a"], inputs["b"], strict=True)
    total = sum(a.astype(np.float64) @ b.astype(np.float64).T for a, b in pairs)
    total += np.concatenate(second.inputs[0]["residual"])
    scale = 1 / np.sqrt(np.square(total).mean(1, keepdims=True) + EPSILON)
    expected = total * scale * second.inputs[0]["weight"][0]
    for found in second.outputs[0]["y"]:
        error = np.abs(found - expected).max() / np.abs(expected).max()
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
        "without GPUs it is 256 128 128",
    )
    parser.add_argument(
        "--realization",
        default="ldst_colocated",
        help="who moves data between ranks: ldst_colocated, ldst_dedicated, tma_colocated, tma_dedicated or "
        "copy_engine (default: %(default)s)",
    )
    arguments = parser.parse_args()
    if "LOCAL_RANK" in os.environ:
        run(arguments)
    else:
        check(arguments)


if __name__ == "__main__":
    main()
