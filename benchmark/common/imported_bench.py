"""A case of benchmark/imported_plans.py on GPUs: programs and plain executions that are checked, then timed."""

from __future__ import annotations

import gc
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
import torch.distributed as dist
from benchmark.common.imported_cases import Case, Way
from benchmark.common.plain_plan import PlainPlan
from benchmark.common.plain_run import Copies, PlainRun, SendReceive, Streams

from syncopate.kernels import GemmConfig
from syncopate.runtime import LoadedProgram, ProcessGroup, load
from syncopate.runtime.session import Session
from syncopate.runtime.timing import Candidate

__all__ = ["ImportedBench"]

SETS: Final = 2
TOLERANCE: Final = 1e-2
"""A result that is off by more, relative to the reference, is wrong."""
HOLD_CYCLES: Final = 4_000_000
"""Plain executions have many launches, which the host has to be done with when a call begins."""
MOVERS: Final[dict[str, type[SendReceive] | type[Copies]]] = {
    "nccl": SendReceive,
    "copies": Copies,
}


@dataclass
class _Checked:
    """A way that was right."""

    candidate: Candidate
    error: float


class ImportedBench:
    """A case on this rank's GPU. All its methods are collective.

    Attributes:
        wrong: What gave wrong results, by name.
    """

    def __init__(self, session: Session, case: Case, config: GemmConfig) -> None:
        self.session, self.case, self.config = session, case, config
        self.group = ProcessGroup()
        self.wrong: list[str] = []
        m, n, k = case.shape
        self.rows = m // case.ranks
        generator = torch.Generator("cuda").manual_seed(1 + session.rank)

        def draw(*shape: int) -> torch.Tensor:
            return torch.randn(shape, device="cuda", generator=generator).bfloat16()

        self.inputs = [draw(self.rows if case.reads else m, k) for _ in range(SETS)]
        self.weight = draw(k, n) if case.transpose_b else draw(n, k)
        self.b = self.weight if case.transpose_b else self.weight.T
        self.factors = [self._whole(given) for given in self.inputs]
        self.references = [self._refer(factor) for factor in self.factors]
        self.c = torch.empty((m, n), dtype=torch.bfloat16, device="cuda")

    def measure(self, ways: Sequence[Way], rounds: int, calls: int) -> dict[str, Any]:
        """Checks everything in `calls` calls of each, and then times it, taking turns."""
        case, programs = self.case, list[LoadedProgram]()
        fused = [self._fuse(way, calls, programs) for way in ways]
        plans = {str(splits): case.read(splits) for splits in case.splits}
        plain = [
            self._run_plain(f"{mover}/{name}", plan, mover, calls)
            for name, plan in plans.items()
            for mover in MOVERS
        ]
        whole = case.read_sequence()
        sequential = [
            self._run_plain(f"{mover}/sequential", whole, mover, calls) for mover in MOVERS
        ]
        alone = Candidate("gemm", lambda i: torch.mm(self.factors[i], self.b, out=self.c))
        kept = {
            "sequential": [way for way in sequential if way],
            "plain": [way for way in plain if way],
            "fused": [way for way in fused if way],
        }
        again = [
            Candidate("again", way.candidate.call, way.candidate.prepare)
            for way in kept["plain"][:1]
        ]
        checked = [way for some in kept.values() for way in some]
        candidates = [alone, *(way.candidate for way in checked), *again]
        self.session.compare(candidates, rounds, SETS, HOLD_CYCLES)
        for program in programs:
            program.close()
        del programs
        gc.collect()
        found: dict[str, Any] = {
            what: {way.candidate.name: way.candidate.us for way in some}
            for what, some in kept.items()
        }
        spread = abs(kept["plain"][0].candidate.us / again[0].us - 1) if again else None
        errors = {way.candidate.name: way.error for way in checked}
        return {"gemm_us": alone.us, **found, "errors": errors, "spread": spread}

    def _whole(self, given: torch.Tensor) -> torch.Tensor:
        """A as the GEMM of this rank reads it."""
        if not self.case.reads:
            return given
        whole = given.new_empty((self.case.shape[0], given.shape[1]))
        dist.all_gather_into_tensor(whole, given)
        return whole

    def _refer(self, factor: torch.Tensor) -> torch.Tensor:
        """What this rank is to have in the end, in float32."""
        c = factor.float() @ self.b.float()
        if not self.case.reads:
            dist.all_reduce(c)
        return self._own(c).clone()

    def _own(self, c: torch.Tensor) -> torch.Tensor:
        if self.case.collective != "reduce_scatter":
            return c
        return c.narrow(0, self.session.rank * self.rows, self.rows)

    def _fuse(self, way: Way, calls: int, programs: list[LoadedProgram]) -> _Checked | None:
        names = []

        def make() -> LoadedProgram:
            program, given = self.case.compile(way, self.config)
            names.append(given)
            return load(program, self.group)

        program = self.session.attempt(f"{self.case.name} {way.name}", make)
        if program is None:
            return None
        programs.append(program)
        (given,) = names

        def call(i: int) -> torch.Tensor:
            out: torch.Tensor = program(**{given: self.inputs[i], "b": self.weight})
            return out

        return self._check(Candidate(way.name, call), calls)

    def _run_plain(self, name: str, plan: PlainPlan, mover: str, calls: int) -> _Checked | None:
        made = self.session.attempt(
            f"{self.case.name} {name}", lambda: MOVERS[mover](plan, torch.bfloat16)
        )
        if made is None:
            return None
        run = PlainRun(plan, self.session.rank, made, Streams(), _multiply)
        moved = made.buffers[plan.kernel.buffer]

        def prepare(i: int) -> None:
            if self.case.reads:
                moved.narrow(0, self.session.rank * self.rows, self.rows).copy_(self.inputs[i])

        def call(i: int) -> torch.Tensor:
            if self.case.reads:
                run(None, self.b, self.c)
                return self.c
            run(self.inputs[i], self.b, None)
            return self._own(moved)

        return self._check(Candidate(name, call, prepare), calls)

    def _check(self, candidate: Candidate, calls: int) -> _Checked | None:
        """The way with its largest relative error; None if it fails, or is wrong, on any rank."""

        def check() -> float:
            worst = 0.0
            for i in range(calls):
                if candidate.prepare is not None:
                    candidate.prepare(i % SETS)
                reference = self.references[i % SETS]
                out = candidate.call(i % SETS)
                error = float((out.float() - reference).norm() / reference.norm())
                worst = max(worst, math.inf if math.isnan(error) else error)
            torch.cuda.synchronize()
            return worst

        found = self.session.attempt(f"checking {self.case.name} {candidate.name}", check)
        worst = self.session.maximum([math.inf if found is None else found])[0]
        if worst >= TOLERANCE:
            self.wrong.append(f"{candidate.name}: relative error {worst:.2e}")
            return None
        return _Checked(candidate, worst)


def _multiply(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
    torch.mm(a, b, out=c)
