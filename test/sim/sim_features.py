"""What a program has that a fault may break."""

from __future__ import annotations

from sim_table import (
    DEDICATED,
    ENGINE,
    LDST,
    PULL,
    PUSH,
    RING_PULL,
    TMA_COLOCATED,
    TMA_DEDICATED,
    Case,
)


def any_(_: Case) -> bool:
    return True


def ldst(case: Case) -> bool:
    return case.realization in (LDST, DEDICATED)


def dedicated(case: Case) -> bool:
    return case.realization is DEDICATED


def colocated(case: Case) -> bool:
    return case.realization is LDST


def engine(case: Case) -> bool:
    return case.realization is ENGINE


def several_ctas(case: Case) -> bool:
    return case.config.num_ctas > 1


def ldst_of_several_ctas(case: Case) -> bool:
    """Several CTAs share each command."""
    return ldst(case) and (case.comm_ctas > 1 if dedicated(case) else several_ctas(case))


def engine_gets(case: Case) -> bool:
    return engine(case) and case.algorithm in (PULL, RING_PULL)


def engine_puts(case: Case) -> bool:
    """No tile of a rank waits for what its own engine copies."""
    return engine(case) and not engine_gets(case)


def ldst_gets(case: Case) -> bool:
    """The flags that tiles wait for are raised on their own GPU."""
    return ldst(case) and case.algorithm in (PULL, RING_PULL)


def reads_several_shards(case: Case) -> bool:
    """Some tile reads chunks that several ranks bring."""
    return case.shape[0] < 64 * case.world and case.algorithm is PUSH and not case.is_attention


def reads_own_input(case: Case) -> bool:
    """Tiles read the rank's own input where the caller keeps it."""
    whole_tiles = case.shape[0] % (64 * case.world) == 0
    return ldst(case) and tma_gemm(case) and whole_tiles


def tma(case: Case) -> bool:
    return not case.has_pointers


def tma_gemm(case: Case) -> bool:
    return tma(case) and not case.is_attention


def wgmma(case: Case) -> bool:
    return case.target == "sm_90"


def ampere(case: Case) -> bool:
    return case.target == "sm_80"


def tma_copies(case: Case) -> bool:
    """A role of the kernel copies by TMA."""
    return case.realization in (TMA_COLOCATED, TMA_DEDICATED)


def fences(case: Case) -> bool:
    """Tiles read by TMA what ordinary instructions or a copy engine have stored."""
    return tma(case) and not tma_copies(case)


def tma_fills_ring(case: Case) -> bool:
    """Some CTA copies more blocks of a command than a ring has slots."""
    return tma_copies(case) and case.shape[0] * case.shape[2] > 1 << 16
