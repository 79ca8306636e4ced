"""Symmetric memory that programs of several ranks take and let go of in any order; ranks are threads."""

import gc
import random
import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from rank_threads import on_ranks  # noqa: E402

from syncopate.agreement import Alone, Processes  # noqa: E402
from syncopate.errors import SyncopateError  # noqa: E402
from syncopate.runtime import pool as module  # noqa: E402
from syncopate.runtime.pool import ALIGNMENT, Arena, Places, Pool  # noqa: E402

pytestmark = pytest.mark.any_triton

ARENA_BYTES = 1 << 20
UNIT = ARENA_BYTES // 32


@pytest.fixture(autouse=True)
def small_arenas(monkeypatch):
    monkeypatch.setattr(module, "ARENA_BYTES", ARENA_BYTES)
    monkeypatch.setattr(module, "_GRANULARITY", 2 * UNIT)


class Bytes:
    """Part of an array, as numpy takes it from whoever has one."""

    def __init__(self, owner, memory, begin, nbytes):
        self.owner, self.memory = owner, memory
        self.__array_interface__ = {
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (memory.ctypes.data + begin, False),
            "version": 3,
        }


class Host:
    """Memory of the CPU. A rank's addresses begin with its number, the arena's, and where it begins there.

    Attributes:
        lacks: Raised when memory is asked for.
        breaks: Raised when it is connected.
    """

    def __init__(self, rank, world, inset=0):
        self.rank, self.world, self.inset = rank, world, inset
        self.local_ranks = (rank,)
        self.lacks = self.breaks = None
        self.arenas, self.settled, self.prepared = {}, 0, 0

    def settle(self):
        self.settled += 1

    def prepare(self):
        self.prepared += 1

    def reserve(self, nbytes):
        if self.lacks:
            raise self.lacks
        # What was there before is not zero.
        return np.full(nbytes, 0xAB, np.uint8)

    def connect(self, memory):
        if self.breaks:
            raise self.breaks
        number = len(self.arenas)
        self.arenas[number] = memory
        bases = [(rank + 1 << 50) + (number << 40) for rank in range(self.world)]
        return Arena(tuple(bases), memory, self.inset)

    def view(self, owner, rank, address, nbytes):
        assert rank == self.rank and address >> 50 == rank + 1
        begin = (address & (1 << 40) - 1) - self.inset
        memory = self.arenas[address >> 40 & 1023]
        assert begin + nbytes <= memory.size
        return torch.from_numpy(np.asarray(Bytes(owner, memory, begin, nbytes)))


def with_pools(count, body):
    """What `body(pool, source)` returns, or raises, on each of so many ranks."""
    store = dist.HashStore()

    def run(rank):
        source = Host(rank, count, inset=4096 * rank)
        return body(Pool(Processes(store, rank, count, seconds=30), source), source)

    return on_ranks(count, run)


def test_blocks_are_zeroed_and_where_each_rank_says():
    def body(pool, source):
        one, two = pool.allocate(5000), pool.allocate(1)
        for block, nbytes in ((one, 5000), (two, 1)):
            (tensor,) = block.tensors.values()
            assert tensor.numel() == nbytes and not tensor.any()
        assert source.prepared == 1
        return one.addresses, two.addresses, pool.use

    results = with_pools(3, body)
    assert results[0] == results[1] == results[2]
    one, two, use = results[0]
    assert one == tuple((rank + 1 << 50) + 4096 * rank for rank in range(3))
    assert [b - a for a, b in zip(one, two, strict=True)] == [5 * 1024] * 3
    assert (use.reserved, use.used) == (ARENA_BYTES, 6 * 1024)


def test_block_is_free_when_all_ranks_have_let_go_and_said_so():
    def body(pool, source):
        first = pool.allocate(UNIT)
        second = pool.allocate(UNIT)
        at = first.addresses
        if source.rank == 1:
            del first
        other = pool.allocate(UNIT)
        assert other.addresses not in (at, second.addresses)
        if source.rank == 0:
            first.tensors[0].fill_(7)
            del first
        again = pool.allocate(UNIT)
        assert again.addresses == at
        assert not next(iter(again.tensors.values())).any()
        assert pool.use.used == 3 * UNIT and pool.use.reserved == ARENA_BYTES
        # Before it says so, a rank has waited for its GPU each time.
        assert source.settled >= 4

    assert with_pools(2, body) == [None] * 2


def test_tensor_that_outlives_its_program_keeps_the_memory():
    def body(pool, source):
        block = pool.allocate(4096)
        at = block.addresses
        kept = block.tensors[source.rank][100:200].view(torch.int32)[3:]
        kept.fill_(source.rank)
        del block
        assert pool.allocate(4096).addresses != at
        assert kept.eq(source.rank).all()
        del kept
        assert pool.allocate(4096).addresses == at

    assert with_pools(2, body) == [None] * 2


def test_arenas_of_which_nothing_is_used_make_room_for_larger_ones():
    def body(pool, source):
        sizes = []
        for nbytes in (UNIT, 40 * UNIT, 41 * UNIT + 5):
            block = pool.allocate(nbytes)
            sizes.append(pool.use.reserved)
            del block
        return sizes

    assert with_pools(2, body) == [[ARENA_BYTES, 40 * UNIT, 42 * UNIT]] * 2


def test_collector_runs_before_the_pool_grows():
    class Program:
        pass

    pool, program = Pool(Alone(), Host(0, 1)), Program()
    gc.disable()
    try:
        program.block, program.itself = pool.allocate(30 * UNIT), program
        at = program.block.addresses
        del program
        assert pool.allocate(30 * UNIT).addresses == at
    finally:
        gc.enable()


@pytest.mark.parametrize("how", ["lacks", "breaks"])
def test_rank_without_memory_is_named_and_the_others_go_on(how):
    def body(pool, source):
        kept = pool.allocate(4096)
        setattr(source, how, MemoryError("out of memory") if source.rank == 1 else None)
        with pytest.raises((SyncopateError, MemoryError)) as raised:
            pool.allocate(50 * UNIT)
        setattr(source, how, None)
        assert pool.allocate(8 * UNIT).addresses[0] - kept.addresses[0] == 4096
        assert pool.allocate(50 * UNIT)
        return str(raised.value)

    told = f"{50 * UNIT:,} bytes of symmetric memory: failed on rank 1: MemoryError: out of memory"
    assert with_pools(3, body) == [told, "out of memory", told]


def test_ranks_that_ask_for_different_sizes_are_told_so():
    def body(pool, source):
        with pytest.raises(SyncopateError) as raised:
            pool.allocate(4096 * (1 + source.rank))
        assert pool.allocate(4096)
        return str(raised.value)

    (told,) = set(with_pools(2, body))
    assert told.startswith("rank 1 asks for 8,192 bytes of symmetric memory, but rank 0 for 4,096;")


def test_several_local_ranks_let_go_together():
    source = Host(0, 1)
    source.local_ranks = (0,)
    pool = Pool(Alone(), source)
    first = pool.allocate(2048)
    at = first.addresses
    del first
    assert pool.allocate(2048).addresses == at


@pytest.mark.parametrize("seed", range(4))
def test_random_programs_never_share_memory(seed):
    """Each rank lets go whenever it likes, from other threads too; what is in use on any rank is nobody else's."""
    world, steps = 3, 120
    plan = random.Random(seed)
    sizes = [plan.choice([1, 1000, 7000, UNIT, 5 * UNIT + 3]) for _ in range(steps)]
    live = [{} for _ in range(world)]
    barrier = threading.Barrier(world, timeout=30)

    def body(pool, source):
        draw = random.Random(seed * 100 + source.rank)
        mine, found = live[source.rank], []
        for number, nbytes in enumerate(sizes):
            block = pool.allocate(nbytes)
            tensor = block.tensors[source.rank]
            assert not tensor.any()
            tensor.fill_(1 + number % 250)
            found.append(block.addresses)
            begin = block.addresses[0]
            mine[number] = (begin, begin + nbytes, tensor)
            barrier.wait()
            # Offsets are those of rank 0 everywhere, so what any rank uses must be apart from what all others use.
            for rank in range(world):
                for other, (low, high, _) in live[rank].items():
                    assert other == number or high <= begin or begin + nbytes <= low
            barrier.wait()
            del block, tensor
            while len(mine) > draw.randrange(1, 9):
                chosen = draw.choice(list(mine))
                *_, last = mine.pop(chosen)
                assert last.eq(1 + chosen % 250).all()
                if draw.random() < 0.3:
                    # Whoever drops it last may be any thread.
                    thread = threading.Thread(target=lambda kept: None, args=(last,))
                    del last
                    thread.start()
                    thread.join()
        used = pool.use.used
        mine.clear()
        last = None
        pool.allocate(1)
        return found, used, pool.use

    results = with_pools(world, body)
    assert results[0][0] == results[1][0] == results[2][0]
    assert results[0][2] == results[1][2] == results[2][2]
    # All of it is free again but for the last block, and what other ranks had not yet said.
    assert results[0][2].used <= sum(sorted(sizes)[-9:]) + 9 * ALIGNMENT
    assert results[0][2].reserved < sum(sizes)


@pytest.mark.parametrize("seed", range(3))
def test_places_are_those_of_a_map_of_bytes(seed):
    """Against an array with an entry for each unit: nothing is given out twice, and nothing that fits is refused."""
    draw = random.Random(seed)
    places, maps, taken = Places(), {}, []
    for _ in range(400):
        if taken and draw.random() < 0.5:
            number, offset, size = taken.pop(draw.randrange(len(taken)))
            places.give(number, offset, size)
            assert maps[number][offset : offset + size].all()
            maps[number][offset : offset + size] = False
            continue
        size = draw.randrange(1, 30)
        found = places.take(size)
        longest = max((longest_run(~used) for used in maps.values()), default=0)
        assert (found is not None) == (longest >= size)
        if found is None:
            for number in places.drop_unused():
                assert not maps.pop(number).any()
            total = draw.randrange(size, 100)
            maps[places.add(total)] = np.zeros(total, bool)
            found = places.take(size)
        number, offset = found
        assert not maps[number][offset : offset + size].any()
        maps[number][offset : offset + size] = True
        taken.append((number, offset, size))
        assert places.use.used == sum(used.sum() for used in maps.values())
        assert places.use.reserved == sum(used.size for used in maps.values())


def longest_run(free):
    edges = np.flatnonzero(np.diff(np.concatenate([[False], free, [False]]).astype(int)))
    return max(edges[1::2] - edges[::2], default=0)
