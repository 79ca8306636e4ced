"""Inputs, references and the error of many consecutive calls.

Every call of a check gets other data than the calls before it: one of a few random sets, scaled by a power of two,
which scales the exact result, and every rounded one, alike. So each call's output differs from all earlier ones, at the
cost of one float32 product per set.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

SCALES = (1.0, 2.0, 0.5, 4.0, 0.25)


class GemmData:
    """Random A (gathered and this rank's shard) and B, with float32 references.

    Attributes:
        whole: The gathered A of each set, bf16 [m, k], the same on every rank.
        shards: This rank's rows of each.
        weight: B [n, k] of this rank.
        references: A Bᵀ in float32, [m, n], for each set.
    """

    def __init__(
        self, m: int, n: int, k: int, *, rank: int, world_size: int, sets: int, seed: int = 0
    ) -> None:
        generator = torch.Generator("cuda")

        def draw(shape: tuple[int, int], seed: int) -> torch.Tensor:
            generator.manual_seed(seed)
            return torch.randn(shape, generator=generator, device="cuda").bfloat16()

        rows = m // world_size
        self.rows = slice(rank * rows, (rank + 1) * rows)
        self.whole = [draw((m, k), seed + i) for i in range(sets)]
        self.shards = [whole[self.rows].clone() for whole in self.whole]
        self.weight = draw((n, k), seed + 1000 + rank)
        tf32, torch.backends.cuda.matmul.allow_tf32 = torch.backends.cuda.matmul.allow_tf32, False
        self.references = [whole.float() @ self.weight.float().T for whole in self.whole]
        torch.backends.cuda.matmul.allow_tf32 = tf32
        self.norms = [reference.norm() for reference in self.references]

    def check_calls(
        self, call: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], calls: int
    ) -> float:
        """The largest relative error ‖C - C_ref‖ / ‖C_ref‖ over consecutive calls with fresh data.

        It is NaN if any output has one.

        Args:
            call: Makes a call with a shard and a poisoned output, and returns the output.
            calls: How many.
        """
        errors = []
        shard = torch.empty_like(self.shards[0])
        out = torch.empty(self.references[0].shape, dtype=shard.dtype, device="cuda")
        for i in range(calls):
            which, scale = i % len(self.shards), SCALES[i // len(self.shards) % len(SCALES)]
            torch.mul(self.shards[which], scale, out=shard)
            out.fill_(float("nan"))
            result = call(shard, out)
            # Frobenius norm of the difference without a float32 copy of the output for each call.
            difference = torch.sub(self.references[which], result.float(), alpha=1.0 / scale)
            errors.append(difference.norm() / self.norms[which])
        return float(torch.stack(errors).max())
