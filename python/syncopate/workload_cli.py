"""The commands on GEMM workloads: `syncopate compile`, `simulate`, `tune` and `bench`."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syncopate.choices import names_of
from syncopate.cli_arguments import number
from syncopate.errors import SyncopateError, require_torch
from syncopate.outcome import ExitCode, Outcome, add_json, show_step
from syncopate.workloads.gemm import GEMM_DTYPES, GemmKind
from syncopate.workloads.named import read_strategy

if TYPE_CHECKING:
    from syncopate.workloads import GemmWorkload

__all__ = ["add_workload_commands"]

_MOST = 10**6
_MOST_SIMULATED = 1 << 30


def add_workload_commands(commands: Any) -> None:
    """Adds the commands to an argument parser's commands."""
    compiler = _add(
        commands,
        "compile",
        _compile,
        "compile a GEMM with what moves before or after it, and save every stage",
        "Compiles a GEMM workload without a GPU and saves every stage, from the plan to machine code.",
    )
    _add_strategy(compiler)
    compiler.add_argument("--target", default="sm_90", help="what for (default: %(default)s)")
    compiler.add_argument(
        "--out",
        type=Path,
        default=Path("syncopate-program"),
        metavar="FOLDER",
        help="where to save the stages (default: %(default)s)",
    )
    simulator = _add(
        commands,
        "simulate",
        _simulate,
        "simulate the fused kernel of all ranks of such a GEMM on the CPU",
        "Compiles a small GEMM workload, executes its fused kernel for all ranks in several interleavings, and "
        "compares the results with numpy.",
    )
    _add_strategy(simulator)
    simulator.add_argument(
        "--seeds",
        type=number(_MOST),
        default=3,
        metavar="N",
        help="interleavings (default: %(default)s)",
    )
    tuner = _add(
        commands,
        "tune",
        _tune,
        "choose a strategy for such a GEMM, by the cost model or by measurement",
        "Chooses a strategy, as strategy='auto' does, and keeps it in the cache (docs/tuning.md). With --measure it is "
        "started by torchrun, one process for each GPU.",
    )
    tuner.add_argument(
        "--machine",
        help="preset or file of a machine for the model (default: what is known of this GPU)",
    )
    tuner.add_argument("--measure", action="store_true", help="measure, on the GPUs of torchrun")
    tuner.add_argument("--no-keep", action="store_true", help="leave the cache alone")
    bench = _add(
        commands,
        "bench",
        _bench,
        "time such a GEMM on the GPUs here beside NCCL and cuBLAS, or predict it",
        "Runs a GEMM workload on as many GPUs as it has ranks, checks results against torch in float32, and gives "
        "medians beside those of NCCL and cuBLAS, one after the other. With --machine, nothing runs: times are "
        "predicted.",
    )
    _add_strategy(bench)
    bench.add_argument("--machine", help="predict for this preset or file, and run nothing")
    bench.add_argument(
        "--rounds",
        type=number(_MOST),
        default=50,
        metavar="N",
        help="timed calls (default: %(default)s)",
    )


def _add(commands: Any, name: str, run: Any, text: str, more: str) -> Any:
    command = commands.add_parser(name, help=text, description=more)
    command.add_argument(
        "workload", choices=names_of(GemmKind), help="what moves before or after the GEMM"
    )
    command.add_argument("shape", type=_shape, metavar="MxNxK", help="of one rank's GEMM")
    command.add_argument(
        "--ranks",
        type=number(_MOST),
        default=2,
        metavar="N",
        help="how many (default: %(default)s)",
    )
    command.add_argument(
        "--dtype",
        default="bf16",
        choices=GEMM_DTYPES,
        metavar="TYPE",
        help="element type as MLIR spells it (default: %(default)s)",
    )
    add_json(command)
    command.set_defaults(run=run)
    return command


def _add_strategy(command: Any) -> None:
    command.add_argument(
        "--strategy",
        default="",
        metavar="NAME",
        help="a realization, or a name as reports give it, such as 'ldst_colocated/push/by size' or "
        "'copy_engine/pull/4' (default: the workload's own)",
    )


def _shape(word: str) -> tuple[int, int, int]:
    if not re.fullmatch(r"[1-9]\d{0,8}(x[1-9]\d{0,8}){2}", word):
        raise argparse.ArgumentTypeError(
            f"expects M, N and K with x between them, such as 8192x3584x8192, but got {word!r}"
        )
    m, n, k = map(int, word.split("x"))
    return m, n, k


def _workload(arguments: argparse.Namespace) -> GemmWorkload:
    from syncopate.workloads import GemmWorkload

    m, n, k = arguments.shape
    return GemmWorkload(arguments.workload, m, n, k, arguments.ranks, arguments.dtype)


def _compile(arguments: argparse.Namespace) -> Outcome:
    from syncopate.demo import save_stages

    workload = _workload(arguments)
    config = workload.choose_config(arguments.target)
    strategy = read_strategy(workload, arguments.strategy, config)
    program = workload.compile(strategy, config=config, target=arguments.target)
    try:
        stages = save_stages(program, arguments.out)
    except (OSError, ValueError) as error:
        raise SyncopateError(f"--out: cannot write {str(arguments.out)!r}: {error}") from None
    size = len(program.image.cubin)
    lines = [f"{workload.name} for {program.target}: a cubin of {size} bytes"]
    lines += [f"  {arguments.out / name!s:<34} {what}" for name, what in stages.items()]
    data = {
        "workload": workload.name,
        "target": str(program.target),
        "cubin_bytes": size,
        "files": {name: str(arguments.out / name) for name in stages},
    }
    return Outcome("\n".join(lines), data)


def _simulate(arguments: argparse.Namespace) -> Outcome:
    import numpy as np

    from syncopate.kernels import GemmConfig
    from syncopate.workloads.expected import expect

    workload = _workload(arguments)
    m, n, k = workload.shape
    work = m * n * k * workload.world_size
    if work > _MOST_SIMULATED:
        raise SyncopateError(
            f"shape: expects M x N x K of all ranks to be at most 2^30 to be simulated, but got {work}; take a smaller "
            "one, such as 512x256x256"
        )
    config = GemmConfig(block_m=64, block_n=64, block_k=64, num_warps=4, num_ctas=8)
    strategy = read_strategy(workload, arguments.strategy, config)
    program = workload.compile(strategy, config=config, machine_code=False)
    worst, findings = 0.0, []
    for seed in range(arguments.seeds):
        show_step(seed, arguments.seeds, "interleavings")
        result = program.simulate(calls=2, seed=seed)
        findings = [str(finding) for finding in result.verdict.findings]
        if findings:
            break
        for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
            (given,) = outputs.values()
            for one, right in zip(given, expect(workload, inputs["a"], inputs["b"]), strict=True):
                scale = max(np.abs(right).max(), 1e-30)
                worst = max(worst, float(np.abs(one.astype(np.float64) - right).max() / scale))
    show_step(arguments.seeds, arguments.seeds, "")
    allowed = _tolerance(arguments.dtype)
    if not findings and worst > allowed:
        findings = [f"wrong results: a relative error of {worst:.1e}, where {allowed:.1e} is fine"]
    data = {"workload": workload.name, "findings": findings, "relative_error": worst}
    if findings:
        return Outcome("\n".join(findings), data, ExitCode.WRONG)
    seeds = arguments.seeds
    text = f"{workload.name}: {seeds} interleaving{'s' if seeds > 1 else ''} of 2 calls: sound; "
    return Outcome(f"{text}relative error {worst:.1e} against numpy in float64", data)


def _tolerance(dtype: str) -> float:
    """Of sums that are rounded at most twice; float32 is multiplied in TF32."""
    return {"f16": 2.0**-9, "bf16": 2.0**-6, "f32": 2.0**-9}.get(dtype, 2.0**-2)


def _tune(arguments: argparse.Namespace) -> Outcome:
    from syncopate import Target
    from syncopate.tune import Auto, GemmSubject, choose

    workload = _workload(arguments)
    under_torchrun = "LOCAL_RANK" in os.environ
    if arguments.measure and not under_torchrun:
        raise SyncopateError(
            "--measure: expects a process for each GPU; start it with `torchrun --nproc-per-node "
            f"{arguments.ranks} -m syncopate.cli tune …`"
        )
    session, target = None, Target.parse("sm_90")
    if under_torchrun:
        require_torch("a process of torchrun")
        from syncopate.runtime.session import Session

        session, target = Session(), Target.current()
    auto = Auto(measure=arguments.measure, machine=arguments.machine, keep=not arguments.no_keep)
    report = choose(GemmSubject(workload, target), auto)
    if session is not None:
        session.close()
        if session.rank:
            return Outcome("")
    if report.considered and report.considered == sum(report.refused.values()):
        reasons = "; ".join(report.refused)
        raise SyncopateError(
            f"{workload.name}: the compiler refuses all that was considered: {reasons}"
        )
    data = {
        "subject": report.subject,
        "chosen": report.chosen.name,
        "default": report.default.name,
        "origin": report.origin.value,
        **report.to_json(),
    }
    return Outcome(str(report), data)


def _bench(arguments: argparse.Namespace) -> Outcome:
    workload = _workload(arguments)
    if arguments.machine is not None:
        return _predict(workload, arguments.strategy, arguments.machine)
    from syncopate.bench import run_bench

    return run_bench(workload, arguments.strategy, arguments.rounds)


def _predict(workload: GemmWorkload, strategy_name: str, machine_name: str) -> Outcome:
    from syncopate.model import find_lower_bound
    from syncopate.strategy_names import name_strategy
    from syncopate.tune.machines import find_model

    machine, _ = find_model(machine_name, None, workload.world_size)
    assert machine is not None
    config = workload.choose_config()
    strategy = read_strategy(workload, strategy_name, config)
    timeline = workload.predict(strategy, config, machine)
    bound = find_lower_bound(
        workload.schedule(strategy, config), workload.cost(config, machine), machine
    )
    title = f"{workload.name} by {name_strategy(strategy)}, after what is known of {machine.name}"
    data = {
        "workload": workload.name,
        "ranks": workload.world_size,
        "strategy": name_strategy(strategy),
        "machine": machine.name,
        "predicted_us": timeline.us,
        "bound_us": bound.us,
    }
    return Outcome(
        f"{title}: {timeline.us:.1f} µs predicted, not measured; bound {bound.us:.1f} µs", data
    )
