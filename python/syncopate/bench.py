"""Times a GEMM workload on the GPUs here, beside the plain sequence of NCCL and cuBLAS."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from syncopate.errors import SyncopateError
from syncopate.outcome import ExitCode, Outcome
from syncopate.strategy_names import name_strategy
from syncopate.workloads import GemmWorkload
from syncopate.workloads.gemm import GemmKind
from syncopate.workloads.named import read_strategy

__all__ = ["count_gpus", "run_bench"]

TOLERANCE = 1e-2
CHECKED_CALLS = 5
_RESULT = "syncopate-bench: "


def count_gpus() -> int:
    """How many GPUs torch can use; 0 without torch."""
    try:
        import torch
    except ImportError:
        return 0
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def run_bench(workload: GemmWorkload, strategy: str, rounds: int) -> Outcome:
    """Starts a process for each rank and gathers what they have measured.

    Args:
        workload: What to run.
        strategy: Its name, or that of a realization; that of the workload if it is empty.
        rounds: Timed calls of each way.

    Raises:
        SyncopateError: There are too few GPUs, or a rank has failed.
    """
    ranks = workload.world_size
    if count_gpus() < ranks:
        raise SyncopateError(
            f"bench: expects {ranks} GPUs, but this machine has {count_gpus()}; `--machine h200-w2` predicts, and "
            "`syncopate doctor` says what is missing"
        )
    if workload.m % ranks:
        raise SyncopateError(
            f"shape: expects M to be a multiple of {ranks} ranks, as NCCL does, but got {workload.m}"
        )
    words = (str(workload.kind.value), *map(str, workload.shape), workload.dtype, strategy)  # type: ignore[union-attr]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={ranks}", "-m", "syncopate.bench", *words, str(rounds)]
    run = subprocess.run(
        command,
        check=False,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    found = [line for line in run.stdout.splitlines() if line.startswith(_RESULT)]
    if run.returncode or not found:
        raise SyncopateError(f"bench: a rank ended with {run.returncode}; its error stands above")
    data = json.loads(found[-1].removeprefix(_RESULT))
    lines = [f"{workload.name} on {data['gpu']}, medians of {rounds} calls, slowest rank"]
    lines += [f"  {name:<36} {us:8.1f} µs" for name, us in data["us"].items()]
    right = data["relative_error"] < TOLERANCE
    lines.append(
        f"  max relative error {data['relative_error']:.1e}: {'right' if right else 'WRONG'}"
    )
    return Outcome("\n".join(lines), data, ExitCode.DONE if right else ExitCode.WRONG)


def measure_rank(workload: GemmWorkload, strategy: str, rounds: int) -> None:
    """One rank, started by torchrun; rank 0 prints what all have found."""
    import torch

    from syncopate import Target
    from syncopate.runtime import ProcessGroup
    from syncopate.runtime.session import Session
    from syncopate.runtime.timing import Candidate
    from syncopate.workloads.reference import draw_factor, draw_input, draw_weight, multiply

    session = Session()
    rank, device = session.rank, session.device
    config = workload.choose_config(Target.current())
    chosen = read_strategy(workload, strategy, config)
    fused = workload.load(ProcessGroup(), chosen, config=config, target=Target.current())
    error = torch.zeros((), device=device)
    for seed in range(CHECKED_CALLS):
        expected = multiply(workload, rank, seed, device)
        given = fused(
            a=draw_input(workload, rank, seed, device), b=draw_weight(workload, rank, seed, device)
        )
        difference = (given.float() - expected).abs().max() / expected.abs().max()
        error = torch.maximum(error, difference)
    a, b = draw_input(workload, rank, 0, device), draw_weight(workload, rank, 0, device)
    factor, plain = draw_factor(workload, rank, 0, device), _plain(workload, a, b)
    ways = [
        Candidate("GEMM alone, by cuBLAS", lambda _: factor @ (b if workload.transpose_b else b.T)),
        Candidate("NCCL and cuBLAS, one after the other", lambda _: plain()),
        Candidate(f"fused, {name_strategy(chosen)}", lambda _: fused(a=a, b=b)),
    ]
    session.compare(ways, rounds)
    # A NaN would get lost in a maximum.
    (worst,) = session.maximum([float(error) if error == error else math.inf])
    data = {
        "workload": workload.name,
        "gpu": torch.cuda.get_device_name(device),
        "strategy": name_strategy(chosen),
        "us": {way.name: way.us for way in ways},
        "relative_error": worst,
    }
    session.say(_RESULT + json.dumps(data))
    session.close()


def _plain(workload: GemmWorkload, a: Any, b: Any) -> Callable[[], Any]:
    """The collective by NCCL before or after torch's product."""
    import torch
    import torch.distributed as dist

    ranks, kind = workload.world_size, GemmKind(workload.kind)
    factor = b if workload.transpose_b else b.T
    gathered = a.new_empty(workload.m, workload.k)
    part = a.new_empty(workload.m // ranks, workload.n)
    received = a.new_empty(workload.m, workload.n)

    def run() -> Any:
        if kind is GemmKind.AG_GEMM:
            dist.all_gather_into_tensor(gathered, a)
            return gathered @ factor
        if kind is GemmKind.A2A_GEMM:
            dist.all_to_all_single(gathered, a)
            return gathered @ factor
        product = torch.mm(a, factor)
        if kind is GemmKind.GEMM_RS:
            dist.reduce_scatter_tensor(part, product)
            return part
        if kind is GemmKind.GEMM_AR:
            dist.all_reduce(product)
            return product
        assert kind is GemmKind.GEMM_A2A
        dist.all_to_all_single(received, product)
        return received

    return run


if __name__ == "__main__":
    kind_, m_, n_, k_, dtype_, strategy_, rounds_ = sys.argv[1:]
    size_ = int(os.environ["WORLD_SIZE"])
    workload_ = GemmWorkload(kind_, int(m_), int(n_), int(k_), size_, dtype_)
    measure_rank(workload_, strategy_, int(rounds_))
