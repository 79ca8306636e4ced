"""How long a loaded program's memory, streams and errors last, with stand-ins for the GPU; ranks are threads."""

import contextlib
import types

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from rank_threads import on_ranks  # noqa: E402
from test_runtime_pool import Host  # noqa: E402

from syncopate.agreement import Processes  # noqa: E402
from syncopate.errors import SyncopateError  # noqa: E402
from syncopate.runtime import loaded as module  # noqa: E402
from syncopate.runtime.fault_board import NoBoard  # noqa: E402
from syncopate.runtime.loaded import LoadedProgram  # noqa: E402
from syncopate.runtime.pool import Pool  # noqa: E402

pytestmark = pytest.mark.any_triton

WORLD = 2


class Group:
    """Ranks with memory of the CPU."""

    world_size = WORLD

    def __init__(self, store, rank):
        self.agreement = Processes(store, rank, WORLD, seconds=30)
        self.pool = Pool(self.agreement, Host(rank, WORLD))
        self.local_ranks, self.rank = (rank,), rank
        self.fails_to = None

    def device(self, rank):
        return 0

    def stream(self, rank):
        return None

    def reaches(self, rank, other):
        return True

    def allocate(self, nbytes):
        return self.pool.allocate(nbytes)

    def fault_board(self):
        return NoBoard()

    def barrier(self):
        self.agreement.exchange("a barrier")


class State:
    """A rank's part of a program, as far as it is asked: its result is part of its memory."""

    own_stream = engine = library = None
    device_bytes = 100

    def __init__(self, program, group, rank, memory, plan, addresses, library, remap):
        if group.fails_to == "bind":
            raise MemoryError("out of memory")
        self.rank, self.device, self.group = rank, 0, group
        self.memory, self.flags = memory.tensors[rank], addresses.flags[rank]
        # Flags are as if no program had ever been here.
        assert not self.memory.any()
        self.memory.fill_(1)
        self.launched = []

    def warm_up(self):
        if self.group.fails_to == "warm up":
            raise ValueError("no library")

    def fault_record(self):
        return None

    def prepare(self, tensors):
        pass

    def stage(self, stream):
        pass

    def enqueue_engine(self):
        pass

    def launch(self, stream):
        self.launched.append(stream)

    def result(self):
        return self.memory[64:128]

    def close(self):
        self.memory = None


def program(nbytes, name="p"):
    buffer = types.SimpleNamespace(nbytes=nbytes)
    layout = types.SimpleNamespace(total=16)
    return types.SimpleNamespace(
        name=name, world_size=WORLD, buffers=[buffer], signal_layout=layout
    )


class Streams:
    """The current stream of a thread, and who has waited for whom."""

    def __init__(self):
        self.current, self.waits, self.capturing = {}, [], set()

    def record_and_wait(self, event, producer, consumer):
        self.waits.append((producer, consumer))


@pytest.fixture
def streams(monkeypatch):
    found = Streams()
    monkeypatch.setattr(module, "RankState", State)
    monkeypatch.setattr(module, "check_reach", lambda *_: None)
    monkeypatch.setattr(module, "load_library", lambda *_: None)
    for name, value in {
        "create_stream": lambda: 77,
        "create_event": lambda: 88,
        "call": lambda *_: 0,
        "is_capturing": lambda stream: stream in found.capturing,
        "record_and_wait": found.record_and_wait,
    }.items():
        monkeypatch.setattr(module.cuda, name, value)
    for name, value in {
        "device": lambda index: contextlib.nullcontext(),
        "synchronize": lambda device=None: None,
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    for name, value in {
        "_cuda_getCurrentRawStream": lambda device: found.current.get("stream", 0),
        "_cuda_getDevice": lambda: 0,
    }.items():
        monkeypatch.setattr(torch._C, name, value, raising=False)
    return found


def in_group(body):
    """What `body(group)` returns, or raises, on each rank."""
    store = dist.HashStore()
    return on_ranks(WORLD, lambda rank: body(Group(store, rank)))


@pytest.mark.parametrize("closes", [True, False])
def test_memory_of_a_program_that_is_gone_is_the_next_ones(streams, closes):
    def body(group):
        first = LoadedProgram(program(5000), group)
        at = first._ranks[group.rank].flags
        assert first.workspace_bytes == 1024 + 5120 + 100
        with LoadedProgram(program(5000), group) as beside:
            assert beside._ranks[group.rank].flags != at
            if closes:
                first.close()
                with pytest.raises(SyncopateError, match="program p is closed"):
                    first()
            del first
            with LoadedProgram(program(4000), group) as third:
                assert third._ranks[group.rank].flags == at

    assert in_group(body) == [None] * WORLD


def test_result_of_a_program_that_is_gone_stays_as_it_is(streams):
    def body(group):
        first = LoadedProgram(program(5000), group)
        out = first()
        first.close()
        del first
        second = LoadedProgram(program(5000), group)
        second._ranks[group.rank].memory.fill_(2)
        assert out.eq(1).all()

    assert in_group(body) == [None] * WORLD


def test_program_that_grows_gives_its_old_memory_back(streams):
    def body(group):
        one = LoadedProgram(program(3000), group)
        at = one._ranks[group.rank].flags
        one.reschedule(program(9000))
        assert one._ranks[group.rank].flags != at and one.workspace_bytes == 1024 + 9216 + 100
        with LoadedProgram(program(3000), group) as other:
            assert other._ranks[group.rank].flags == at

    # A program that goes on has whatever it had in its memory.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.Tensor, "any", lambda self: False)
        assert in_group(body) == [None] * WORLD


@pytest.mark.parametrize(
    ("step", "why"), [("bind", "MemoryError: out of memory"), ("warm up", "ValueError: no library")]
)
def test_rank_that_cannot_load_is_named_and_all_may_try_again(streams, step, why):
    def body(group):
        group.fails_to = step if group.rank == 1 else None
        with pytest.raises((SyncopateError, MemoryError, ValueError)) as raised:
            LoadedProgram(program(5000, "q"), group)
        group.fails_to = None
        text = str(raised.value)
        del raised
        with LoadedProgram(program(5000), group) as again:
            assert again().eq(1).all()
        return text

    first, second = in_group(body)
    assert first == f"loading q: failed on rank 1: {why}"
    assert second == why.partition(": ")[2]


def test_call_on_another_stream_waits_for_the_one_before(streams):
    def body(group):
        one, other = LoadedProgram(program(64), group), LoadedProgram(program(64), group)
        if group.rank:
            return None

        def call(stream, what=one):
            streams.current["stream"] = stream
            what()
            waits, streams.waits = streams.waits, []
            return waits

        assert [call(5), call(5), call(6), call(6), call(0)] == [[], [], [(5, 6)], [], [(6, 0)]]
        # Programs do not hold up one another, and a graph has nothing to wait for outside.
        assert call(7, other) == [] and call(0) == []
        streams.capturing.add(9)
        assert call(9) == []
        assert call(9) == [] and call(0) == []
        streams.capturing.clear()
        assert call(4) == [(0, 4)]
        return one._ranks[0].launched

    assert in_group(body)[0] == [5, 5, 6, 6, 0, 0, 9, 9, 0, 4]
