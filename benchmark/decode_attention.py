"""One query of each sequence, whose keys ranks share, against torch's flash attention with NCCL.

    torchrun --nproc-per-node 8 benchmark/decode_attention.py [--batches 1,4,16,64] [--out docs/results]

Each rank has an equal part of the 131,072 keys of every sequence, 8 heads of them, and all queries, of 32 heads of 128.
The baseline attends to a rank's own keys, gathers outputs and logarithms of all ranks, and weighs them. In tables M are
the sequences, N the width of their queries, and K the keys of one. Writes
`<out>/decode_attention-w<world>-<gpu>.json` and `.md`. Exits with 1 if a result is wrong.
"""

from __future__ import annotations

import argparse
import functools
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
sys.path.insert(0, str(Path(__file__).parent.parent))

import torch
import torch.distributed as dist
from benchmark.common import report
from benchmark.common.sequence_baselines import attend_by_flash
from benchmark.common.suite import Shape, run_suite

from syncopate import Strategy
from syncopate.choices import Realization
from syncopate.runtime import ProcessGroup
from syncopate.runtime.session import Session
from syncopate.runtime.timing import Candidate, measure_host_us
from syncopate.strategy_names import name_strategy
from syncopate.workloads import AttentionKind, AttentionWorkload
from syncopate.workloads.loaded_attention import LoadedAttention

SUITE: Final = "decode_attention"
SETS: Final = 2
TOLERANCE: Final = 1e-2
"""An output that is off by more, relative to the reference, is wrong."""
KEYS: Final = 131072
REALIZATIONS: Final = ("ldst_colocated", "ldst_dedicated", "tma_colocated", "copy_engine")


class DecodeData:
    """Random queries, and keys and values of one rank, in a few sets, and what comes of each in float32.

    Attributes:
        given: Of each set, queries, keys and values as our programs take them, and how many keys there are.
        references: Outputs in float32, like the queries.
    """

    def __init__(
        self, workload: AttentionWorkload, rank: int, sets: int, device: torch.device
    ) -> None:
        self.workload = workload
        self.given: list[tuple[torch.Tensor, ...]] = []
        self.references: list[torch.Tensor] = []
        lengths = torch.full((workload.batch,), workload.capacity, dtype=torch.int32, device=device)
        wide, narrow = workload.row
        for seed in range(sets):
            # All ranks have the same queries, and keys of their own.
            shared, own = (
                torch.Generator(device).manual_seed(number)
                for number in (seed, sets + seed * workload.world_size + rank)
            )
            q = torch.randn((workload.batch, wide), generator=shared, device=device).bfloat16()
            size = (workload.batch * workload.capacity, narrow)
            k, v = (torch.randn(size, generator=own, device=device).bfloat16() for _ in "kv")
            self.given.append((q, k, v, lengths))
            self.references.append(merge(*gather(*self._attend(seed))).flatten(1))

    def split(self, i: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """A set as torch's operators take it: the queries that share a head of keys are rows of one.

        Queries are [batch, kv_heads, heads / kv_heads, head_dim], keys and values [batch, kv_heads, keys, head_dim].
        """
        work, (q, k, v, _) = self.workload, self.given[i]
        keys, values = (
            each.view(work.batch, work.capacity, work.kv_heads, work.head_dim).transpose(1, 2)
            for each in (k, v)
        )
        return q.view(work.batch, work.kv_heads, -1, work.head_dim), keys, values

    def _attend(self, i: int) -> tuple[torch.Tensor, torch.Tensor]:
        """In float32, a sequence at a time."""
        outs, logs = [], []
        for q, k, v in zip(*self.split(i), strict=True):
            scores = q.float() @ k.float().transpose(1, 2) * q.shape[2] ** -0.5
            outs.append(scores.softmax(2) @ v.float())
            logs.append(scores.logsumexp(2))
        return torch.stack(outs), torch.stack(logs)

    def check(self, call: Callable[[int], torch.Tensor], calls: int) -> float:
        """The largest relative error over consecutive calls; NaN if any has one."""
        errors = []
        for number in range(calls):
            i = number % len(self.references)
            reference = self.references[i].flatten()
            errors.append((call(i).float().flatten() - reference).norm() / reference.norm())
        return float(torch.stack(errors).max())


def gather(out: torch.Tensor, lse: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs and logarithms of all ranks, one behind another, by one collective."""
    own = torch.cat([out.float(), lse[..., None]], dim=-1)
    everyone = torch.empty((dist.get_world_size(), *own.shape), device=own.device)
    dist.all_gather_into_tensor(everyone, own)
    return everyone[..., :-1], everyone[..., -1]


def merge(outs: torch.Tensor, logs: torch.Tensor) -> torch.Tensor:
    """Outputs of all ranks, [ranks, …, head_dim], weighed by their logarithms, [ranks, …]."""
    return (outs * (logs - logs.logsumexp(0)).exp()[..., None]).sum(0)


class Baseline:
    """Decoding as users write it today, on one rank."""

    def __init__(self, data: DecodeData) -> None:
        self.data = data
        self._parts = [attend_by_flash(*data.split(i)) for i in range(len(data.given))]

    def attend(self, i: int) -> torch.Tensor:
        """To a rank's own keys."""
        return attend_by_flash(*self.data.split(i))[0]

    def communicate(self, i: int) -> torch.Tensor:
        """The collective alone."""
        return gather(*self._parts[i])[0]

    def call(self, i: int) -> torch.Tensor:
        """All of it."""
        return merge(*gather(*attend_by_flash(*self.data.split(i)))).bfloat16()


def shape_of(workload: AttentionWorkload) -> Shape:
    """Sequences, the width of a query, and the keys of a sequence."""
    return workload.batch, workload.row[0], workload.sequence


def measure(
    session: Session,
    name: str,
    workload: AttentionWorkload,
    peak: float,
    options: argparse.Namespace,
) -> tuple[list[report.Row], bool]:
    """The rows of a workload, and whether all our results were right."""
    session.say(f"{name}: {workload.name}")
    data = DecodeData(workload, session.rank, SETS, session.device)
    base, group, good = Baseline(data), ProcessGroup(), True
    errors = dict[str, float]()
    programs: dict[str, tuple[LoadedAttention, Callable[[int], torch.Tensor]]] = {}
    for realization in options.realizations.split(","):
        strategy = Strategy(realization=Realization(realization))
        variant = name_strategy(strategy)
        program = session.attempt(
            f"{name} {variant}", functools.partial(workload.load, group, strategy, timeout=20.0)
        )
        if program is None:
            continue

        def call(i: int, program: LoadedAttention = program) -> torch.Tensor:
            out: torch.Tensor = program(*data.given[i])[0]
            return out

        error = session.attempt(
            f"checking {name} {variant}", functools.partial(data.check, call, options.calls)
        )
        worst = session.maximum([math.inf if error is None or error != error else error])[0]
        if worst >= TOLERANCE:
            session.say(f"WRONG {name} {variant}: relative error {worst:.2e}")
            good = False
            program.close()
            continue
        errors[variant], programs[variant] = worst, (program, call)
    if not session.agree(data.check(base.call, SETS) < TOLERANCE):
        session.say(f"WRONG {name}: the baseline")
        return [], False
    alone, comm = Candidate("flash", base.attend), Candidate("nccl", base.communicate)
    # Once more, which says how far two measurements of one thing are apart.
    timed, again = Candidate("flash_nccl", base.call), Candidate("again", base.call)
    candidates = [Candidate(variant, call) for variant, (_, call) in programs.items()]
    session.compare([alone, comm, timed, *candidates, again], options.rounds, SETS)
    given = dict(zip(("q", "k", "v", "lengths"), data.given[0], strict=True))
    hosts = [measure_host_us(program, 10, **given) for program, _ in programs.values()]
    hosts = session.maximum([0.0, *hosts])[1:]
    received = (
        (workload.world_size - 1) * workload.batch * workload.heads * (workload.head_dim + 1) * 4
    )
    rows = [
        report.Row(
            suite=SUITE, workload=name, world_size=session.world_size, dtype=workload.dtype,
            **dict(zip("MNK", shape_of(workload), strict=True)), variant=way.name,
            realization=way.name.split("/")[0], direction=way.name.split("/")[1], splits=0,
            default=way.name == name_strategy(workload.default_strategy()), us=way.us,
            gemm_us=alone.us, local_gemm_us=None, comm_us=comm.us, link_us=received / peak * 1e6,
            baselines={timed.name: timed.us}, rel_err=errors[way.name],
            calls_checked=options.calls, spread=abs(timed.us / again.us - 1), host_us=host_us,
        )
        for way, host_us in zip(candidates, hosts, strict=True)
    ]  # fmt: skip
    for program, _ in programs.values():
        program.close()
    return rows, good


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batches", default="1,4,16,64", help="sequences, comma-separated")
    parser.add_argument("--keys", type=int, default=KEYS, help="keys of a sequence, of all ranks")
    parser.add_argument(
        "--realizations", default=",".join(REALIZATIONS), help="comma-separated; all push"
    )
    parser.add_argument("--rounds", type=int, default=21, help="timed rounds")
    parser.add_argument("--calls", type=int, default=50, help="checked calls of each program")
    parser.add_argument("--commit", default="", help="the commit, where git cannot tell")
    parser.add_argument(
        "--out", type=Path, default=Path("docs/results"), help="folder of the files"
    )
    return parser.parse_args()


def main() -> int:
    """Measures and writes; returns the exit status."""
    options, session = parse(), Session()
    cases = {
        f"decode-b{batch}": AttentionWorkload(
            AttentionKind.DECODE, 32, 8, 128, options.keys, session.world_size, batch=int(batch)
        )
        for batch in options.batches.split(",")
    }
    shapes = {name: shape_of(workload) for name, workload in cases.items()}

    def run(name: str, shape: Shape, peak: float) -> tuple[list[report.Row], bool]:
        return measure(session, name, cases[name], peak, options)

    return run_suite(SUITE, session, shapes, options, run)


if __name__ == "__main__":
    sys.exit(main())
