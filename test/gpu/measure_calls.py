"""What library calls cost: a program as called, and the same calls in a CUDA graph.

    torchrun --nproc-per-node 2 test/gpu/measure_calls.py [--kind all_reduce] [--shape 8192x8192x4096] [--waves 1+2]

Prints, for whole rows and for tiles, the host's time for a call, the GPU's as called and in a graph, and those of
cuBLAS and of NCCL behind it, each the median over rounds of the slowest rank. Results are checked before.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python"), str(HERE.parents[1])]


def main() -> None:
    """Measures, and prints on rank 0."""
    # Importing these may start CUDA, which reads the environment set above.
    import torch
    import torch.distributed as dist
    from library_calls import KINDS, build, relative_error

    from syncopate.runtime import ProcessGroup, load
    from syncopate.runtime.session import Session
    from syncopate.runtime.timing import Candidate, measure_host_us

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kind", choices=KINDS, default="all_reduce")
    parser.add_argument("--shape", default="8192x8192x4096", help="M, N and K of each rank")
    parser.add_argument("--waves", default="", help="as 1+2+4; by default at most eight calls")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()

    session, group = Session(), ProcessGroup()
    m, n, k = map(int, options.shape.split("x"))
    waves = tuple(map(int, filter(None, options.waves.split("+"))))
    candidates, programs, hosts = [], [], {}
    for slots in ("rows", "tiles"):
        ctas = group.sms_per_rank(0) - 8
        work = build(
            options.kind, group.world_size, (m, n, k), ctas, waves=waves, slots=slots, block_n=256
        )
        loaded = load(work.program, group)
        programs.append(loaded)
        all_a, all_b = work.inputs(1)
        a, b = all_a[group.rank], all_b[group.rank]
        out = loaded(a=a, b=b)
        loaded.synchronize()
        error = float(relative_error(out, work.expected(all_a, all_b, group.rank)))
        session.say(f"{slots}: relative error {error:.1e}")
        hosts[slots] = measure_host_us(loaded, 20, a=a, b=b)
        group.barrier()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            captured = loaded(a=a, b=b)
        candidates.append(Candidate(slots, lambda i, p=loaded, a=a, b=b: p(a=a, b=b)))
        candidates.append(
            Candidate(f"{slots} in a graph", lambda i, g=graph, c=captured: (g.replay(), c)[1])
        )
    product = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    part = torch.empty(-(-m // group.world_size), n, device="cuda", dtype=torch.bfloat16)

    def behind(i: int) -> torch.Tensor:
        torch.matmul(a, b.T, out=product)
        if options.kind == "all_reduce":
            dist.all_reduce(product)
        elif options.kind == "reduce_scatter":
            dist.reduce_scatter_tensor(part, product)
        else:
            dist.all_to_all_single(torch.empty_like(product), product)
        return product

    candidates.append(Candidate("cuBLAS", lambda i: torch.matmul(a, b.T, out=product)))
    candidates.append(Candidate("cuBLAS, then NCCL", behind))
    session.compare(candidates, options.rounds, 1)
    for candidate in candidates:
        host = f", host {hosts[candidate.name]:.0f} us" if candidate.name in hosts else ""
        session.say(f"{candidate.name:20} {candidate.us:8.1f} us{host}")
    del graph, candidates
    for loaded in programs:
        loaded.close()
    session.close()


if __name__ == "__main__":
    main()
