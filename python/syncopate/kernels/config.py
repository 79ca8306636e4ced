"""How a GEMM is cut into tiles and compiled, and the choices that it has besides."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from syncopate.abi import Realization
from syncopate.compiler.binding import LEAST_STEPS, MOST_PARTS, Ctas, HasParts, Parts, Scratch

__all__ = ["Activation", "AttentionConfig", "DecodeConfig", "GemmConfig", "Precision"]


class Activation(enum.Enum):
    """What is applied to each element of C in float32, behind the bias, before it is rounded."""

    RELU = "relu"
    GELU = "gelu"
    """By the error function, not its approximation by tanh."""
    SILU = "silu"


class Precision(enum.Enum):
    """How float32 operands are multiplied; others are multiplied as they are."""

    TF32 = "tf32"
    """Rounded to 10 bits of mantissa, on tensor cores."""
    TF32X3 = "tf32x3"
    """As three such products, on tensor cores."""
    IEEE = "ieee"
    """In float32, without tensor cores."""


CACHE_LINE: Final = 128

NARROW_ROUND: Final = 0.535
"""Time of a round of tiles of half the width, of that of the large ones (bf16 on H200, docs/results)."""

SPLIT_ROUND: Final = 0.4
"""What a last round of parts takes besides its share of K, of the time of a round: at K 8192, by the cost model."""


@dataclass(frozen=True)
class GemmConfig:
    """Configuration of a persistent GEMM; the defaults are those of a large bf16 GEMM on Hopper.

    ``gemm_pointers`` keeps its addresses in registers and wants smaller tiles: ``block_n=128``.

    Attributes:
        block_m: Rows of an output tile.
        block_n: Columns of an output tile.
        block_k: Elements of K that one pipeline stage holds.
        group_m: Rows of tiles that are walked together, for locality in L2, by a kernel that runs alone; the order of a
            fused one is the strategy's.
        num_warps: Warps that compute.
        num_stages: Pipeline stages of the K loop.
        num_ctas: CTAs that walk the tiles; `syncopate.compile` chooses, if it is left out. At most one fits on a
            streaming multiprocessor.
        parts: Among how many CTAs each tile of a last round is split that does not fill it, 1 for none;
            `syncopate.compile` chooses, if it is left out.
    """

    block_m: int = 128
    block_n: int = 256
    block_k: int = 64
    group_m: int = 8
    num_warps: int = 8
    num_stages: int = 3
    num_ctas: int | None = None
    parts: int | None = None

    @classmethod
    def usual(cls) -> tuple[GemmConfig, GemmConfig, GemmConfig]:
        """Returns large, narrow and small tiles: what `choose` is between, and what machines are measured with."""
        return (
            cls(),
            cls(block_n=128, num_warps=4, num_stages=4),
            cls(block_m=64, block_n=128, group_m=4, num_warps=4, num_stages=6),
        )

    @classmethod
    def choose(
        cls, m: int, n: int, row_bytes: int = CACHE_LINE, *, num_sms: int = 132
    ) -> GemmConfig:
        """Returns the large tiles, or the narrow ones where those leave fewer multiprocessors without work.

        Tiles of a last round are taken to be split as `Parts` does it, with K as long as that needs. Where there would
        be less than a round of large tiles it is narrow ones, or small ones if those were less than a round, too: tiles
        that need other ranks' data should still come in a second round.

        Args:
            m: Rows of the output.
            n: Its columns.
            row_bytes: Bytes of a row of K. Where rows start anywhere in a cache line, narrow tiles, which load more,
                cost more than they save.
            num_sms: Multiprocessors that compute.
        """
        large, narrow, small = cls.usual()
        if math.prod(narrow.tiles(m, n)) < num_sms:
            return small
        if math.prod(large.tiles(m, n)) < num_sms:
            return narrow
        if row_bytes % CACHE_LINE:
            return large

        def rounds(config: GemmConfig) -> float:
            tiles = math.prod(config.tiles(m, n))
            parts = Parts(LEAST_STEPS * MOST_PARTS).choose(tiles, num_sms)
            last = 1 / parts + SPLIT_ROUND if parts > 1 else tiles % num_sms > 0
            return tiles // num_sms + last

        return large if rounds(large) <= NARROW_ROUND * rounds(narrow) else narrow

    def constexprs(self) -> dict[str, Any]:
        """Returns the compile-time parameters of the kernels in this package, by name; no bias or activation."""
        return {
            "BLOCK_M": self.block_m,
            "BLOCK_N": self.block_n,
            "BLOCK_K": self.block_k,
            "GROUP_M": self.group_m,
            "NUM_SMS": Ctas() if self.num_ctas is None else self.num_ctas,
            "bias_ptr": None,
            "TRANSPOSE_A": False,
            "TRANSPOSE_B": False,
            "ACTIVATION": None,
            "PRECISION": Precision.TF32.value,
            "SPLIT": False,
            "work_ptr": None,
            "counters_ptr": None,
        }

    def last_round(self, k: int, *, always: bool = True) -> dict[str, Any]:
        """Returns what the parameters by which ``gemm`` and ``gemm_pointers`` split tiles over ``k`` are bound to.

        Args:
            k: K.
            always: Whether the code for it is there in any case, so that all shapes have the same.
        """
        if self.parts == 1:
            return {}
        return {
            "SPLIT": True if always else HasParts(),
            "parts": self._split(k),
            "work_ptr": Scratch((Ctas(), self.block_m, self.block_n), "f32", split=True),
            "counters_ptr": Scratch((Ctas(),), "i32", split=True),
        }

    def count_parts(self, m: int, n: int, k: int, ctas: int) -> int:
        """Returns among how many of ``ctas`` that compute each tile of the last round of a GEMM is split.

        Raises:
            SyncopateError: There are too few for `parts`.
        """
        return self._split(k).choose(math.prod(self.tiles(m, n)), ctas)

    def _split(self, k: int) -> Parts:
        return Parts(-(-k // self.block_k), self.parts)

    def options(self) -> dict[str, Any]:
        """Returns Triton's compile options."""
        return {"num_warps": self.num_warps, "num_stages": self.num_stages}

    def tiles(self, m: int, n: int) -> tuple[int, int]:
        """Returns how many tiles an ``m`` by ``n`` output has in each direction."""
        return -(-m // self.block_m), -(-n // self.block_n)

    def descriptor_signature(self, dtype: str = "bf16") -> dict[str, str]:
        """Returns the Triton types of the parameters of ``gemm``, all of one element type."""
        return {
            "a_desc": f"tensordesc<{dtype}[{self.block_m},{self.block_k}]>",
            "b_desc": f"tensordesc<{dtype}[{self.block_n},{self.block_k}]>",
            "c_desc": f"tensordesc<{dtype}[{self.block_m},{self.block_n}]>",
            **dict.fromkeys(("M", "N", "K"), "i32"),
            **dict.fromkeys(self.constexprs(), "constexpr"),
            "parts": "i32",
        }

    def pointer_signature(self, dtype: str = "bf16") -> dict[str, str]:
        """Returns the Triton types of the parameters of ``gemm_pointers``, all of one element type."""
        return {
            **dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), f"*{dtype}"),
            **dict.fromkeys(("M", "N", "K", "stride_a", "stride_b", "stride_c"), "i32"),
            **dict.fromkeys(self.constexprs(), "constexpr"),
            "parts": "i32",
        }


@dataclass(frozen=True)
class AttentionConfig:
    """Configuration of attention.

    Attributes:
        block_m: Queries of a tile.
        block_n: Keys of a step.
        num_warps: Warps that compute.
        num_stages: Pipeline stages of the loop over steps.
        num_ctas: CTAs that walk the tiles; `syncopate.compile` chooses, if it is left out.
        ctas_per_sm: How many of these CTAs share a multiprocessor, if their number is left out. Warps of one CTA wait
            for each other at each step; those of several do not, so that some multiply while others compute
            exponentials.
    """

    block_m: int = 128
    block_n: int = 64
    num_warps: int = 8
    num_stages: int = 3
    num_ctas: int | None = None
    ctas_per_sm: int = 1

    @classmethod
    def choose(
        cls, head_dim: int, *, packed: bool = False, realizations: Iterable[Realization] = ()
    ) -> AttentionConfig:
        """Returns blocks for 16-bit elements that fit into the shared memory and registers of Hopper.

        Args:
            head_dim: Elements of a head.
            packed: Whether several sequences stand one behind another.
            realizations: How data move while tiles compute. Roles beside tiles take registers, those on TMA shared
                memory.
        """
        kinds = set(realizations)
        beside = any(kind.is_colocated for kind in kinds)
        ring = any(kind.is_tma for kind in kinds)
        if head_dim > 128:
            if packed and beside:
                return cls(block_n=32, num_stages=2 if ring else 3)
            return cls(num_stages=2)
        if Realization.TMA_DEDICATED in kinds:
            # Its ring takes most of a multiprocessor's shared memory.
            return cls(num_stages=4) if head_dim > 64 else cls(block_n=128)
        if head_dim > 64 and not beside:
            return cls(block_n=128)
        block_n = 64 if head_dim > 64 else 128
        stages = 2 if ring else 3
        return cls(64, block_n, num_warps=4, num_stages=stages, ctas_per_sm=2)

    @classmethod
    def choose_backward_q(cls, head_dim: int) -> AttentionConfig:
        """Returns blocks for the gradients of queries of which nothing spills in a fused kernel, and which fit."""
        if head_dim > 128:
            return cls(block_m=64, block_n=32, num_stages=2)
        return cls(num_stages=2) if head_dim > 64 else cls(block_n=128)

    @classmethod
    def choose_backward_kv(cls, head_dim: int) -> AttentionConfig:
        """Likewise for those of keys and values, which have two accumulators for a block of keys."""
        if head_dim > 128:
            return cls(block_m=16, block_n=64, num_stages=2)
        if head_dim > 64:
            return cls(block_m=32, block_n=128, num_stages=2)
        return cls(block_m=64, block_n=128)


@dataclass(frozen=True)
class DecodeConfig:
    """Configuration of attention of one query of each sequence.

    Attributes:
        parts: Into how many parts the keys of each sequence and head on a rank are cut.
        block_n: Keys that one pipeline stage holds.
        num_warps: Warps that compute.
        num_stages: Pipeline stages of the loop over keys.
        num_ctas: CTAs that walk the tiles.
    """

    parts: int = 1
    block_n: int = 64
    num_warps: int = 4
    num_stages: int = 4
    num_ctas: int = 128

    @classmethod
    def choose(
        cls, batch: int, kv_heads: int, capacity: int, *, num_sms: int = 132
    ) -> DecodeConfig:
        """Returns as many parts as there are multiprocessors for, none of less than some blocks of keys.

        Args:
            batch: Sequences.
            kv_heads: Heads of keys and values.
            capacity: Keys of each sequence that a rank has room for.
            num_sms: Multiprocessors that compute.
        """
        blocks = -(-capacity // cls.block_n)
        parts = max(1, min(num_sms // (batch * kv_heads), blocks // LEAST_STEPS))
        return cls(parts, num_ctas=min(num_sms, batch * kv_heads * parts))

    def count_partial_tiles(self, batch: int, kv_heads: int) -> int:
        """Returns how many tiles compute partial results on a rank."""
        return batch * kv_heads * self.parts
