"""The shapes of the suites: (M, N, K) of the GEMM that one rank computes."""

from __future__ import annotations

import itertools

from syncopate.workloads import GemmKind

__all__ = ["find_shapes"]

Shape = tuple[int, int, int]

MODELS = {
    "llama-7b": (4096, 11008),
    "llama3-8b": (4096, 14336),
    "llama3-70b": (8192, 28672),
    "llama3-405b": (16384, 53248),
    "qwen2-72b": (8192, 29568),
    "gpt3-175b": (12288, 49152),
}
"""Hidden size and width of the MLP: (N, K) of its last GEMM, (K, N) of its first."""

ROWS = (8192, 2048)
PAPERS = "papers"
"""Names the shapes on which papers compare: all models with the most rows, cut among the ranks of the run."""

CUT = 8
"""Ranks among which a model's MLP is cut, besides those of the run."""

EXCHANGES = ((8192, 8192, 4096), (4096, 8192, 8192))
RAGGED = {
    "ragged": (8200, 3600, 8184),
    "ragged-unaligned": (8200, 3600, 8190),
    "small-m": (512, 3584, 8192),
}
SUMS = {"k3584": (8192, 8192, 3584), "k4096": (8192, 8192, 4096)}


def find_shapes(kind: GemmKind, names: str, world_size: int) -> dict[str, Shape]:
    """The shapes by name: all of a workload, or some.

    Args:
        kind: What moves.
        names: Names or parts of names of its shapes, MxNxK, or `PAPERS`, comma-separated; all of them if it is empty.
        world_size: Number of ranks.

    Raises:
        SystemExit: One is neither.
    """
    known = _all(kind, world_size)
    if kind.collective != "all_to_all":
        names = names.replace(PAPERS, f"-of-{world_size}-m{ROWS[0]}")
    elif names == PAPERS:
        names = ""
    chosen: dict[str, Shape] = {}
    for text in [part for part in names.split(",") if part]:
        found = {name: shape for name, shape in known.items() if text in name}
        if not found:
            numbers = text.split("x")
            if len(numbers) != 3 or not all(number.isdecimal() for number in numbers):
                raise SystemExit(
                    f"--shapes: expects MxNxK or one of {', '.join(known)}, but got {text}"
                )
            m, n, k = map(int, numbers)
            found = {text: (m, n, k)}
        chosen |= found
    return chosen or known


def _all(kind: GemmKind, world_size: int) -> dict[str, Shape]:
    if kind in (GemmKind.A2A_GEMM, GemmKind.GEMM_A2A):
        return {f"{m}x{n}x{k}": (m, n, k) for m, n, k in EXCHANGES}
    gathers = kind is GemmKind.AG_GEMM
    shapes = {} if gathers else dict(SUMS)
    for rows, cut in itertools.product(ROWS, dict.fromkeys((CUT, world_size))):
        for model, (hidden, width) in MODELS.items():
            part = width // cut
            shape = (rows, part, hidden) if gathers else (rows, hidden, part)
            shapes[f"{model}-of-{cut}-m{rows}"] = shape
    return shapes | RAGGED if gathers else shapes
