"""Times a GEMM workload on the GPUs here, beside the plain sequence of NCCL and cuBLAS."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from syncopate.demo import count_gpus, interleaved_medians
from syncopate.errors import SyncopateError
from syncopate.outcome import ExitCode, Outcome
from syncopate.strategy_names import name_strategy
from syncopate.workloads import GemmWorkload
from syncopate.workloads.gemm import GemmKind
from syncopate.workloads.named import read_strategy

__all__ = ["run_bench"]

TOLERANCE = 1e-2
CHECKED_CALLS = 5
_RESULT = "syncopate-bench: "


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
    import torch.distributed as dist

    from syncopate import Target
    from syncopate.runtime import ProcessGroup
    from syncopate.workloads.reference import draw_input, draw_weight, multiply

    local = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    rank = dist.get_rank()
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
    ways = {
        "NCCL and cuBLAS, one after the other": _plain(workload, a, b),
        f"fused, {name_strategy(chosen)}": lambda: fused(a=a, b=b),
    }
    times = interleaved_medians(list(ways.values()), rounds)
    results = torch.tensor([*times, float(error)], device=device)
    dist.all_reduce(results, dist.ReduceOp.MAX)
    *medians, worst = results.tolist()
    if rank == 0:
        data = {
            "workload": workload.name,
            "gpu": torch.cuda.get_device_name(),
            "strategy": name_strategy(chosen),
            "us": dict(zip(ways, medians, strict=True)),
            "relative_error": worst,
        }
        print(_RESULT + json.dumps(data), flush=True)
    dist.destroy_process_group()


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
