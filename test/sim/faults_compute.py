"""Faults of the tiles in the fused kernel: what they read, their pipelines, their stores."""

from __future__ import annotations

from edits_pipeline import (
    early_end_of_barriers,
    first_tile,
    front_is_seen,
    inverted_phase,
    load_target_zero,
    own_input_from_buffer,
    pass_over,
    pending,
    ring_of,
    slot_zero,
    two_phases_ahead,
    unmasked,
    unpredicated,
)
from edits_protocol import fence_first
from fused_edits import change, drop, move_after, move_before, pin, shift
from sim_faults import Fault
from sim_faults import kernel_fault as fault
from sim_features import ampere, dedicated, fences, reads_own_input, tma, tma_gemm, wgmma

from syncopate.sim.findings import Kind

COMPUTE_FAULTS: tuple[Fault, ...] = (
    # Tiles.
    fault(
        "fence left out",
        "TMA reads what was acquired without a fence.proxy.async.",
        {Kind.RACE},
        drop(r"tt\.elementwise_inline_asm", innermost="fence_tma"),
        fences,
    ),
    fault(
        "fence before the wait",
        "The fence.proxy.async comes before the acquire.",
        {Kind.RACE},
        fence_first,
        fences,
    ),
    fault(
        "own rows from the buffer",
        "Tiles read the rank's own rows from the buffer instead of its input.",
        {Kind.RACE, Kind.UNWRITTEN},
        own_input_from_buffer,
        reads_own_input,
    ),
    fault(
        "dedicated CTAs counted",
        "CTAs that compute number themselves as if those in front did so too, and leave tiles out.",
        {Kind.OUTPUT},
        front_is_seen,
        dedicated,
    ),
    fault(
        "first tile only",
        "Every tile is the first.",
        {Kind.RACE, Kind.UNWRITTEN, Kind.OUTPUT},
        first_tile,
    ),
    fault(
        "stored one row off",
        "A tile is stored one row too low.",
        {Kind.RACE, Kind.OUTPUT},
        shift(r"ttng\.async_tma_copy_local_to_global", 1, 1),
        tma,
    ),
    # Pipelines with TMA.
    fault(
        "no wait on an mbarrier",
        "Products do not wait for their operands.",
        {Kind.SHARED_RACE},
        drop(r"ttng\.wait_barrier"),
        tma,
    ),
    fault(
        "constant phase",
        "mbarriers are always waited for with parity 1.",
        {Kind.SHARED_RACE, Kind.DEADLOCK, Kind.BARRIER},
        pin(r"ttng\.wait_barrier", 1, 1),
        tma,
    ),
    fault(
        "inverted phase",
        "mbarriers are waited for with the parity of the phase before.",
        {Kind.SHARED_RACE, Kind.DEADLOCK, Kind.BARRIER},
        inverted_phase,
        tma,
    ),
    fault(
        "wait on the first mbarrier",
        "Products always wait for the first slot.",
        {Kind.SHARED_RACE, Kind.DEADLOCK, Kind.BARRIER},
        slot_zero(r"ttng\.wait_barrier", 0),
        tma_gemm,
    ),
    fault(
        "no expected bytes",
        "Loads are not announced to their mbarrier.",
        {Kind.BARRIER, Kind.DEADLOCK},
        drop(r"ttng\.barrier_expect"),
        tma,
    ),
    fault(
        "too few expected bytes",
        "mbarriers expect 16 bytes of their loads.",
        {Kind.BARRIER, Kind.DEADLOCK},
        change(r"ttng\.barrier_expect", "size", 16),
        tma,
    ),
    fault(
        "too many expected bytes",
        "mbarriers expect 16 bytes more than come.",
        {Kind.DEADLOCK},
        change(r"ttng\.barrier_expect", "size", lambda size: size + 16),
        tma,
    ),
    fault(
        "mbarrier of two arrivals",
        "mbarriers wait for two arrivals.",
        {Kind.DEADLOCK},
        change(r"ttng\.init_barrier", "count", 2),
        tma,
    ),
    fault(
        "mbarrier not initialized",
        "mbarriers are used as they are found.",
        {Kind.BARRIER},
        drop(r"ttng\.init_barrier"),
        tma,
    ),
    fault(
        "mbarrier two phases ahead",
        "mbarriers complete two phases that nobody waits for.",
        {Kind.BARRIER},
        two_phases_ahead,
        tma,
    ),
    fault(
        "mbarrier invalidated early",
        "mbarriers are invalidated in front of the loop.",
        {Kind.BARRIER},
        early_end_of_barriers,
        tma_gemm,
    ),
    fault(
        "mbarrier not invalidated",
        "The memory of valid mbarriers is freed.",
        {Kind.BARRIER},
        drop(r"ttng\.inval_barrier"),
        tma,
    ),
    fault(
        "one slot too few",
        "Slots of the pipeline are used again one step too early.",
        {Kind.SHARED_RACE, Kind.DEADLOCK, Kind.BARRIER},
        ring_of(-1),
        tma_gemm,
    ),
    fault(
        "one slot too many",
        "The pipeline uses a slot more than there are.",
        {Kind.OUT_OF_BOUNDS, Kind.SHARED_RACE},
        ring_of(1),
        tma_gemm,
    ),
    fault(
        "one slot for all loads",
        "All loads of the pipeline go to the first slot.",
        {Kind.SHARED_RACE},
        load_target_zero,
        tma_gemm,
    ),
    fault(
        "loads behind the end",
        "The pipeline goes on loading behind its last step.",
        {Kind.BARRIER, Kind.SHARED_RACE, Kind.DEADLOCK},
        unpredicated,
        tma_gemm,
    ),
    fault(
        "one product too many in flight",
        "The loop waits for one product less.",
        {Kind.SHARED_RACE, Kind.REGISTER},
        change(r"ttng\.warp_group_dot_wait", "pendings", 2, where=pending(1)),
        tma_gemm,
    ),
    fault(
        "products not waited for",
        "The loop does not wait for its products.",
        {Kind.SHARED_RACE, Kind.REGISTER},
        pass_over(r"ttng\.warp_group_dot_wait", where=pending(1)),
        tma_gemm,
    ),
    fault(
        "accumulator in flight",
        "A tile is stored while its last product is in flight.",
        {Kind.REGISTER, Kind.SHARED_RACE},
        change(r"ttng\.warp_group_dot_wait", "pendings", 1, where=pending(0)),
        wgmma,
    ),
    fault(
        "no wait for TMA stores",
        "Shared memory is written while a store reads it.",
        {Kind.SHARED_RACE},
        drop(r"ttng\.async_tma_store_wait"),
        tma,
    ),
    fault(
        "wait for TMA stores too late",
        "A store is waited for when its memory has been written again.",
        {Kind.SHARED_RACE},
        move_after(r"ttng\.async_tma_store_wait", "ttg.local_store"),
        tma_gemm,
    ),
    fault(
        "no fence before TMA stores",
        "TMA stores what was written without a fence.",
        {Kind.SHARED_RACE},
        drop(r"ttng\.fence_async_shared"),
        wgmma,
    ),
    fault(
        "fence after TMA stores",
        "The fence comes after the store.",
        {Kind.SHARED_RACE},
        move_after(r"ttng\.fence_async_shared", "ttng.async_tma_copy_local_to_global"),
        tma,
    ),
    fault(
        "stored before it is there",
        "A tile is stored before it is in shared memory.",
        {Kind.SHARED_RACE},
        move_before(r"ttng\.async_tma_copy_local_to_global", "ttg.local_store"),
        tma_gemm,
    ),
    # Pipelines with cp.async.
    fault(
        "one cp.async group too many",
        "The loop waits for one group of copies less.",
        {Kind.SHARED_RACE},
        change(r"ttg\.async_wait", "num", lambda n: n + 1),
        ampere,
    ),
    fault(
        "cp.async not waited for",
        "The loop does not wait for its copies.",
        {Kind.SHARED_RACE},
        change(r"ttg\.async_wait", "num", 100),
        ampere,
    ),
    fault(
        "cp.async not committed",
        "Copies belong to no group.",
        {Kind.SHARED_RACE},
        pass_over(r"ttg\.async_commit_group"),
        ampere,
    ),
    fault(
        "copies unmasked",
        "Loads of the local kernel lose their mask.",
        {Kind.OUT_OF_BOUNDS, Kind.UNWRITTEN, Kind.RACE},
        unmasked(r"(tt\.load|ttg\.async_copy_global_to_local)"),
        lambda c: c.has_pointers and c.shape[0] % 64 != 0,
    ),
    fault(
        "output unmasked",
        "Stores of the local kernel lose their mask.",
        {Kind.OUT_OF_BOUNDS, Kind.RACE},
        unmasked(r"tt\.store"),
        lambda c: c.has_pointers and c.shape[0] % 64 != 0,
    ),
)
"""In the order of a tile."""
