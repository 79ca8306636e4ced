"""Measures a machine with programs of the project, and writes what the model needs of it. Takes about two minutes.

    python -m torch.distributed.run --nproc-per-node 2 -m syncopate.model.measure --out machine.json

Every rank makes the same measurements, each of a few calls that the ranks start together; the time of a call is that
of the slowest rank. What is not measured is taken from another machine (`--base`): reductions, and transfers
within a rank. So is what is left when the budget is spent, and the output says what that is.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from syncopate.abi import LibraryCall, Realization
from syncopate.model import probes
from syncopate.model.calibration import make_curve, match, merge_curves, with_latency
from syncopate.model.curve import Combining, FlowDirection, TransferCurve
from syncopate.model.fabric_file import find_fabric
from syncopate.model.gemm import KernelCost, gemm_cost
from syncopate.model.machine import CollectiveCurve, Machine, Provenance
from syncopate.model.machine_file import machine_path, open_machine, save_machine
from syncopate.model.measure_gemm import measure_gemms
from syncopate.model.simulation import predict
from syncopate.model.topology import Topology, TopologyKind

if TYPE_CHECKING:
    from syncopate.model.ranks import Ranks

__all__ = ["main"]

REALIZATIONS: Final = tuple(Realization)
SIZES: Final = (1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26)
"""Bytes of the transfers that are measured."""

CALL_CTAS: Final = (4, 8, 16, 0)
"""Multiprocessors of the library calls that are measured; 0 is any number."""

SHAPE: Final = (8192, 3584, 8192)
"""M, N and K of the GEMMs whose transfers are to slow tiles down."""

LIMIT: Final = 20.0
"""Limit of a device wait, in seconds."""


def measure_machine(
    ranks: Ranks,
    base: Machine,
    realizations: Sequence[Realization] = REALIZATIONS,
    sizes: Sequence[int] = SIZES,
) -> Machine:
    """The machine at hand, on top of another one for what is not measured.

    Args:
        ranks: What measures.
        base: Where the rest is from.
        realizations: Whose transfers are measured.
        sizes: Bytes of these transfers, two or more.
    """
    name = f"{ranks.gpu}, {ranks.world_size} ranks"
    machine = dataclasses.replace(base, name=name, source=Provenance.MEASURED, sms=ranks.sms)
    machine = measure_gemms(ranks, machine)
    machine = _measure_transfers(ranks, machine, realizations, sizes)
    machine = _measure_collectives(ranks, machine, sizes)
    return _measure_interference(ranks, machine, realizations)


def _measure_collectives(ranks: Ranks, machine: Machine, sizes: Sequence[int]) -> Machine:
    """NCCL alone, as library calls have it."""
    found = []
    for kind in LibraryCall:
        name = kind.name.lower()
        for ctas in CALL_CTAS:
            times: dict[int, float] = {}
            for nbytes in sizes:
                what = f"{name} on {ctas or 'any'} CTAs of {nbytes} bytes"
                call = functools.partial(ranks.time_collective, kind, nbytes, ctas)
                us = ranks.attempt(what, call)
                if us is not None:
                    times[nbytes] = us
            if len(times) < 2:
                continue
            curve = make_curve(times, 0.0)
            found.append(CollectiveCurve(name, ranks.world_size, curve, ctas))
            ranks.say(
                f"{name:15} {ctas or 'any':>4} CTAs: {curve.rate(sizes[-1]) / 1e3:.0f} GB/s, "
                f"{curve.latency_us:.1f} µs"
            )
    measured = {entry.collective for entry in found}
    kept = (entry for entry in machine.collectives if entry.collective not in measured)
    return dataclasses.replace(machine, collectives=(*found, *kept))


def _measure_transfers(
    ranks: Ranks, machine: Machine, realizations: Sequence[Realization], sizes: Sequence[int]
) -> Machine:
    build = functools.partial(probes.build_idle, ranks.world_size, machine.sms, LIMIT)
    found = ranks.measure_program("an idle call", build)
    if found is None:
        return machine
    _, idle = found
    machine = with_latency(machine, call=max(idle - machine.latencies.launch, 0.0))
    latencies, curves, best = machine.latencies, [], 0.0
    for realization in realizations:
        fixed = idle + latencies.flag_remote
        ctas: tuple[int, ...] = (4, 8, 16) if realization.is_dedicated else (8, 32, machine.sms)
        if realization.is_on_stream:
            ctas = (0,)
            fixed += latencies.engine_start - latencies.launch / 2 + 2 * latencies.engine_op
        both = (FlowDirection.PUSH, FlowDirection.PULL)
        # Who receives tells all others of what two ranks carry out together.
        for direction in both if realization is not Realization.NCCL else (FlowDirection.PULL,):
            for count in ctas:
                times = {}
                for nbytes in sizes:
                    probe = probes.TransferProbe(realization, direction, nbytes, count)
                    build = functools.partial(probes.build_transfer, probe, ranks.world_size, LIMIT)
                    what = f"{realization.spelling} {direction.value} by {count} CTAs of {nbytes} bytes"
                    found = ranks.measure_program(what, build)
                    if found is not None:
                        times[nbytes] = idle + (found[1] - idle) / (ranks.world_size - 1)
                if len(times) < 2:
                    continue
                curve = make_curve(times, fixed)
                best = max(best, curve.rate(sizes[-1]) / 1e3)
                curves.append(TransferCurve(realization, direction, Combining.COPY, count, curve))
                ranks.say(
                    f"{realization.spelling:15} {direction.value} {count:4} CTAs: "
                    f"{curve.rate(sizes[-1]) / 1e3:.0f} GB/s, {curve.latency_us:.1f} µs"
                )
    topology = machine.topology
    if best:
        topology = topology.at_rate(best)
        if ranks.world_size > 2 and (
            isinstance(topology, Topology) and topology.kind is TopologyKind.ALL_TO_ALL
        ):
            topology = Topology(TopologyKind.SWITCH, best)
    return dataclasses.replace(
        machine, topology=topology, curves=merge_curves(curves, machine.curves)
    )


def _measure_interference(
    ranks: Ranks, machine: Machine, realizations: Sequence[Realization]
) -> Machine:
    """What transfers cost tiles, and what tiles take more that others wait for: one program for each number."""
    from syncopate.kernels import GemmConfig

    config = GemmConfig()
    m, n, k = SHAPE
    cost = gemm_cost(
        machine, k, block_m=config.block_m, block_n=config.block_n, block_k=config.block_k
    )
    a, b = ranks.random(m, k), ranks.random(n, k)
    shard = a[: m // ranks.world_size]
    for realization in realizations:
        build = functools.partial(
            probes.build_gather_gemm, SHAPE, config, realization, ranks.world_size, LIMIT
        )
        found = ranks.measure_program(f"{realization.spelling} beside a GEMM", build, a=shard, b=b)
        if found is None:
            continue
        program, us = found
        share = match(us, 0.0, 1.0, functools.partial(_slowed, machine, program, cost, realization))
        machine = _with_interference(machine, realization, share)
        ranks.say(f"{realization.spelling:15} beside a GEMM: {us:.0f} µs, {share:.1%} slower tiles")

    role = Realization.LDST_COLOCATED
    build = functools.partial(probes.build_sum_gemm, SHAPE, config, role, ranks.world_size, LIMIT)
    found = ranks.measure_program("a sum behind a GEMM", build, a=a, b=b)
    if found is not None:
        program, us = found
        latency = match(us, 0.0, 20.0, functools.partial(_produced, machine, program, cost))
        machine = with_latency(machine, produce=latency, hand_over=latency)
    role = Realization.NCCL
    build = functools.partial(probes.build_sum_gemm, SHAPE, config, role, ranks.world_size, LIMIT)
    found = ranks.measure_program("library calls beside a GEMM", build, a=a, b=b)
    if found is not None:
        program, us = found
        share = match(us, 0.0, 1.0, functools.partial(_slowed, machine, program, cost, role))
        machine = _with_interference(machine, role, share)
        ranks.say(f"{role.spelling:15} beside a GEMM: {us:.0f} µs, {share:.1%} slower tiles")
    return machine


def _with_interference(machine: Machine, realization: Realization, share: float) -> Machine:
    return dataclasses.replace(machine, interference={**machine.interference, realization: share})


def _slowed(
    machine: Machine, program: Any, cost: KernelCost, realization: Realization, share: float
) -> float:
    return predict(program, cost, _with_interference(machine, realization, share)).us


def _produced(machine: Machine, program: Any, cost: KernelCost, latency: float) -> float:
    return predict(program, cost, with_latency(machine, produce=latency, hand_over=latency)).us


def main() -> int:
    """Measures, and writes on rank 0."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out", type=Path, help="file; by default the one that the model looks for"
    )
    parser.add_argument("--base", default="h200-w2", help="a preset or a file")
    parser.add_argument(
        "--fabric",
        help="links of the machine, as `syncopate fabric` takes them, such as detect; rates are then scaled by what is "
        "measured (default: the shape of the base)",
    )
    parser.add_argument("--budget", type=float, default=110.0, help="seconds for measurements")
    options = parser.parse_args()
    base = open_machine(options.base)
    from syncopate.model.ranks import Ranks

    ranks = Ranks(options.budget)
    if options.fabric is not None:
        links = find_fabric(options.fabric, ranks.world_size)
        base = dataclasses.replace(base, topology=links)
    begin = time.monotonic()
    machine = measure_machine(ranks, base)
    path = options.out or machine_path(ranks.gpu, ranks.world_size)
    if ranks.rank == 0:
        save_machine(machine, path)
    ranks.say(f"{machine.name}: {time.monotonic() - begin:.0f} s, written to {path}")
    ranks.say(f"taken from {base.name}: reductions, transfers within a rank")
    if ranks.left_out:
        ranks.say(
            "also taken from there, since it failed or time was over: " + ", ".join(ranks.left_out)
        )
    ranks.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
