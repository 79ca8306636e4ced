"""What the ranks of a workload compute: factors, references, and the error of many calls in a row.

Every call of a check gets other data than the calls before it: one of a few random sets, scaled by a power of two,
which scales the exact result, and every rounded one, alike. So each call's output differs from all earlier ones, at the
cost of few float32 products per set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from syncopate.runtime.session import Session
from syncopate.workloads import GemmWorkload
from syncopate.workloads.reference import draw_factor, draw_input, draw_weight, multiply

__all__ = ["SETS", "TOLERANCE", "GemmData", "make_data"]

SETS = 3
TOLERANCE = 1e-2
"""A result that is off by more, relative to the reference, is wrong."""

SCALES = (1.0, 2.0, 0.5, 4.0, 0.25)


@dataclass
class GemmData:
    """Random factors in a few sets, the GEMM that follows from them, and what a rank should get in the end.

    Attributes:
        shape: M, N, K of the GEMM of one rank.
        inputs: What a call is given as A, bf16, for each set.
        factors: The A that the rank's GEMM multiplies, bf16 [M, K]; where nothing moves before it, the inputs.
        weight: B of this rank, bf16 [N, K].
        references: The result in float32, for each set.
    """

    shape: tuple[int, int, int]
    inputs: list[torch.Tensor]
    factors: list[torch.Tensor]
    weight: torch.Tensor
    references: list[torch.Tensor]

    def check_calls(
        self, call: Callable[[torch.Tensor], torch.Tensor], calls: int
    ) -> tuple[float, bool]:
        """The largest relative error ‖C - C_ref‖ / ‖C_ref‖ over consecutive calls, and whether bits repeat.

        The error is NaN if any output has one. Calls with the same data must give the same bits.

        Args:
            call: Makes a call with an input, and returns the output.
            calls: How many.
        """
        errors: list[torch.Tensor] = []
        same = torch.ones((), dtype=torch.bool, device="cuda")
        first: dict[int, torch.Tensor] = {}
        given = torch.empty_like(self.inputs[0])
        norms = [reference.norm() for reference in self.references]
        for i in range(calls):
            which, scale = i % SETS, SCALES[i // SETS % len(SCALES)]
            torch.mul(self.inputs[which], scale, out=given)
            out = call(given)
            if scale == 1.0:
                same &= (out == first.setdefault(which, out.clone())).all()
            # Frobenius norm of the difference without a float32 copy of the output for each call.
            difference = torch.sub(self.references[which], out.float(), alpha=1.0 / scale)
            errors.append(difference.norm() / norms[which])
        return float(torch.stack(errors).max()), bool(same)


def make_data(workload: GemmWorkload, session: Session) -> GemmData:
    """Draws this rank's data.

    Args:
        workload: The workload, with M a multiple of the number of ranks.
        session: The ranks.

    Raises:
        SystemExit: It is not.
    """
    world, rank = session.world_size, session.rank
    if workload.m % world:
        raise SystemExit(
            f"--shapes: expects M to be a multiple of {world} ranks, as the baselines need, but got {workload.m}"
        )
    seeds = [17 * number for number in range(SETS)]
    # Not a part of what all ranks gather.
    given = [draw_input(workload, rank, seed, "cuda").clone() for seed in seeds]
    factors = [draw_factor(workload, rank, seed, "cuda") for seed in seeds]
    # One B for all sets, so it is that of the first.
    weight = draw_weight(workload, rank, seeds[0], "cuda")
    references = [multiply(workload, rank, seed, "cuda", weight_seed=seeds[0]) for seed in seeds]
    return GemmData(workload.shape, given, factors, weight, references)
