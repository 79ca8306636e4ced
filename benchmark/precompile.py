"""Compiles, without a GPU, every program that the benchmark and the GPU tests run.

    SYNCOPATE_PROGRAMS=folder python benchmark/precompile.py [--world 2] [--tests] [--splits 1,2,4]

The same variable makes them read the folder instead of compiling.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [
    str(HERE.parent),
    str(HERE.parent / "test" / "gpu"),
    str(HERE.parent / "test" / "python"),
]


def main() -> None:
    """Fills the folder."""
    from benchmark.common.programs import SHAPES, build_program, variants

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--world", type=int, default=2, help="ranks of the benchmark")
    parser.add_argument("--splits", default="1,2,4", help="comma-separated")
    parser.add_argument("--pauses", default="500,1500", help="comma-separated")
    parser.add_argument("--tests", action="store_true", help="those of test/gpu as well")
    options = parser.parse_args()
    if not os.environ.get("SYNCOPATE_PROGRAMS"):
        parser.error("SYNCOPATE_PROGRAMS: expects a folder in this environment variable")
    splits = [int(text) for text in options.splits.split(",")]
    pauses = [int(text) for text in options.pauses.split(",")]
    for shape, way in itertools.product(SHAPES.values(), variants(splits, pauses)):
        build_program(
            *shape,
            world_size=options.world,
            realization=way.realization,
            algorithm=f"direct_{way.direction}",
            splits=way.splits,
            pause=way.pause,
        )
    if options.tests:
        compile_tests()


def compile_tests(sms: int = 132, free_sms: int = 8) -> None:
    """The programs of test/gpu, for GPUs of that many streaming multiprocessors."""
    from workloads import GEMM_CASES, GEMM_SIZES, build_gemm

    shares = [(world, (sms - free_sms) // world) for world in (2, 3, 4, 8)]
    for (world, ctas), case, size in itertools.product([*shares, (2, sms)], GEMM_CASES, GEMM_SIZES):
        algorithm, realization, splits = case
        build_gemm(world, algorithm, realization, size, ctas, splits=splits)


if __name__ == "__main__":
    main()
