"""Programs whose times say what a machine does: transfers beside next to nothing, and GEMMs with transfers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from syncopate.abi import Realization
from syncopate.model.curve import FlowDirection

if TYPE_CHECKING:
    from syncopate.compiler import Program
    from syncopate.kernels import GemmConfig

__all__ = ["TransferProbe", "build_gather_gemm", "build_idle", "build_sum_gemm", "build_transfer"]

WIDTH: Final = 128
"""Columns of a chunk, and elements of it that a tile reads; of 2 bytes."""


@dataclass(frozen=True)
class TransferProbe:
    """A transfer from each rank to each other, one after another on each rank.

    Attributes:
        realization: Who carries them out.
        direction: From where to where.
        nbytes: Bytes of each; a multiple of 256.
        ctas: CTAs that share each of them; of no meaning to a copy engine.
    """

    realization: Realization
    direction: FlowDirection
    nbytes: int
    ctas: int = 0


def build_transfer(probe: TransferProbe, world_size: int, timeout: float = 20.0) -> Program:
    """A program of a probe: rank r has block r of `a`, and its tiles read the beginnings of all blocks.

    Args:
        probe: What to move.
        world_size: Number of ranks.
        timeout: Limit of device waits in seconds.
    """
    rows = probe.nbytes // (2 * WIDTH)
    plan, a = _plan(rows, world_size)
    add = plan.put if probe.direction is FlowDirection.PUSH else plan.get
    for distance in range(1, world_size):
        for rank in range(world_size):
            block = a[rank * rows : (rank + 1) * rows]
            add(block, block, src_rank=rank, dst_rank=(rank + distance) % world_size)
    return _compile(plan, a, rows, world_size, probe, timeout)


def build_idle(world_size: int, ctas: int, timeout: float = 20.0) -> Program:
    """The same kernel and no transfer: every rank has all of `a`."""
    import syncopate

    plan = syncopate.Plan("idle", mesh=[world_size])
    a = plan.buffer("a", (world_size * 8, WIDTH), "bf16")
    for rank in range(world_size):
        plan.input(a[:], rank=rank)
    probe = TransferProbe(Realization.LDST_COLOCATED, FlowDirection.PUSH, 16 * WIDTH, ctas)
    return _compile(plan, a, 8, world_size, probe, timeout)


def build_gather_gemm(
    shape: tuple[int, int, int],
    config: GemmConfig,
    realization: Realization,
    world_size: int,
    timeout: float = 20.0,
) -> Program:
    """An all-gather by pushing, and the GEMM of M, N, K on what is gathered."""
    import syncopate
    from syncopate.kernels import bind_gemm, gemm

    m, n, k = shape
    plan = syncopate.Plan("probe_gather", mesh=[world_size])
    a = plan.buffer("a", (m, k), "bf16", shard_axis=0)
    plan.all_gather(a, axis=0)
    return syncopate.compile(
        gemm,
        plan,
        **bind_gemm(a, n, config),
        strategy=syncopate.Strategy(realization=realization.spelling, group_m=config.group_m),
        timeout=timeout,
    )


def build_sum_gemm(
    shape: tuple[int, int, int],
    config: GemmConfig,
    realization: Realization,
    world_size: int,
    timeout: float = 20.0,
) -> Program:
    """The GEMM of M, N, K, and the sum of what ranks compute, scattered; by nccl in library calls."""
    import syncopate
    from syncopate.kernels import bind_gemm, gemm
    from syncopate.plan.templates import reduce_scatter_tiles

    m, n, k = shape
    plan = syncopate.Plan("probe_sum", mesh=[world_size])
    c = plan.buffer("c", (m, n), "bf16")
    strategy = syncopate.Strategy(realization=realization.spelling, group_m=config.group_m)
    reduce_scatter_tiles(plan, c, strategy)
    return syncopate.compile(
        gemm,
        plan,
        **bind_gemm(syncopate.Tensor("a", (m, k), "bf16"), n, config, c=c),
        strategy=strategy,
        timeout=timeout,
    )


def _plan(rows: int, world_size: int) -> tuple[Any, Any]:
    import syncopate

    plan = syncopate.Plan("probe_transfer", mesh=[world_size])
    a = plan.buffer("a", (world_size * rows, WIDTH), "bf16")
    for rank in range(world_size):
        plan.input(a[rank * rows : (rank + 1) * rows], rank=rank)
    return plan, a


def _compile(
    plan: Any, a: Any, rows: int, world_size: int, probe: TransferProbe, timeout: float
) -> Program:
    import syncopate
    from syncopate.model.touch import touch

    dedicated = probe.realization.is_dedicated
    # The kernel has a tile for each block, and CTAs without a tile have co-located roles as well.
    ctas = world_size if dedicated or probe.realization.is_on_stream else probe.ctas
    bind = {
        "a_ptr": syncopate.Pointer(a),
        "c_ptr": syncopate.Pointer(syncopate.Tensor("c", (world_size, WIDTH), "bf16", output=True)),
        "TILES": world_size,
        "stride": rows * WIDTH,
        "WIDTH": WIDTH,
        "NUM_SMS": syncopate.Ctas(),
    }
    return syncopate.compile(
        touch,
        plan,
        bind=bind,
        tiles=(world_size,),
        ctas=ctas,
        strategy=syncopate.Strategy(
            realization=probe.realization.spelling,
            splits=1,
            pause=0,
            comm_ctas=max(probe.ctas, 1),
        ),
        footprints=[
            syncopate.Footprint("a_ptr", lambda m: (m * rows, 0), (rows, WIDTH)),
        ],
        options={"num_warps": 8, "num_stages": 1},
        timeout=timeout,
    )
