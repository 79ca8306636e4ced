"""What studies do on GPUs, with a clock and programs in place of them."""

import ctypes
import itertools
import os
import sys
import types
from pathlib import Path

import pytest
from studies import load

torch = pytest.importorskip("torch")

from syncopate import GemmWorkload, Strategy, tune  # noqa: E402
from syncopate.errors import SyncopateError  # noqa: E402
from syncopate.kernels import GemmConfig  # noqa: E402
from syncopate.runtime import cuda  # noqa: E402
from syncopate.runtime.engine import Engine  # noqa: E402
from syncopate.runtime.engine_plan import plan_engine  # noqa: E402
from syncopate.runtime.memory_plan import plan_memory, resolve  # noqa: E402
from syncopate.runtime.timing import Candidate  # noqa: E402

beside = load("common.beside")
bench = load("common.bench")
energy = load("common.energy")
gpu_bench = load("common.gpu_bench")
steadiness = load("steadiness")

pytestmark = pytest.mark.any_triton

WORKLOAD = GemmWorkload("gemm_rs", 512, 256, 128, 2)
DEFAULT = bench.default_trial(WORKLOAD)
TRIALS = [DEFAULT.having(pause=pause) for pause in (1, 2, 3, 4, 5)]


class FakeSession:
    """One rank; the other one fails where `others_fail` says."""

    rank, world_size = 0, 2

    def __init__(self, others_fail=()):
        self.others_fail, self.said, self.compared = set(others_fail), [], []

    def say(self, text):
        self.said.append(text)

    def maximum(self, values):
        return list(values)

    def agree(self, good):
        return good

    def attempt(self, what, make):
        try:
            result = make()
        except (SyncopateError, RuntimeError) as error:
            self.said.append(str(error))
            return None
        return None if what in self.others_fail else result

    def compare(self, candidates, rounds, sets, hold_cycles):
        self.compared.append([candidate.name for candidate in candidates])
        for candidate in candidates:
            candidate.times_us = [candidate.call(0)] * rounds


class FakeProgram:
    """A program: a trial's number is its pause, and its time ten times that."""

    def __init__(self, made, program):
        self.program, self.closed, self.placed = program, False, [program]
        self.loaded = types.SimpleNamespace(reschedule=self._reschedule)
        made.append(self)

    def _reschedule(self, program):
        if program == 4:
            raise RuntimeError("no room")
        assert not self.closed
        self.program = program
        self.placed.append(program)

    def __call__(self, a, b):
        assert not self.closed
        return 10.0 * self.program

    def synchronize(self):
        pass

    def close(self):
        self.closed = True


class FakeBaselines:
    """The times that baselines take."""

    def gemms(self):
        return [Candidate(name, lambda i, us=us: us) for name, us in (("a", 50.0), ("b", 60.0))]

    def communication(self):
        return Candidate("nccl", lambda i: 20.0)

    def sequence(self, name="cublas_nccl"):
        return Candidate(name, lambda i: 81.0 if name.endswith("again") else 80.0)

    def split_streams(self):
        return [
            Candidate(f"split/{pieces}", lambda i, us=us: us)
            for pieces, us in ((2, 78.0), (4, 77.0))
        ]

    def async_tp(self):
        raise RuntimeError("takes no such shapes")


def make_bench(monkeypatch, session=None, wrong=()):
    """A bench whose trial 2 the compiler refuses, and the programs that it makes."""

    def compile_trial(workload, trial):
        if trial.strategy.pause == 2:
            raise SyncopateError("trial 2 is refused")
        return trial.strategy.pause

    class Data:
        inputs, weight = [None] * 3, None

        def check_calls(self, call, calls):
            number = call(None) / 10
            return (0.5 if number in wrong else 0.001), True

    programs = []
    session = session or FakeSession()
    monkeypatch.setattr(
        gpu_bench, "LoadedGemm", lambda workload, program, group: FakeProgram(programs, program)
    )
    monkeypatch.setattr(gpu_bench, "make_data", lambda workload, session: Data())
    monkeypatch.setattr(gpu_bench, "measure_host_us", lambda program, calls, **tensors: 7.0)
    monkeypatch.setattr(gpu_bench, "Baselines", lambda *_: FakeBaselines())
    monkeypatch.setattr(gpu_bench, "compile_trial", compile_trial)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    ranks = types.SimpleNamespace(session=session, group=None, compile=lambda *_: None)
    return gpu_bench.GpuBench(ranks, WORKLOAD), programs


def test_survey_leaves_out_what_is_refused_wrong_or_too_late(monkeypatch):
    made, programs = make_bench(monkeypatch, wrong=(3,))
    found = made.survey(TRIALS, 5)
    # 2 is refused, 3 is wrong, and 4 closes the program, so that 5 gets another one.
    assert {trial.strategy.pause: one.us for trial, one in found.items()} == {1: 10.0, 5: 50.0}
    assert [program.placed for program in programs] == [[1, 3], [5]]
    assert [program.closed for program in programs] == [True, False]
    assert len(made.wrong) == 1 and "pause 3" in made.wrong[0] and "5.00e-01" in made.wrong[0]
    left = iter([False, False, True])
    assert len(made.survey([TRIALS[0], TRIALS[4], TRIALS[0]], 5, lambda: next(left))) == 2
    made.close()
    assert all(program.closed for program in programs)


def test_survey_leaves_out_what_fails_on_another_rank(monkeypatch):
    session = FakeSession(others_fail=[TRIALS[0].name, f"checking {TRIALS[2].name}"])
    made, programs = make_bench(monkeypatch, session)
    found = made.survey([TRIALS[0], TRIALS[2], TRIALS[4]], 5)
    assert [trial.strategy.pause for trial in found] == [5]
    assert made.wrong == [f"{TRIALS[2].name}: a call failed"]
    assert not programs[-1].closed


def test_wrong_programs_are_closed_when_loaded(monkeypatch):
    made, programs = make_bench(monkeypatch, wrong=(1,))
    loaded = made.load([TRIALS[0], TRIALS[4], TRIALS[4], TRIALS[1]], 9)
    assert [one.trial.strategy.pause for one in loaded] == [5]
    assert [program.closed for program in programs] == [True, False]
    assert made.wrong and loaded[0].error == 0.001


def test_comparison_has_programs_take_turns_with_baselines(monkeypatch):
    session = FakeSession()
    made, programs = make_bench(monkeypatch, session, wrong=(3,))
    alone, found = made.compare([TRIALS[0], TRIALS[2], TRIALS[4]], 4, 9)
    assert session.compared == [
        [
            "a",
            "b",
            "nccl",
            "cublas_nccl",
            "split/2",
            "split/4",
            TRIALS[0].name,
            TRIALS[4].name,
            "cublas_nccl again",
        ]
    ]
    assert alone == bench.Alone(50.0, 60.0, 20.0, 80.0, 77.0, None, pytest.approx(1 / 81))
    assert alone.best_us == 77.0
    assert found == {
        TRIALS[0]: bench.Measured(10.0, 0.001, 7.0),
        TRIALS[4]: bench.Measured(50.0, 0.001, 7.0),
    }
    assert all(program.closed for program in programs)
    # Nothing to compare is a comparison of the baselines.
    assert made.compare([], 4, 9)[1] == {}


@pytest.mark.parametrize("has_counter", [True, False])
def test_steadiness_is_measured_for_each_realization_and_the_baseline(monkeypatch, has_counter):
    made, programs = make_bench(monkeypatch)
    studied = types.SimpleNamespace(
        session=made.session,
        options=types.SimpleNamespace(steady_calls=100, calls=9),
        meta={},
        over=lambda: len(programs) == 2,
        say=lambda text: None,
    )
    properties = types.SimpleNamespace(uuid="12-34" if has_counter else "5")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda: properties)
    monkeypatch.setattr(energy.EnergyCounter.__init__, "__defaults__", (lambda name: FakeNvml(),))
    others = [beside.Work(name, lambda i: None, 1.0) for name in steadiness.OTHERS]
    monkeypatch.setattr(beside, "make_others", lambda session: others)

    def measure(session, work, calls, counter):
        assert calls == 100 and (counter is not None) == has_counter
        work.us = work.call(4)
        return {"p50_us": work.us, "p99_us": work.us, "max_us": work.us, "joules": None}

    def measure_beside(session, measured, other):
        return measured.us / other.us

    monkeypatch.setattr(beside, "measure_steadiness", measure)
    monkeypatch.setattr(beside, "measure_beside", measure_beside)
    chosen = dict(enumerate([TRIALS[0], TRIALS[4], TRIALS[2]]))
    rows = list(steadiness.measure(studied, made, chosen))
    # The time is over after two.
    assert [row["name"] for row in rows] == [steadiness.BASELINE, TRIALS[0].name, TRIALS[4].name]
    assert [row["p50_us"] for row in rows] == [80.0, 10.0, 50.0]
    assert rows[2]["copy_slowdown"] == 1 / 50 and rows[2]["slowdown_by_product"] == 50.0
    assert all(program.closed for program in programs)
    assert ("NVML error 6" in studied.meta["energy"]) == (not has_counter)


@pytest.fixture
def driver(monkeypatch):
    """A driver that takes notes; the list of calls that it got."""
    calls = []

    def function(name):
        def entry(*args):
            calls.append(name)
            if name in ("cuStreamCreateWithPriority", "cuEventCreate"):
                args[0]._obj.value = 100 + len(calls)
            return 0

        entry.argtypes = cuda.SIGNATURES[name]
        return entry

    monkeypatch.setattr(cuda, "function", function)
    return calls


@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize("n", [256, 264])
def test_events_stand_behind_the_waits_for_what_is_copied(driver, rank, n):
    workload = GemmWorkload("gemm_rs", 384, n, 64, 3)
    config = GemmConfig(block_m=64, block_n=64, block_k=32, num_warps=4, num_stages=2, num_ctas=4)
    strategy = Strategy(realization="copy_engine", splits=2, combine="role")
    program = workload.compile(strategy, config=config)
    memory = plan_memory(program)
    bases = [(number + 1) << 32 for number in range(3)]
    mirror = (ctypes.c_int32 * 2)()
    engine = Engine(
        plan_engine(program, rank, resolve(memory, bases)),
        state=0x7000,
        mirror=ctypes.addressof(mirror),
        same_device=lambda other: other == rank,
    )
    number = itertools.count()

    def make_event():
        event = next(number)

        def record():
            driver.append(event)
            return 0

        return event, record

    ranges = [(base, base + memory.nbytes) for base in bases]
    parts = engine.watch_copies(ranges, rank, make_event)
    # Each of the two others gets a third of the rows, in two pieces.
    got = {peer: [part.nbytes[peer] for part in parts if peer in part.nbytes] for peer in range(3)}
    assert got.pop(rank) == []
    assert all(pieces == [64 * n * 2] * 2 for pieces in got.values())
    driver.clear()
    for leg in engine.legs:
        for part in range(len(leg.parts)):
            engine.enqueue(leg, part)
    for part in parts:
        at = driver.index(part.event)
        assert driver[at - 2 : at] == ["cuStreamWaitValue32_v2", "cuStreamWriteValue32_v2"]
        assert driver[at + 1] in ("cuMemcpyAsync", "cuMemcpy2DAsync_v2")


def test_unsteadiness_by_hand():
    ready = load("common.ready")
    # A quarter at each quarter of the time, known when it is over: a quarter behind just before.
    assert ready.find_unsteadiness([20, 10, 40, 30], [5, 5, 5, 5], 40) == pytest.approx(0.25)
    # All at the end; all at once in the middle, of which nothing is there just before.
    assert ready.find_unsteadiness([10, 10], [1, 7], 10) == pytest.approx(1.0)
    assert ready.find_unsteadiness([5, 5], [1, 7], 10) == pytest.approx(0.5)


def test_programs_are_compiled_ahead_once_for_each_code(monkeypatch, tmp_path, root, capsys):
    compilers = load("common.compilers")
    config = GemmConfig(block_m=64, block_n=64, block_k=32, num_warps=4, num_stages=2, num_ctas=4)
    one = tune.Candidate(Strategy(), config)
    trials = [one, one.having(order="paced", pause=9), one.having(realization="copy_engine")]
    assert [trial.strategy.realization.value for trial in compilers.find_codes(trials)] == [
        "ldst_colocated",
        "copy_engine",
    ]
    monkeypatch.syspath_prepend(root)
    # Processes that are spawned take the environment, and the search path, of this one.
    monkeypatch.setenv("SYNCOPATE_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join(str(Path(p).absolute()) for p in sys.path if p)
    )
    some = compilers.Compilers(2)
    refused = one.having(realization="nccl", combine="tiles")
    some.compile(WORKLOAD, [*trials, refused])
    files = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert files
    some.compile(WORKLOAD, [*trials, refused])
    some.close()
    assert not capsys.readouterr().out
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == files


class Clock:
    """A GPU with two streams: work takes its time, and longer while both streams have some."""

    def __init__(self, slowdown):
        self.slowdown, self.current, self.queues = slowdown, 0, [[], []]

    def enqueue(self, us):
        self.queues[self.current].append(us)

    def record(self, event):
        self.queues[self.current].append(event)

    def run(self):
        now = [0.0, 0.0]
        left = [None, None]
        while any(self.queues) or any(item is not None for item in left):
            for stream in (0, 1):
                while left[stream] is None and self.queues[stream]:
                    item = self.queues[stream].pop(0)
                    if isinstance(item, Event):
                        item.at = max(now)
                    else:
                        left[stream] = item
            busy = [stream for stream in (0, 1) if left[stream] is not None]
            if not busy:
                break
            rate = {stream: self.slowdown[stream] if len(busy) == 2 else 1.0 for stream in busy}
            step = min(left[stream] * rate[stream] for stream in busy)
            now = [max(now) + step] * 2
            for stream in busy:
                left[stream] -= step / rate[stream]
                if left[stream] < 1e-9:
                    left[stream] = None


class Event:
    """When a stream was there, in microseconds."""

    clock = None

    def __init__(self, enable_timing):
        self.at = None

    def record(self):
        Event.clock.record(self)

    def elapsed_time(self, other):
        return (other.at - self.at) / 1e3


@pytest.fixture
def fake_gpu(monkeypatch):
    def make(slowdown):
        clock = Event.clock = Clock(slowdown)
        streams = []

        class Stream:
            def __init__(self):
                self.number = len(streams)
                streams.append(self)

        class Using:
            def __init__(self, stream):
                self.stream = stream

            def __enter__(self):
                self.before, clock.current = clock.current, self.stream.number

            def __exit__(self, *_):
                clock.current = self.before

        # All is enqueued before the clock runs, so nothing has to be held.
        cuda = types.SimpleNamespace(
            Event=Event,
            Stream=Stream,
            stream=Using,
            synchronize=clock.run,
            _sleep=lambda cycles: None,
        )
        fake = types.SimpleNamespace(**{**vars(torch), "cuda": cuda})
        fake.tensor = lambda values, device, **options: torch.tensor(values, **options)
        monkeypatch.setattr(beside, "torch", fake)
        group = types.SimpleNamespace(
            barrier=lambda: None,
            all_reduce=lambda *_, **__: None,
            ReduceOp=torch.distributed.ReduceOp,
        )
        monkeypatch.setattr(beside, "dist", group)
        return clock

    return make


@pytest.mark.parametrize(("first", "second"), [(700.0, 30.0), (30.0, 700.0), (128.0, 90.0)])
@pytest.mark.parametrize("slowdown", [(1.0, 1.0), (1.6, 1.0), (1.3, 2.5)])
def test_slowdown_is_that_of_the_stream_that_is_measured(fake_gpu, first, second, slowdown):
    clock = fake_gpu(slowdown)
    works = [
        beside.Work(name, lambda i, us=us: clock.enqueue(us), us)
        for name, us in (("calls", first), ("other", second))
    ]
    found = beside.measure_beside(FakeSession(), *works)
    assert found == pytest.approx(slowdown[0])


def test_slowdown_is_unknown_where_the_other_work_ends_before(fake_gpu):
    clock = fake_gpu((8.0, 1.0))
    works = [
        beside.Work(name, lambda i: clock.enqueue(100.0), 100.0) for name in ("calls", "other")
    ]
    assert beside.measure_beside(FakeSession(), *works) is None


def test_steadiness_has_percentiles_and_energy(fake_gpu):
    clock = fake_gpu((1.0, 1.0))
    counter = types.SimpleNamespace(joules=iter([5.0, 25.0]).__next__)
    work = beside.Work("calls", lambda i: clock.enqueue(500.0 if i % 20 == 3 else 100.0))
    found = beside.measure_steadiness(FakeSession(), work, 200, counter)
    assert found["p50_us"] == work.us == pytest.approx(100.0)
    assert found["p99_us"] == pytest.approx(500.0)
    assert found["mean_us"] == pytest.approx(120.0)
    # One rank of two has counted here: nobody adds the other's.
    assert found["joules"] == pytest.approx(20.0 / 2 / 200)
    found = beside.measure_steadiness(FakeSession(), work, 50, None)
    assert found["joules"] is None


class FakeNvml:
    """NVML with one GPU, as far as it is called."""

    def __init__(self, lacks=""):
        self.millijoules, self.lacks = 1500, lacks

    def nvmlInit_v2(self):  # noqa: N802
        return 0

    def nvmlDeviceGetHandleByUUID(self, uuid, handle):  # noqa: N802
        if uuid != b"GPU-12-34":
            return 6
        ctypes.cast(handle, ctypes.POINTER(ctypes.c_void_p))[0] = 77
        return 0

    def nvmlDeviceGetTotalEnergyConsumption(self, handle, value):  # noqa: N802
        assert handle.value == 77
        if self.lacks == "counter":
            return 3
        ctypes.cast(value, ctypes.POINTER(ctypes.c_ulonglong))[0] = self.millijoules
        return 0


@pytest.mark.parametrize("uuid", ["12-34", "GPU-12-34"])
def test_energy_is_in_joules(uuid):
    nvml = FakeNvml()
    counter = energy.EnergyCounter(uuid, lambda name: nvml)
    assert counter.joules() == 1.5
    nvml.millijoules = 2250
    assert counter.joules() == 2.25


def test_energy_says_what_is_missing():
    with pytest.raises(OSError, match="nvmlDeviceGetHandleByUUID failed: NVML error 6"):
        energy.EnergyCounter("56-78", lambda name: FakeNvml())
    with pytest.raises(OSError, match="nvmlDeviceGetTotalEnergyConsumption failed: NVML error 3"):
        energy.EnergyCounter("12-34", lambda name: FakeNvml("counter"))
