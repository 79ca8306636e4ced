"""Programs that dispatch tokens to experts, for tests of what is made of them."""

import functools

import syncopate
from syncopate.kernels import GemmConfig, bind_grouped_gemm, grouped_gemm
from syncopate.plan.tokens import RoutingShape, dispatch_tokens

__all__ = ["SHAPES", "moe_program"]

SHAPES = [
    RoutingShape(2, 40, 2, 8, block_m=64),
    RoutingShape(3, 7, 3, 9, block_m=4, splits=3),
    RoutingShape(2, 5, 1, 2, block_m=8),
    RoutingShape(3, 1, 2, 300, block_m=16, splits=4),
    RoutingShape(2, 13, 2, 4, block_m=8, splits=2),
]


@functools.cache
def moe_program(shape, *, target="sm_90", realization="ldst_colocated", block_m=None):
    """Dispatch and grouped GEMM of small sizes."""
    plan = syncopate.Plan("moe", [shape.world_size])
    dispatch = dispatch_tokens(plan, shape, 64, "bf16")
    config = GemmConfig(
        block_m=block_m or shape.block_m, block_n=64, block_k=32, num_warps=4, num_ctas=4
    )
    return syncopate.compile(
        grouped_gemm,
        plan,
        **bind_grouped_gemm(dispatch, shape, 64, config),
        strategy=syncopate.Strategy(realization=realization, comm_ctas=2),
        target=target,
    )
