"""Library calls through NCCL's own functions, against a library that only takes notes; what ranks tell one another."""

import contextlib
import ctypes
import gc
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from syncopate.abi import CommandReduction
from syncopate.agreement import Processes
from syncopate.errors import SyncopateError
from syncopate.runtime import cuda, nccl, process_group
from syncopate.runtime.engine_plan import Exchange
from syncopate.runtime.fault_board import StoreBoard
from syncopate.runtime.local_library import LocalLibrary, Meeting

STREAM = 0x5000


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    path = tmp_path_factory.mktemp("stub") / "libnccl_stub.so"
    source = Path(__file__).parent / "nccl_stub.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", path, source], check=True)
    return path


@pytest.fixture
def stub(built, monkeypatch):
    library = ctypes.CDLL(str(built))
    library.stubNotes.restype = ctypes.c_char_p
    monkeypatch.setattr(nccl, "_library", lambda: library)
    nccl._function.cache_clear()
    library.stubReset(0)
    yield library
    nccl._function.cache_clear()


def notes(stub):
    lines = stub.stubNotes().decode().splitlines()
    stub.stubReset(0)
    return lines


def make(stub, rank=1, world=3, ctas=8):
    communicator = nccl.Communicator(nccl.new_id(), world, rank, ctas)
    notes(stub)
    return communicator, nccl.Nccl(communicator)


def test_communicator_says_what_it_wants(stub):
    digest = sum((i * 7 % 256) * (i + 1) for i in range(128))
    unset = -(2**31)
    for ctas in (0, 12):
        communicator = nccl.Communicator(nccl.new_id(), 3, 2, ctas)
        (line,) = notes(stub)
        assert line == (
            f"init 2 of 3 id {digest} size 1 magic cafebeef version 21700 blocking {unset} cga 0 "
            f"ctas {unset} to {ctas or unset} net 0"
        )
        communicator.close()
        communicator.close()
        assert notes(stub) == ["destroy 2"]


@pytest.mark.parametrize(
    ("dtype", "number"), [(torch.bfloat16, 9), (torch.float16, 6), (torch.float32, 7)]
)
def test_reductions_count_elements(stub, dtype, number):
    _, library = make(stub)
    whole = torch.zeros(90, dtype=dtype)
    part = whole[30:60]
    for reduction, op in ((CommandReduction.SUM, 0), (CommandReduction.MAX, 2)):
        assert library.all_reduce(whole, reduction, STREAM)() == 0
        library.reduce_scatter(part, whole, reduction, STREAM)()
        at, mine = f"{whole.data_ptr():#x}", f"{part.data_ptr():#x}"
        assert notes(stub) == [
            f"all_reduce {at} {at} 90 type {number} op {op} by 1 on 0x5000",
            f"reduce_scatter {at} {mine} 30 type {number} op {op} by 1 on 0x5000",
        ]


def test_what_is_only_moved_is_bytes(stub):
    _, library = make(stub, world=2)
    given, got = torch.zeros(8, dtype=torch.bfloat16), torch.zeros(8, dtype=torch.bfloat16)
    gather = library.all_gather(got, got[4:], STREAM)
    exchange = library.all_to_all(got.chunk(2), given.chunk(2), STREAM)
    assert notes(stub) == []
    gather()
    exchange()
    here, there = given.data_ptr(), got.data_ptr()
    assert notes(stub) == [
        f"all_gather {there + 8:#x} {there:#x} 8 type 1 by 1 on 0x5000",
        "start",
        f"send {here:#x} 8 type 1 to 0 by 1 on 0x5000",
        f"recv {there:#x} 8 type 1 from 0 by 1 on 0x5000",
        f"send {here + 8:#x} 8 type 1 to 1 by 1 on 0x5000",
        f"recv {there + 8:#x} 8 type 1 from 1 by 1 on 0x5000",
        "end",
    ]


def test_an_exchange_is_a_group(stub):
    _, library = make(stub, world=3)
    sends, receives = [(0, 0x100, 16), (2, 0x200, 8), (0, 0x110, 4)], [(2, 0x300, 32)]
    call = library.exchange(Exchange(0, (0, 1, 2), (), ()), sends, receives, STREAM)
    assert notes(stub) == []
    assert call() == 0
    assert notes(stub) == [
        "start",
        "send 0x100 16 type 1 to 0 by 1 on 0x5000",
        "send 0x200 8 type 1 to 2 by 1 on 0x5000",
        "send 0x110 4 type 1 to 0 by 1 on 0x5000",
        "recv 0x300 32 type 1 from 2 by 1 on 0x5000",
        "end",
    ]


def test_errors_name_the_function(stub):
    _, library = make(stub)
    call = library.all_reduce(torch.zeros(4), CommandReduction.SUM, STREAM)
    stub.stubReset(3)
    with pytest.raises(SyncopateError, match="ncclAllReduce failed: NCCL error 3, unhandled"):
        call()


def test_nothing_is_called_after_an_abort(stub):
    _, library = make(stub)
    calls = [
        library.all_reduce(torch.zeros(4), CommandReduction.SUM, STREAM),
        library.all_to_all([torch.zeros(4)] * 3, [torch.zeros(4)] * 3, STREAM),
    ]
    library.abort()
    library.abort()
    assert notes(stub) == ["abort 1"]
    for call in calls:
        with pytest.raises(
            SyncopateError, match="communicator of this program's library calls is gone"
        ):
            call()
    assert notes(stub) == []


class TorchGroup:
    """A process group of torch, as far as it is asked."""

    def __init__(self, store, rank, world):
        self.agreement = Processes(store, rank, world, seconds=20)


def bare_group(torch_group, rank, world):
    group = object.__new__(process_group.ProcessGroup)
    group._group, group._rank, group._world_size, group._device = torch_group, rank, world, 0
    return group


@pytest.fixture
def without_gpus(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device", lambda index: contextlib.nullcontext())
    monkeypatch.setattr(process_group, "processes", lambda group: group.agreement)


def on_two_ranks(run):
    """What it makes of each rank and the group of both there."""
    store = dist.HashStore()

    def begin(rank):
        return run(rank, TorchGroup(store, rank, 2))

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(begin, range(2)))


def test_communicators_are_those_of_the_process_group(stub, without_gpus):
    """Other objects for it share them; one that a rank has aborted is replaced on all; close frees all."""

    def run(rank, torch_group):
        def library(ctas):
            return bare_group(torch_group, rank, 2).library(rank, ctas)

        first, again, other = library(8), library(8), library(4)
        if rank == 1:
            again.abort()
        last = library(8)
        made = [one._communicator for one in (first, again, other, last)]
        bare_group(torch_group, rank, 2).close()
        return made

    for first, again, other, last in on_two_ranks(run):
        assert first is again and other is not first and last not in (first, other)
        assert not any(one.handle for one in (first, other, last))
    lines = notes(stub)
    assert sum(line.startswith("init") for line in lines) == 6
    # What the other rank can no longer use is aborted there too, since it would wait for it.
    assert sorted(line for line in lines if not line.startswith("init")) == sorted(
        ["abort 0", "abort 1", *["destroy 0"] * 2, *["destroy 1"] * 2]
    )


def test_communicators_go_with_the_process_group(stub, without_gpus):
    """Groups that come and go leave none behind, and one that is made anew gets new ones."""

    def run(rank, torch_group):
        made = bare_group(torch_group, rank, 2).library(rank, 8)._communicator
        assert made.handle
        del torch_group
        return made

    before = on_two_ranks(run)
    gc.collect()
    assert not any(one.handle for one in before)
    after = on_two_ranks(run)
    gc.collect()
    assert not {id(one) for one in before} & {id(one) for one in after}
    lines = [line for line in notes(stub) if not line.startswith("init")]
    assert sorted(lines) == ["abort 0"] * 2 + ["abort 1"] * 2


def test_boards_have_a_name_each(without_gpus):
    def run(rank, torch_group):
        return [bare_group(torch_group, rank, 2).fault_board()._key for _ in range(2)]

    with pytest.MonkeyPatch.context() as patch:
        get = "_get_process_group_store"
        patch.setattr(process_group.distributed_c10d, get, lambda group: None)
        one, other = on_two_ranks(run)
    assert one == other and len(set(one)) == 2


def test_a_board_tells_other_ranks():
    store = dist.HashStore()
    mine, peer, other = (StoreBoard(store, name) for name in ("0-1/1", "0-1/1", "0-1/2"))
    assert mine.read() is None and peer.read() is None
    mine.post("rank 0, a tile waited 60 s")
    assert peer.read() == "rank 0, a tile waited 60 s"
    assert other.read() is None


def test_the_board_is_on_the_store_of_the_group(tmp_path):
    if dist.is_initialized():
        pytest.skip("torch.distributed is in use")
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        group = bare_group(dist.group.WORLD, 0, 1)
        first, second = group.fault_board(), group.fault_board()
        second.post("given up")
        assert (first.read(), second.read()) == (None, "given up")
    finally:
        dist.destroy_process_group()


# The library of ranks of one process.


class Event:
    """An event of a GPU that does everything at once."""

    def record(self, stream):
        stream.log.append("record")


class Stream:
    def __init__(self, handle):
        self.handle, self.log = handle, []

    def wait_event(self, event):
        self.log.append("wait")


@pytest.fixture
def streams(monkeypatch):
    """Replaces torch's streams; returns them by handle."""
    known, current = {}, []

    @contextlib.contextmanager
    def use(stream):
        current.append(stream)
        yield
        current.pop()

    monkeypatch.setattr(
        torch.cuda,
        "ExternalStream",
        lambda handle, device: known.setdefault(handle, Stream(handle)),
    )
    monkeypatch.setattr(torch.cuda, "stream", use)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: current[-1])
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device=None: None)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    return known


@pytest.mark.parametrize("world", [2, 3])
def test_local_calls_do_what_collectives_do(streams, monkeypatch, world):
    meeting = Meeting(world)
    libraries = [LocalLibrary(rank, 0, meeting) for rank in range(world)]
    size = 4 * world

    def numbers():
        return [torch.randn(size).bfloat16() for _ in range(world)]

    sums, scattered, sent, got, gathered = (numbers() for _ in range(5))
    calls = []
    for rank, library in enumerate(libraries):
        part = slice(4 * rank, 4 * rank + 4)
        calls.append([
            library.all_reduce(sums[rank], CommandReduction.SUM, rank),
            library.reduce_scatter(
                scattered[rank][part], scattered[rank], CommandReduction.MAX, rank
            ),
            library.all_to_all(got[rank].chunk(world), sent[rank].chunk(world), rank),
            library.all_gather(gathered[rank], gathered[rank][part], rank),
        ])  # fmt: skip
    # Binding has carried each out alone, so numbers come now.
    for tensors in (sums, scattered, sent, gathered):
        for tensor in tensors:
            tensor.copy_(torch.randn(size))
    stacked = {name: torch.stack(t).float() for name, t in
               (("sums", sums), ("scattered", scattered), ("sent", sent), ("gathered", gathered))}  # fmt: skip
    with monkeypatch.context() as patch:
        patch.setattr(torch, "empty_like", None)  # Nothing is allocated during a call.
        for number in range(4):
            for made in calls:
                assert made[number]() == 0
            for rank, library in enumerate(libraries):
                library.finish(rank)()
    for rank in range(world):
        part = slice(4 * rank, 4 * rank + 4)
        assert torch.equal(sums[rank], stacked["sums"].sum(0).bfloat16())
        assert torch.equal(scattered[rank][part].float(), stacked["scattered"].amax(0)[part])
        assert torch.equal(got[rank].float(), stacked["sent"][:, part].ravel())
        parts = [stacked["gathered"][r, 4 * r : 4 * r + 4] for r in range(world)]
        assert torch.equal(gathered[rank].float(), torch.cat(parts))
    # The last rank's stream waits for all; each stream waits for the end.
    assert streams[world - 1].log.count("wait") == 4 * (world + 1)
    assert streams[0].log.count("wait") == 4


def test_a_local_exchange_takes_what_was_sent_in_order(streams, monkeypatch):
    """Ranks 0 and 2 of three; what one sends to the other arrives in order, and nobody waits for rank 1."""
    copied = []
    monkeypatch.setattr(cuda, "call", lambda name, *args: copied.append((name, *args)))
    monkeypatch.setattr(Stream, "cuda_stream", property(lambda self: self.handle), raising=False)
    meeting = Meeting(3)
    op = Exchange(4, (0, 2), (), ())
    calls = [
        LocalLibrary(0, 0, meeting).exchange(op, [(2, 0xA0, 8), (2, 0xA8, 16)], [(2, 0xB0, 4)], 70),
        LocalLibrary(2, 0, meeting).exchange(op, [(0, 0xC0, 4)], [(0, 0xD0, 8), (0, 0xD8, 16)], 72),
    ]
    for _ in range(2):
        for call in calls:
            call()
    assert copied == 2 * [
        ("cuMemcpyAsync", 0xB0, 0xC0, 4, 72),
        ("cuMemcpyAsync", 0xD0, 0xA0, 8, 72),
        ("cuMemcpyAsync", 0xD8, 0xA8, 16, 72),
    ]


def test_a_call_that_a_rank_has_not_made_is_no_end(streams):
    meeting = Meeting(2)
    first, second = (LocalLibrary(rank, 0, meeting) for rank in range(2))
    one, two = (
        library.all_reduce(torch.ones(4), CommandReduction.SUM, rank)
        for rank, library in enumerate((first, second))
    )
    one()
    two()
    first.finish(0)()
    second.finish(1)()
    one()
    with pytest.raises(AssertionError, match="not all ranks have made"):
        first.finish(0)()
