"""What a GEMM with communication does when: a page, a trace and words of one call, and what recording it costs.

On GPUs, `torchrun --nproc-per-node 2 examples/profile_gemm.py` profiles a call and puts the cost model's prediction
beside it. Anywhere, `python examples/profile_gemm.py` does so with a smaller one in the simulator.
"""

import argparse
import os
import statistics
from pathlib import Path

from syncopate import GemmWorkload, Strategy
from syncopate.errors import SyncopateError
from syncopate.kernels import GemmConfig
from syncopate.model import Timeline
from syncopate.profile import Profile

SMALL = GemmConfig(block_m=64, block_n=64, block_k=32, num_warps=4, num_ctas=2)


def run(arguments: argparse.Namespace) -> None:
    """One rank, started by torchrun."""
    import torch
    import torch.distributed as dist

    from syncopate.model import find_machine, find_preset
    from syncopate.runtime import ProcessGroup

    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    group, (m, n, k) = ProcessGroup(), arguments.shape
    workload = GemmWorkload(arguments.kind, m, n, k, world_size=group.world_size)
    strategy = Strategy(realization=arguments.realization, splits=arguments.splits)
    config = GemmConfig()
    rows = m // group.world_size if arguments.kind == "ag_gemm" else m
    a = torch.randn(rows, k, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(n, k, device="cuda", dtype=torch.bfloat16)

    # Two programs of the same plan take turns, so that clocks and heat hit both alike.
    loaded = [
        workload.compile(strategy, config=config, profile=profile).load(group)
        for profile in (False, True)
    ]
    times: list[list[float]] = [[], []]
    for call in range(60):
        for program, found in zip(loaded, times, strict=True):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            dist.barrier()
            begin.record()
            program(a=a, b=b)
            end.record()
            end.synchronize()
            if call >= 10:
                found.append(1e3 * begin.elapsed_time(end))
    profile = loaded[1].profile(a=a, b=b)
    try:
        machine = find_machine(torch.cuda.get_device_name(), group.world_size)
    except SyncopateError:
        machine = find_preset("h200-w2")
    if group.rank == 0:
        plain, recorded = map(statistics.median, times)
        print(f"median of 50 calls: {plain:.1f} µs, {recorded:.1f} µs with records")
        write(arguments.out, profile, workload.predict(strategy, config, machine))
    dist.destroy_process_group()


def simulate(arguments: argparse.Namespace) -> None:
    """No GPU: two ranks in the simulator, whose steps say in which order things happen."""
    workload = GemmWorkload(arguments.kind, 256, 128, 128, world_size=2)
    strategy = Strategy(realization=arguments.realization, splits=arguments.splits)
    result = workload.compile(strategy, config=SMALL, profile=True, machine_code=False).simulate(
        calls=2
    )
    print(f"simulated: {result.verdict}")
    assert result.profile is not None
    write(arguments.out, result.profile, None)


def write(folder: Path, profile: Profile, predicted: Timeline | None) -> None:
    """Writes the page, the trace and the runs, and prints the words."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "timeline.html").write_text(profile.to_html(predicted), encoding="utf-8")
    (folder / "trace.json").write_text(profile.to_chrome_trace(predicted), encoding="utf-8")
    profile.save(folder / "runs.json", predicted)
    print(profile.explain(predicted))
    print(f"\n{folder / 'timeline.html'}: open it in a browser")


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--kind",
        default="ag_gemm",
        choices=["ag_gemm", "gemm_rs", "gemm_ar"],
        help="what is computed and moved (default: %(default)s)",
    )
    parser.add_argument(
        "--shape",
        type=int,
        nargs=3,
        default=(8192, 3584, 8192),
        metavar=("M", "N", "K"),
        help="under torchrun (default: 8192 3584 8192); without GPUs it is 256 128 128",
    )
    parser.add_argument("--realization", default="ldst_colocated", help="(default: %(default)s)")
    parser.add_argument("--splits", type=int, default=2, help="(default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("profile"), help="folder to write")
    arguments = parser.parse_args()
    if "LOCAL_RANK" in os.environ:
        run(arguments)
    else:
        simulate(arguments)


if __name__ == "__main__":
    main()
