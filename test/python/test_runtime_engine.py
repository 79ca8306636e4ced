"""What an engine puts on its side stream, and how stuck streams are let go, against a driver that only takes notes."""

import ctypes
import threading
from dataclasses import replace

import pytest
from hand_tables import ENGINE
from test_runtime_linking import make

from syncopate.abi import CommandReduction, LibraryCall, SignalKind, StateWord
from syncopate.errors import SyncopateError
from syncopate.runtime import cuda, rescue
from syncopate.runtime.engine import LAST, Engine
from syncopate.runtime.engine_plan import (
    AwaitWord,
    Call,
    Copy,
    Exchange,
    Piece,
    Raise,
    plan_engine,
)
from syncopate.runtime.library import LibraryCalls
from syncopate.runtime.memory_plan import plan_memory, resolve

STATE = 0x7000


@pytest.fixture
def driver(monkeypatch):
    """Replaces the driver; returns the list of calls that it got."""
    calls = []

    def function(name):
        def entry(*args):
            kinds = cuda.SIGNATURES[name]
            assert len(args) == len(kinds), name
            for kind, arg in zip(kinds, args, strict=True):
                kind.from_param(arg)
            calls.append((name, [getattr(arg, "value", arg) for arg in args]))
            if name in ("cuStreamCreateWithPriority", "cuEventCreate"):
                args[0]._obj.value = 100 + len(calls)
            return 0

        entry.argtypes = cuda.SIGNATURES[name]
        return entry

    monkeypatch.setattr(cuda, "function", function)
    return calls


@pytest.fixture
def mirror():
    memory = (ctypes.c_int32 * 2)()
    yield memory


def make_engine(mirror, algorithm, local=False, world=2):
    program = make(world, algorithm, ENGINE)
    addresses = resolve(plan_memory(program), [(r + 1) << 32 for r in range(world)])
    ops = plan_engine(program, 0, addresses)
    engine = Engine(
        ops,
        state=STATE,
        mirror=ctypes.addressof(mirror),
        same_device=lambda rank: local or rank == 0,
    )
    return engine, addresses, program.signal_layout


def enqueue_all(engine, driver):
    driver.clear()
    for leg in engine.legs:
        for part in range(len(leg.parts)):
            engine.enqueue(leg, part)
    return driver


def test_push_order_and_sources(driver, mirror):
    engine, addresses, names = make_engine(mirror, "push")
    calls = enqueue_all(engine, driver)
    here = ctypes.addressof(mirror)
    credit = addresses.flag(0, names.done_twin + 1)
    epoch = STATE + 4 * StateWord.ENGINE_EPOCH
    assert StateWord.ENGINE_ONE == StateWord.ENGINE_EPOCH + 1
    assert calls[0] == ("cuMemcpyDtoHAsync_v2", [here, epoch, 8, engine.stream])
    assert calls[1] == ("cuStreamWaitValue32_v2", [engine.stream, credit, 1, cuda.WAIT_VALUE_EQ])
    assert calls[2] == ("cuStreamWriteValue32_v2", [engine.stream, credit, 0, 0])
    assert calls[3][0] == "cuMemcpyAsync" and calls[3][1][2] == 32 * 32
    # The peer's flag from the engine's own word, the own one by way of the host.
    assert calls[4] == ("cuMemcpyAsync", [addresses.flag(1, 0), epoch, 4, engine.stream])
    done = addresses.flag(0, names.engine_done)
    assert calls[5] == ("cuMemcpyHtoDAsync_v2", [done, here, 4, engine.stream])
    assert len(calls) == 6


def test_on_one_gpu_flags_go_by_way_of_the_host(driver, mirror):
    engine, addresses, _ = make_engine(mirror, "push", local=True)
    calls = enqueue_all(engine, driver)
    flag = [args for name, args in calls if args[0] == addresses.flag(1, 0)]
    assert flag == [[addresses.flag(1, 0), ctypes.addressof(mirror), 4, engine.stream]]


def test_each_wait_begins_a_part(driver, mirror):
    engine, _, _ = make_engine(mirror, "pull", world=3)
    (leg,) = engine.legs
    assert (leg.meeting, len(leg.parts)) == (LAST, 3)
    driver.clear()
    engine.enqueue(leg, 1)
    assert driver[0][0] == "cuStreamWaitValue32_v2"


class Library:
    """Notes what is bound and made."""

    def __init__(self, waits):
        self.waits, self.log = waits, []

    def bind(self, op):
        def call():
            self.log.append(op.nbytes)
            return 0

        return call

    def bind_exchange(self, op, address=None):
        def call():
            self.log.append((op, address))
            return 0

        return call

    def finish(self):
        def wait():
            self.log.append("end")
            return 0

        return wait if self.waits else None


@pytest.mark.parametrize("waits", [False, True])
def test_each_library_call_ends_a_leg(driver, mirror, waits):
    """Whatever else ranks have on their streams."""
    call = Call(LibraryCall.ALL_REDUCE, CommandReduction.SUM, 0, 0, 0, 0, 0, 64, 1, 7)
    ops = [
        AwaitWord(0x10), AwaitWord(0x14), call, AwaitWord(0x18), replace(call, nbytes=128, meeting=8),
        Raise(0x20, 0, SignalKind.EPOCH),
    ]  # fmt: skip
    library = Library(waits)
    engine = Engine(
        ops,
        state=STATE,
        mirror=ctypes.addressof(mirror),
        same_device=lambda rank: True,
        library=lambda stream: library,
    )
    legs = engine.legs
    assert [(leg.meeting, len(leg.parts)) for leg in legs] == [(7, 3), (8, 2), (LAST, 1)]
    assert len(engine.calls) == 2 and not library.log
    driver.clear()
    for part in range(3):
        engine.enqueue(legs[0], part)
    assert library.log == [64]
    enqueue_all(engine, driver)
    assert library.log[1:] == ([64, "end", 128, "end"] if waits else [64, 128])
    waited = [args[1] for name, args in driver if name == "cuStreamWaitValue32_v2"]
    assert waited == [0x10, 0x14, 0x18]


def test_an_exchange_follows_the_input(driver, mirror):
    moved, kept = Piece(1, 0x100, 16, input_offset=8), Piece(2, 0x200, 32)
    op = Exchange(0, (0, 1, 2), (moved, kept), (Piece(1, 0x300, 64),))
    library = Library(False)
    engine = Engine(
        [AwaitWord(0x10), op, Raise(0x20, 0, SignalKind.EPOCH)],
        state=STATE,
        mirror=ctypes.addressof(mirror),
        same_device=lambda rank: True,
        library=lambda stream: library,
    )
    enqueue_all(engine, driver)
    engine.place_input(0x9000)
    enqueue_all(engine, driver)
    assert library.log == [(op, None), (op, 0x9000)]
    bound = []
    real = LibraryCalls(Exchanging(bound), 5, [])
    real.bind_exchange(op)
    real.bind_exchange(op, 0x9000)
    got = ((1, 0x300, 64),)
    assert bound == [
        (((1, 0x100, 16), (2, 0x200, 32)), got, 5),
        (((1, 0x9008, 16), (2, 0x200, 32)), got, 5),
    ]


class Exchanging:
    def __init__(self, bound):
        self.bound = bound

    def exchange(self, op, sends, receives, stream):
        self.bound.append((sends, receives, stream))


def test_rows_apart_make_a_2d_copy(driver, mirror):
    copy = Copy(dst=4096, src=8192, rows=10, row_bytes=100, dst_stride=256, src_stride=512)
    engine = Engine(
        (copy,), state=STATE, mirror=ctypes.addressof(mirror), same_device=lambda rank: True
    )
    assert enqueue_all(engine, driver)[1][0] == "cuMemcpy2DAsync_v2"
    described = cuda.describe_copy(4096, 8192, 10, 100, 256, 512)
    assert (described.dst_device, described.src_device) == (4096, 8192)
    assert (described.dst_pitch, described.src_pitch) == (256, 512)
    assert (described.width, described.height) == (100, 10)


def test_fork_and_join_connect_the_streams(driver, mirror):
    engine, _, _ = make_engine(mirror, "push")
    driver.clear()
    engine.fork(7)
    engine.join(7)
    names = [name for name, _ in driver]
    assert names == ["cuEventRecord", "cuStreamWaitEvent"] * 2
    assert driver[0][1][1] == 7 and driver[1][1][0] == engine.stream
    assert driver[2][1][1] == engine.stream and driver[3][1][0] == 7


def test_silent_engine_tells_nobody_anything(driver, mirror):
    engine, _, _ = make_engine(mirror, "push", local=True)
    engine.silence(7)
    assert list(mirror) == [6, 0]


@pytest.fixture
def clock(monkeypatch):
    """Replaces the clock; returns a list of one number, the time."""
    now = [100.0]
    monkeypatch.setattr(rescue.time, "monotonic", lambda: now[0])
    return now


def test_stream_may_go_on_by_itself_for_a_while(driver, monkeypatch, clock):
    monkeypatch.setattr(cuda, "stream_idle", lambda stream: False)
    stuck = rescue.StreamRescue(5, [0x10, 0x20], patience_s=2.0)
    assert stuck.step(9) > 0
    clock[0] += 1.99
    assert 0 < stuck.step(9) <= 0.0101
    assert driver == []
    clock[0] += 0.02
    assert stuck.step(9) > 0
    assert [args for _, args in driver] == [[9, 0x10, 1, 0], [9, 0x20, 1, 0]]


def test_idle_stream_is_left_alone(driver, monkeypatch, clock):
    monkeypatch.setattr(cuda, "stream_idle", lambda stream: True)
    assert rescue.StreamRescue(5, [0x10], patience_s=0.0).step(9) is None
    assert driver == []


def test_rescue_gives_up_in_the_end(driver, monkeypatch, clock):
    monkeypatch.setattr(cuda, "stream_idle", lambda stream: False)
    stuck = rescue.StreamRescue(5, [0x10], patience_s=0.0)
    stuck.step(9)
    clock[0] += 31
    with pytest.raises(SyncopateError, match="did not become idle"):
        stuck.step(9)


def test_calls_that_wait_for_others_are_aborted(driver, monkeypatch, clock):
    """In a thread, since that may return only when words that are written meanwhile have let the stream go."""
    monkeypatch.setattr(cuda, "stream_idle", lambda stream: False)
    aborted = threading.Event()
    stuck = rescue.StreamRescue(5, [0x10], 0.0, aborted.set)
    stuck.step(9)
    clock[0] += 4.9
    stuck.step(9)
    assert not aborted.is_set()
    clock[0] += 0.2
    driver.clear()
    stuck.step(9)
    assert aborted.wait(20)
    assert [args for _, args in driver] == [[9, 0x10, 1, 0]]
    aborted.clear()
    stuck.step(9)
    assert not aborted.wait(0.1)


class Program:
    """Needs a number of steps, then fails or is done."""

    def __init__(self, steps, error=None):
        self.steps, self.error = steps, error

    def rescue(self):
        self.steps -= 1
        if self.steps >= 0:
            return 0.001
        if self.error:
            raise self.error
        return None


def test_watchdog_steps_programs_and_forgets_the_hopeless(monkeypatch):
    dog = rescue.Watchdog()
    monkeypatch.setattr(dog, "_thread", "none")
    good, bad = Program(2), Program(1, SyncopateError("stuck"))
    dog.watch(good)
    dog.watch(bad)
    assert dog._step_all() == 0.001
    assert dog._step_all() == 0.001
    assert list(dog._programs) == [good]
    assert dog._step_all() == 0.05
    dog.forget(good)
    assert not dog._programs


def test_driver_errors_name_the_call(monkeypatch):
    def function(name):
        def entry(*args):
            if name == "cuGetErrorString":
                args[1]._obj.value = b"out of memory"
                return 0
            return 2

        return entry

    monkeypatch.setattr(cuda, "function", function)
    with pytest.raises(SyncopateError, match="cuStreamQuery failed: CUDA error 2, out of memory"):
        cuda.stream_idle(3)
