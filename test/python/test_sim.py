"""The table executor on schedules written by hand, sound ones and broken ones."""

import pytest
from hand_tables import ENGINE, LDST, all_gather

from syncopate.sim import Deadlock, Gemm, StaleRead, execute_tables

GEMM = Gemm(tile=(8, 8), columns=16)


@pytest.mark.parametrize("world", [2, 3, 4])
@pytest.mark.parametrize(
    ("algorithm", "realization"),
    [("push", LDST), ("pull", LDST), ("ring", LDST), ("push", ENGINE), ("pull", ENGINE)],
)
@pytest.mark.parametrize("rows", [64, 61])
def test_all_gather_matches_numpy(world, algorithm, realization, rows):
    program = all_gather(world, algorithm, realization, shape=(rows, 16))
    for seed in range(4):
        run = execute_tables(program, GEMM, calls=4, seed=seed)
        assert run.max_error < 1e-5


def test_same_seed_same_interleaving():
    program = all_gather(3)
    assert execute_tables(program, GEMM, seed=5) == execute_tables(program, GEMM, seed=5)


def _runs_that_fail(program, error, seeds=40):
    found = []
    for seed in range(seeds):
        try:
            execute_tables(program, GEMM, calls=4, seed=seed)
        except error as e:
            found.append(str(e))
    return found


def test_dropped_tile_wait_is_a_stale_read():
    program = all_gather(3)
    tiles = program.per_rank[1]["tiles"]
    program.per_rank[1]["tiles"] = [(*t[:3], 0, 0) for t in tiles]
    found = _runs_that_fail(program, StaleRead)
    assert any("rank 1" in text and "tile" in text and "of a" in text for text in found)


def test_dropped_done_guard_is_noticed_over_calls():
    program = all_gather(2)
    for tables in program.per_rank:
        tables["commands"] = [(*c[:11], 0, 0, *c[13:]) for c in tables["commands"]]
    found = _runs_that_fail(program, StaleRead)
    assert any("is of call" in text for text in found)


def test_dropped_ready_wait_is_noticed():
    program = all_gather(2, "pull")
    for tables in program.per_rank:
        tables["commands"] = [(*c[:11], 0, 0, *c[13:]) for c in tables["commands"]]
    assert _runs_that_fail(program, StaleRead)


def test_missing_signal_reports_rank_chunk_and_source():
    program = all_gather(3)
    program.per_rank[2]["commands"][0] = (*program.per_rank[2]["commands"][0][:13], 0, 0, LDST, 0)
    with pytest.raises(Deadlock) as caught:
        execute_tables(program, GEMM, seed=1)
    text = str(caught.value)
    assert "rank 0, call 1, tile (" in text
    assert "waits for signal 2 to be 1, is 0: data flag 2, which no transfer raises" in text


def test_wait_for_a_stuck_copy_names_the_copy():
    program = all_gather(2)
    begin, _ = program.per_rank[1]["commands"][0][11:13]
    program.per_rank[1]["waits"][begin] = (1, 7)
    with pytest.raises(Deadlock) as caught:
        execute_tables(program, GEMM, seed=1)
    text = str(caught.value)
    assert "chunk a[32:64, 0:16] from rank 1 (put by rank 1, transfer 1)" in text


def test_missing_tile_is_an_infinite_error():
    program = all_gather(2)
    program.per_rank[0]["tiles"].pop()
    assert execute_tables(program, GEMM).max_error == float("inf")


def test_missing_done_signal_stops_the_next_staging():
    program = all_gather(2, "pull")
    calls = program.per_rank[1]["calls"][0]
    program.per_rank[1]["calls"] = [(*calls[:6], 0, 0)]
    with pytest.raises(Deadlock, match="rank 0, call 2, staging: waits for signal 9 to be 1, is 0"):
        execute_tables(program, GEMM)
