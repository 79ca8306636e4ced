"""Processes that agree in a store: late ones, groups that are made anew, and what is left behind."""

import gc
import threading

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from rank_threads import on_ranks  # noqa: E402

from syncopate.agreement import (  # noqa: E402
    Alone,
    Processes,
    expect_same,
    find_agreement,
    processes,
    require,
)
from syncopate.errors import SyncopateError  # noqa: E402

pytestmark = pytest.mark.any_triton


def test_every_rank_hears_what_every_one_says_and_nothing_is_left():
    store = dist.HashStore()

    def body(rank):
        ranks = Processes(store, rank, 3, seconds=20)
        return [ranks.exchange("here", [rank, number]) for number in range(20)]

    expected = [[[rank, number] for rank in range(3)] for number in range(20)]
    assert on_ranks(3, body) == [expected] * 3
    # A counter of each rank, and the keys of the last exchange.
    assert store.num_keys() == 3 + 3


def test_late_rank_is_named_and_nothing_goes_on_without_it():
    store = dist.HashStore()
    came = threading.Event()

    def body(rank):
        ranks = Processes(store, rank, 3, seconds=0.3 if rank != 1 else 20)
        ranks.exchange("here", rank)
        if rank == 1:
            came.wait(20)
            return None
        try:
            with pytest.raises(
                SyncopateError, match=r"rank 1 has not made this call within 0.3 s: x"
            ):
                ranks.exchange("here", rank, "x")
            with pytest.raises(SyncopateError, match=r"rank 1 .*: make the process group again"):
                ranks.exchange("here", rank)
        finally:
            came.set()
        return None

    assert on_ranks(3, body) == [None] * 3


def test_ranks_that_came_apart_meet_again_in_the_same_store():
    """What is left of the first time is not taken for what is said the second time."""
    store = dist.HashStore()

    def body(rank):
        first = Processes(store, rank, 2, seconds=0.2)
        if rank == 0:
            with pytest.raises(SyncopateError, match="rank 1 has not"):
                first.exchange("here", "old")
        again = Processes(store, rank, 2, seconds=20)
        return again.exchange("here", "new")

    assert on_ranks(2, body) == [["new", "new"]] * 2


def test_other_calls_are_named():
    store = dist.HashStore()

    def body(rank):
        expect_same(Processes(store, rank, 2, seconds=20), {"m": 10 + rank, "n": 2})

    for error in on_ranks(2, body):
        assert str(error).startswith("rank 1 calls with m 11, but rank 0 with m 10;")


def test_own_error_is_raised_here_and_named_elsewhere():
    store, seen = dist.HashStore(), []

    def body(rank):
        ranks = Processes(store, rank, 2, seconds=20)
        seen.append(require(ranks, "x", lambda: rank))
        return require(ranks, "a thing", lambda: 1 // (1 - rank))

    first, second = on_ranks(2, body)
    assert sorted(seen) == [0, 1]
    assert str(first).startswith("a thing: failed on rank 1: ZeroDivisionError: ")
    assert isinstance(second, ZeroDivisionError)


def test_a_group_has_one_agreement_and_a_new_group_another():
    store = dist.HashStore()
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        first = processes()
        assert processes(dist.group.WORLD) is first and first.group is dist.group.WORLD
        assert find_agreement(1) is first and isinstance(find_agreement(2), Alone)
        assert first.exchange("here", "a") == ["a"]
    finally:
        dist.destroy_process_group()
    gc.collect()
    assert first.group is None
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        second = processes()
        assert second is not first and second.exchange("here", "b") == ["b"]
    finally:
        dist.destroy_process_group()


def test_ranks_that_are_not_at_the_same_place_are_told_so_on_all():
    """As after an error on one rank between two meetings; what it was is not lost."""
    store = dist.HashStore()

    def body(rank):
        ranks = Processes(store, rank, 2, seconds=20)

        def make():
            if rank == 1:
                raise MemoryError("out of memory")
            ranks.exchange("a barrier")

        require(ranks, "a thing", make)

    first, second = on_ranks(2, body)
    told = "rank 1 has come to the end of a step, but rank 0 to a barrier; one of them may have failed alone"
    for error in (first, second):
        assert isinstance(error, SyncopateError) and str(error).startswith(told)
    assert isinstance(second.__cause__, MemoryError)
