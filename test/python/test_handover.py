"""Tiles that hand commands over to the role beside them, in PTX: what stands before what, on both sides of the ring."""

import re

import numpy as np
import pytest
from test_roles import ACQUIRE, COUNT, RELEASE, SMALL, find_in_order

import syncopate
from syncopate.abi import NO_RECORD, Realization
from syncopate.kernels import bind_gemm, gemm
from syncopate.runtime.handover import (
    common_ring,
    find_handover,
    handing_tile,
    queued_commands,
    ring_role,
)
from syncopate.tables import Table

STORE = r"cp\.async\.bulk\.tensor\.2d\.global"
STORED = r"cp\.async\.bulk\.wait_group 0;"
WAIT = r"mbarrier\.try_wait\.parity\.shared"
ARRIVE = r"mbarrier\.arrive\.shared"
BARRIER = r"bar\.sync|barrier\.sync"
ADD = RELEASE.replace("atom", "(atom|red)").replace("exch", "add")
COLOCATED = ["ldst_colocated", "tma_colocated"]


def build(realization, also=None, rows=256):
    """Each rank's tiles go to the other one, one by one; and in larger pieces by another realization."""
    plan = syncopate.Plan("send", [2])
    c = plan.buffer("c", (rows, 128), "bf16")
    made = [plan.produce(c[:], rank=rank) for rank in range(2)]
    height, width = SMALL.block_m, SMALL.block_n
    sent = plan.buffer("d", (rows, 128), "bf16")
    for rank in range(2):
        for row in range(0, rows, height):
            for column in range(0, 128, width):
                tile = (slice(row, row + height), slice(column, column + width))
                plan.put(
                    c[tile],
                    sent[tile],
                    src_rank=rank,
                    dst_rank=1 - rank,
                    after=[made[rank]],
                    realization=realization,
                )
    if also is not None:
        again = plan.buffer("e", (rows, 128), "bf16")
        for rank in range(2):
            ends = {"src_rank": rank, "dst_rank": 1 - rank}
            plan.put(c[:], again[:], **ends, after=[made[rank]], realization=also)
    a = syncopate.Tensor("a", (rows, 128), "bf16")
    return syncopate.compile(gemm, plan, **bind_gemm(a, 128, SMALL, c=c))


def parts(program):
    """The PTX from where the warps beside the computation give registers away on, and all but that of these warps."""
    ptx = program.ir["ptx"]
    begin = ptx.index("setmaxnreg.dec")
    end = max(ptx.rfind(f"{name}.py:") for name in ("copy", "copy_tma"))
    return ptx[begin : ptx.index("wgmma", begin)], ptx[:begin] + ptx[end:]


@pytest.mark.parametrize("realization", COLOCATED)
def test_tile_is_handed_over_when_its_stores_are_complete(realization):
    """Stores complete, a slot is empty, the record, a barrier, the arrival; nothing in global memory."""
    _, compute = parts(build(realization))
    stores = [match.start() for match in re.finditer(STORE, compute)]
    assert stores
    for start in stores:
        text = compute[start:]
        end = find_in_order(text, STORED, WAIT, r"st\.shared\.b32", BARRIER, ARRIVE)
        assert not re.search(r"\b(atom|red)\.", text[:end])


def test_role_takes_a_record_and_announces_what_it_has_moved():
    """A record, the slot given back, loads and stores, a barrier, and a release that other ranks see."""
    role, _ = parts(build("ldst_colocated"))
    find_in_order(
        role,
        WAIT,
        r"fence\.proxy\.async",
        r"ld\.shared\.b32",
        BARRIER,
        ARRIVE,
        r"ld\.global\.v4",
        r"st\.global\.v4",
        BARRIER,
        ADD,
    )


def test_role_on_tma_takes_a_record_before_bulk_loads():
    program = build("tma_colocated")
    role, _ = parts(program)
    find_in_order(role, WAIT, r"fence\.proxy\.async", r"ld\.shared\.b32", BARRIER, ARRIVE)
    # Blocks of PTX are in another order than those of the IR it is made of.
    text = program.ir["ttgir"]
    find_in_order(
        text[text.index("partition0") :],
        r"ttng\.wait_barrier",
        r"ttg\.local_load",
        r"(gpu|ttg)\.barrier",
        r"ttng\.arrive_barrier",
        r"ttng\.async_tma_copy_local_to_global",
        r"ttng\.async_tma_copy_global_to_local",
        STORED,
        r"(gpu|ttg)\.barrier",
        r"tt\.atomic_rmw add, release, sys",
    )


@pytest.mark.parametrize("also", ["ldst_dedicated", "copy_engine"])
def test_tile_that_others_wait_for_is_counted_besides(also):
    program = build("ldst_colocated", also)
    _, compute = parts(program)
    at = [match.start() for match in re.finditer(STORE, compute)][-1]
    find_in_order(compute[at:], STORED, WAIT, ARRIVE, BARRIER, COUNT, RELEASE)
    for rank in range(2):
        rows = program.rank_tables(rank)["tile_groups"].rows()
        assert all(row["group"] >= 0 and row["command_end"] > row["command_begin"] for row in rows)


def test_ring_is_compiled_only_where_tiles_hand_over():
    """One large piece is announced by a flag, whoever moves it; another realization has no use for a ring."""
    plan = syncopate.Plan("send", [2])
    c = plan.buffer("c", (256, 128), "bf16")
    d = plan.buffer("d", (256, 128), "bf16")
    made = plan.produce(c[:], rank=0)
    plan.put(c[:], d[:], src_rank=0, dst_rank=1, after=[made], realization="ldst_colocated")
    a = syncopate.Tensor("a", (256, 128), "bf16")
    program = syncopate.compile(gemm, plan, **bind_gemm(a, 128, SMALL, c=c))
    assert common_ring(program.rank_tables(rank) for rank in range(2)) is None
    role, _ = parts(program)
    assert "ring.py" in build("ldst_colocated").ir["ptx"]
    assert "ring.py" not in program.ir["ptx"]
    find_in_order(role, ACQUIRE, COUNT, RELEASE)
    assert ring_role(build("ldst_dedicated").rank_tables(0)) is None


def test_words_say_which_tile_hands_over():
    words = build("ldst_colocated").explain()
    assert "4 of its tiles hand 4 transfers over to the warps beside them" in words
    assert "puts c[0:128, 64:128] into d[0:128, 64:128] to rank 1" in words
    assert re.search(
        r"into d\[0:128, 64:128\] to rank 1 by ldst_colocated, from tile \(0, 1\)", words
    )


def test_records_count_the_tiles_of_a_cta_in_its_order():
    """Tiles in a random order on three CTAs, of which some hand over one command or several."""
    rng = np.random.default_rng()
    count, ctas = 11, 3
    order = rng.permutation(count)
    tiles = np.zeros((count, 5), np.int64)
    tiles[:, 0], tiles[:, 1] = order // 4, order % 4
    sizes = rng.integers(0, 3, count)
    groups = np.zeros((count, 6), np.int64)
    commands = np.zeros((3 + sizes.sum(), 1), np.int64) + Realization.LDST_COLOCATED
    commands[1] = Realization.LDST_DEDICATED
    commands[2] = Realization.COPY_ENGINE
    at = 3
    for tile in order:
        groups[tile, 4:] = (at, at + sizes[tile]) if sizes[tile] else (0, 0)
        at += sizes[tile]
    tables = {
        "tiles": Table(("c0", "c1", "c2", "wait_begin", "wait_end"), tiles),
        "tile_groups": Table(
            ("group", "accumulates", "wait_begin", "wait_end", "command_begin", "command_end"),
            groups,
        ),
        "commands": Table(("realization",), commands),
    }
    handover = find_handover(tables, ctas)
    # The kernel reads the dedicated role's command first, the engine's not at all.
    for tile in range(count):
        assert handover.end[tile] - handover.begin[tile] == sizes[tile]
        if sizes[tile]:
            assert handover.begin[tile] == groups[tile, 4] - 1
        else:
            assert handover.record[tile] == NO_RECORD
    assert all(handing_tile(tables, row) is None for row in range(3))
    for row in range(3, len(commands)):
        found = handing_tile(tables, row)
        assert groups[found.number, 4] <= row < groups[found.number, 5]
        assert order[found.position] == found.number
    for cta in range(ctas):
        mine = [tile for tile in order[cta::ctas] if sizes[tile]]
        assert handover.record[mine].tolist() == list(range(len(mine)))
        assert handover.records[cta] == len(mine)
    assert queued_commands(tables, Realization.LDST_COLOCATED) == 1
    assert queued_commands(tables, Realization.LDST_DEDICATED) == 1
