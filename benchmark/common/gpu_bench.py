"""A workload on GPUs: programs that are checked and timed, beside what people use today."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from benchmark.common.baselines import Baselines
from benchmark.common.bench import Alone, Bench, Measured, ascending_curve, never
from benchmark.common.compilers import Compilers, compile_trial
from benchmark.common.data import SETS, TOLERANCE, make_data

from syncopate import GemmWorkload, tune
from syncopate.model import Curve
from syncopate.runtime import ProcessGroup
from syncopate.runtime.session import Session
from syncopate.runtime.timing import Candidate, measure_host_us
from syncopate.workloads import GemmKind
from syncopate.workloads.loaded import LoadedGemm

__all__ = ["GpuBench", "LoadedTrial", "Ranks"]

HOLD_CYCLES = 2_000_000
"""About a millisecond: a call that makes many library calls takes the host longer than others to enqueue."""


@dataclass
class LoadedTrial:
    """A trial that was loaded and checked.

    Attributes:
        trial: The trial.
        program: Its program.
        error: Largest relative error of the checked calls, over the ranks.
        candidate: What makes its calls.
    """

    trial: tune.Candidate
    program: LoadedGemm
    error: float
    candidate: Candidate


class Ranks:
    """The ranks of a run, and their communicators, which take long to make.

    Attributes:
        session: The ranks.
        group: The same for programs.
    """

    def __init__(self, session: Session) -> None:
        self.session, self.group = session, ProcessGroup()
        self._compilers = Compilers()
        self._limited: dict[int, dist.ProcessGroup] = {}

    def limited(self, ctas: int) -> dist.ProcessGroup | None:
        """A group of torch's whose collectives have so many CTAs at most, as those of library calls have; 0 for any."""
        if not ctas:
            return None
        if ctas not in self._limited:
            options = dist.ProcessGroupNCCL.Options()
            options.config.max_ctas, options.config.cga_cluster_size = ctas, 0
            self._limited[ctas] = dist.new_group(backend="nccl", pg_options=options)
        return self._limited[ctas]

    def compile(self, workload: GemmWorkload, trials: Sequence[tune.Candidate]) -> None:
        """Has the programs compiled into the cache on disk, by rank 0's processes; all ranks wait for them."""
        if self.session.rank == 0:
            self._compilers.compile(workload, trials)
        self.session.agree(True)

    def close(self) -> None:
        """Leaves all groups."""
        self._compilers.close()
        self.session.close()


class GpuBench(Bench):
    """A workload on this rank's GPU. All its methods are collective."""

    def __init__(self, ranks: Ranks, workload: GemmWorkload) -> None:
        super().__init__(workload)
        self.session, self.group, self._ranks = ranks.session, ranks.group, ranks
        self.data = make_data(workload, self.session)
        self.baselines = Baselines(workload, self.data, self.session)
        self._program: LoadedGemm | None = None

    @property
    def sms(self) -> int:
        """Those of this GPU."""
        return int(torch.cuda.get_device_properties().multi_processor_count)

    def survey(
        self, trials: Sequence[tune.Candidate], calls: int, over: Callable[[], bool] = never
    ) -> dict[tune.Candidate, Measured]:
        """One call of each with each set of inputs is checked before."""
        self._ranks.compile(self.workload, trials)
        found = {}
        for trial in trials:
            if over():
                break
            program = self._place(trial)
            if program is None:
                continue
            candidate = self._candidate(trial, program)
            error = self._check(trial, program, SETS)
            if error is not None:
                self.session.compare([candidate], calls, SETS, HOLD_CYCLES)
                found[trial] = Measured(candidate.us, error)
        return found

    def compare(
        self, trials: Sequence[tune.Candidate], rounds: int, calls: int
    ) -> tuple[Alone, dict[tune.Candidate, Measured]]:
        """All have programs of their own."""
        loaded = self.load(trials, calls)
        base = self.baselines
        gemms, comm = base.gemms(), base.communication()
        sequence, again = base.sequence(), base.sequence("cublas_nccl again")
        splits = base.split_streams()
        async_tp = self.session.attempt("async_tp", base.async_tp)
        candidates = [*gemms, comm, sequence, *splits, *([async_tp] if async_tp else [])]
        candidates += [one.candidate for one in loaded] + [again]
        self.session.compare(candidates, rounds, SETS, HOLD_CYCLES)
        hosts = self.session.maximum([0.0, *(self._host_us(one) for one in loaded)])[1:]
        alone = Alone(
            gemm_us=min(one.us for one in gemms),
            local_gemm_us=gemms[-1].us,
            comm_us=comm.us,
            cublas_nccl_us=min(sequence.us, again.us),
            split_streams_us=min((one.us for one in splits), default=None),
            async_tp_us=async_tp.us if async_tp else None,
            spread=abs(sequence.us / again.us - 1),
        )
        found = {
            one.trial: Measured(one.candidate.us, one.error, host_us)
            for one, host_us in zip(loaded, hosts, strict=True)
        }
        for one in loaded:
            one.program.close()
        return alone, found

    def load(self, trials: Sequence[tune.Candidate], calls: int) -> list[LoadedTrial]:
        """Compiles, loads and checks; what does not run or is wrong is left out. Whoever calls closes the programs."""
        self._ranks.compile(self.workload, trials)
        loaded = []
        for trial in dict.fromkeys(trials):

            def make(trial: tune.Candidate = trial) -> LoadedGemm:
                return LoadedGemm(self.workload, compile_trial(self.workload, trial), self.group)

            program = self.session.attempt(trial.name, make)
            if program is None:
                continue
            error = self._check(trial, program, calls)
            if error is None:
                program.close()
            else:
                candidate = self._candidate(trial, program)
                loaded.append(LoadedTrial(trial, program, error, candidate))
        return loaded

    def collective_curve(
        self, sizes: Sequence[int], ctas: int, rounds: int = 5, *, beside: bool = False
    ) -> Curve:
        """Through torch."""
        gemm = self._keep_busy(ctas) if beside else None
        group, world = self._ranks.limited(ctas), self.session.world_size
        kind = GemmKind(self.workload.kind)
        most = max(sizes) // 2 + world
        given = torch.zeros(most, dtype=torch.bfloat16, device="cuda")
        received = torch.empty_like(given)

        def candidate(nbytes: int) -> Candidate:
            count = nbytes // 2 // world * world
            source, target = given[:count], received[:count]

            def call(i: int) -> torch.Tensor:
                if kind is GemmKind.GEMM_AR:
                    dist.all_reduce(source, group=group)
                elif kind is GemmKind.GEMM_RS:
                    dist.reduce_scatter_tensor(target[: count // world], source, group=group)
                elif kind is GemmKind.AG_GEMM:
                    dist.all_gather_into_tensor(target, source[: count // world], group=group)
                else:
                    dist.all_to_all_single(target, source, group=group)
                return target

            return Candidate(f"{nbytes} bytes", call, prepare=gemm)

        candidates = [candidate(nbytes) for nbytes in sizes]
        self.session.compare(candidates, rounds, 1, HOLD_CYCLES)
        return ascending_curve(sizes, [one.us for one in candidates])

    def _keep_busy(self, spared: int) -> Callable[[int], None]:
        """What starts the GEMM, as often as it takes to run while the GPU is held and beside a call behind that."""
        side, start = torch.cuda.Stream(), torch.cuda.Event()
        multiply = self.baselines.local_kernel(spared)
        seconds = HOLD_CYCLES / 1e9 + 2e-3
        multiply(0)
        torch.cuda.synchronize()
        begin = time.perf_counter()
        multiply(0)
        torch.cuda.synchronize()
        times = 1 + math.ceil(seconds / (time.perf_counter() - begin))

        def run(i: int) -> None:
            start.record()
            side.wait_event(start)
            with torch.cuda.stream(side):
                for _ in range(times):
                    multiply(0)

        return run

    def close(self) -> None:
        """Closes the program of the survey, and gives memory back."""
        if self._program is not None:
            self._program.close()
            self._program = None
        gc.collect()
        torch.cuda.empty_cache()

    def _place(self, trial: tune.Candidate) -> LoadedGemm | None:
        """The one loaded program with the trial's tables, and its code if that is another."""
        compiled = self.session.attempt(trial.name, lambda: compile_trial(self.workload, trial))
        if compiled is None:
            return None

        def place() -> LoadedGemm:
            if self._program is None:
                return LoadedGemm(self.workload, compiled, self.group)
            self._program.loaded.reschedule(compiled)
            return self._program

        placed: LoadedGemm | None = self.session.attempt(trial.name, place)
        if placed is None and self._program is not None:
            self._program.close()
        self._program = placed
        return placed

    def _check(self, trial: tune.Candidate, program: LoadedGemm, calls: int) -> float | None:
        """The largest relative error over the ranks; None, and a note, if it is wrong or a call fails."""

        def check() -> tuple[float, bool]:
            def call(given: torch.Tensor) -> torch.Tensor:
                out: torch.Tensor = program(a=given, b=self.data.weight)
                return out

            found = self.data.check_calls(call, calls)
            program.synchronize()
            return found

        checked = self.session.attempt(f"checking {trial.name}", check)
        if checked is None:
            self.wrong.append(f"{trial.name}: a call failed")
            if program is self._program:
                # After a fault it takes no more calls.
                program.close()
                self._program = None
            return None
        error, same = checked
        # A NaN would get lost in a maximum.
        error = self.session.maximum([error if error == error else float("inf")])[0]
        if error >= TOLERANCE or not self.session.agree(same):
            self.wrong.append(f"{trial.name}: relative error {error:.2e}, same bits: {same}")
            self.session.say(f"WRONG {self.wrong[-1]}")
            return None
        return error

    def _candidate(self, trial: tune.Candidate, program: LoadedGemm) -> Candidate:
        def call(i: int) -> torch.Tensor:
            out: torch.Tensor = program(a=self.data.inputs[i], b=self.data.weight)
            return out

        return Candidate(trial.name, call)

    def _host_us(self, one: LoadedTrial) -> float:
        return measure_host_us(one.program, 10, a=self.data.inputs[0], b=self.data.weight)
