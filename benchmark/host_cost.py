"""What a call takes the host: of a program with one launch, per copy of an engine, and of the torch operator around it.

    torchrun --nproc-per-node 2 benchmark/host_cost.py [--calls 200] [--out docs/results]
    python benchmark/host_cost.py --no-gpu

With `--no-gpu` the driver is a stand-in that returns at once, so that what is left is Python; times of allocations are
those of the host. Each time is the median of calls that find the GPU idle, of the slowest rank.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch
from benchmark.common.host_driver import HostGroup, stand_in
from benchmark.common.report import describe_run, file_stem

from syncopate import GemmWorkload, Strategy
from syncopate.choices import Realization
from syncopate.runtime.engine_plan import Copy, plan_engine
from syncopate.runtime.linking import Addresses
from syncopate.runtime.loaded import LoadedProgram
from syncopate.runtime.timing import measure_host_us
from syncopate.strategy_names import name_strategy
from syncopate.workloads import GemmKind

LAUNCH_US, COPY_US = 15.0, 3.0
"""What a launch is to take, and each copy of an engine besides."""

SPLITS = (1, 2, 4)
STRATEGIES = (
    Strategy(realization=Realization.LDST_COLOCATED),
    *(Strategy(realization=Realization.COPY_ENGINE, splits=splits) for splits in SPLITS),
)
SHAPE = (1024, 512, 512)
_WARM_UP = 50


@dataclass(frozen=True)
class Row:
    """One program.

    Attributes:
        strategy: Its name.
        copies: Copies of an engine in a call.
        program_us: A call of the loaded program.
        operator_us: The same by `syncopate.torch.all_gather_matmul`; None where it was not measured.
    """

    strategy: str
    copies: int
    program_us: float
    operator_us: float | None = None


def count_copies(program: Any) -> int:
    """Copies of an engine in a call of rank 0."""
    world = program.world_size
    nowhere = Addresses(((0,) * len(program.buffers),) * world, (0,) * world)
    return sum(isinstance(op, Copy) for op in plan_engine(program, 0, nowhere))


def measure(loaded: LoadedProgram, calls: int, tensors: Mapping[str, Any]) -> float:
    """Microseconds of a call, once it has been made often."""
    for _ in range(_WARM_UP):
        loaded(**tensors)
    return measure_host_us(loaded, calls, **tensors)


def make_tensors(world_size: int, device: str) -> dict[str, torch.Tensor]:
    """A rank's part of A, and B."""
    m, n, k = SHAPE
    shapes = {"a": (m // world_size, k), "b": (n, k)}
    return {name: torch.randn(shape, device=device).bfloat16() for name, shape in shapes.items()}


def measure_without_gpu(world_size: int, calls: int) -> list[Row]:
    """Rows without a GPU."""
    workload, rows = GemmWorkload(GemmKind.AG_GEMM, *SHAPE, world_size), []
    for strategy in STRATEGIES:
        program = workload.compile(strategy, machine_code=False)
        with stand_in(), LoadedProgram(program, HostGroup(world_size)) as loaded:
            us = measure(loaded, calls, make_tensors(world_size, "cpu"))
        rows.append(Row(name_strategy(strategy), count_copies(program), us))
    return rows


def measure_ranks(session: Any, calls: int) -> list[Row]:
    """Rows of the ranks of a session."""
    import syncopate.torch as st
    from syncopate.runtime import ProcessGroup

    group, rows = ProcessGroup(), []
    workload = GemmWorkload(GemmKind.AG_GEMM, *SHAPE, session.world_size)
    tensors = make_tensors(session.world_size, "cuda")
    name = torch.distributed.group.WORLD.group_name
    for strategy in STRATEGIES:
        with workload.load(group, strategy) as loaded:
            us = measure(loaded.loaded, calls, tensors)
            copies = count_copies(loaded.loaded.program)
        operator = _Operator(
            lambda a, b, strategy=strategy: st.all_gather_matmul(
                a, [b.t()], 0, name, return_A=False, strategy=strategy
            )
        )
        of_operator = measure(operator, calls, tensors)  # type: ignore[arg-type]
        rows.append(Row(name_strategy(strategy), copies, *session.maximum([us, of_operator])))
    st.close_programs()
    return rows


class _Operator:
    """What is called and waited for like a loaded program."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call

    def __call__(self, **tensors: torch.Tensor) -> Any:
        return self._call(**tensors)

    def synchronize(self) -> None:
        torch.cuda.synchronize()


def summarize(rows: Sequence[Row]) -> dict[str, float]:
    """A launch without copies, and what each copy adds, between the programs with fewest and with most."""
    launch, first, *_, last = rows
    per_copy = (last.program_us - first.program_us) / (last.copies - first.copies)
    return {"launch_us": launch.program_us, "copy_us": per_copy}


def format_rows(rows: Sequence[Row]) -> str:
    """A table, and what is to be kept to."""
    lines = ["| strategy | copies | program, µs | operator, µs |", "|---|---|---|---|"]
    for row in rows:
        operator = "-" if row.operator_us is None else f"{row.operator_us:.1f}"
        lines.append(f"| {row.strategy} | {row.copies} | {row.program_us:.1f} | {operator} |")
    found = summarize(rows)
    lines += [
        "",
        f"A launch takes {found['launch_us']:.1f} µs, to be at most {LAUNCH_US:g}; "
        f"each copy {found['copy_us']:.1f} µs, to be at most {COPY_US:g}.",
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=200, help="calls that are timed of each")
    parser.add_argument("--no-gpu", action="store_true", help="with a driver that does nothing")
    parser.add_argument("--ranks", type=int, default=4, help="ranks without a GPU")
    parser.add_argument("--out", type=Path, help="folder for a JSON file")
    options = parser.parse_args(arguments)
    if options.no_gpu:
        rows, session = measure_without_gpu(options.ranks, options.calls), None
    else:
        from syncopate.runtime.session import Session

        session = Session()
        rows = measure_ranks(session, options.calls)
    if session is None or session.rank == 0:
        print(format_rows(rows))
    if session is not None:
        if options.out and session.rank == 0:
            meta = describe_run(session.world_size)
            path = options.out / f"{file_stem('host_cost', session.world_size, meta['gpu'])}.json"
            data = {"meta": meta, **summarize(rows), "rows": [asdict(row) for row in rows]}
            path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        session.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
