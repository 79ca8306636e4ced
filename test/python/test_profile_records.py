"""Records of kernels, by numbers that were written by hand: what is read, what is missing, how clocks go together."""

import hand_tables
import pytest
from profile_runs import role, write_lanes

from syncopate.abi import FIRST_EPOCH, ProfileEvent, Realization
from syncopate.errors import InternalError, SyncopateError
from syncopate.profile import Profile, SpanKind, TimeSource, read_lanes
from syncopate.profile.clocks import estimate_clocks
from syncopate.runtime.commands import split_commands

pytestmark = pytest.mark.any_triton

E = ProfileEvent
LDST = int(Realization.LDST_COLOCATED)


def test_lanes_hold_records_in_order_and_count_what_did_not_fit():
    entries = role(1, 50, 90, (E.TILE_BEGIN, 3, 60), (E.WAIT_BEGIN, 0, 61), (E.WAIT_END, 0, 70))
    words = write_lanes(3, 4, {(2, 0): entries, (1, 4): role(1, 5, 6)})
    lanes = read_lanes(words, 3, rank=1, gpu="g").lanes
    assert [(lane.cta, lane.role, lane.sm, lane.dropped) for lane in lanes] == [
        (1, 4, 101, 0),
        (2, 0, 102, 1),
    ]
    read = [(record.event, record.subject, record.ns) for record in lanes[1].records]
    assert read == entries[:4]


def test_words_have_to_be_lanes():
    with pytest.raises(InternalError, match="a profile of 3 CTAs cannot have 29 words"):
        read_lanes(write_lanes(1, 1, {})[:1].repeat(29), 3, rank=0, gpu="g")


@pytest.fixture
def program():
    made = hand_tables.all_gather(2, num_ctas=2)
    made.name = "hand"
    return made


def command_of(program, rank, other):
    """Row, as kernels read it, of the transfer by which a rank sends its shard, and the wait for it at the other."""
    tables = program.rank_tables(rank)
    device, _ = split_commands(tables["commands"])
    rows = tables["commands"].rows()
    (kernel_row,) = [at for at, row in enumerate(device) if rows[row]["dst_rank"] == other]
    row = rows[device[kernel_row]]
    signals = tables["signals"].rows()[row["signal_begin"] : row["signal_end"]]
    waits = program.rank_tables(other)["waits"].rows()
    wait, *_ = [
        at
        for at, each in enumerate(waits)
        if each["count"] and each["signal"] in {signal["signal"] for signal in signals}
    ]
    return kernel_row, wait


def records_of(program, rank, *, sends, sees, ahead=0, gpu=None, call=FIRST_EPOCH):
    """A rank that sends its shard until `sends`, and waits for the other's until `sees`, by the clock of rank 0."""
    command, _ = command_of(program, rank, 1 - rank)
    _, wait = command_of(program, 1 - rank, rank)
    copy = [(E.COMMAND_BEGIN, command, 100 + ahead), (E.COMMAND_END, command, sends + ahead)]
    blocked = [(E.WAIT_BEGIN, wait, 120 + ahead), (E.WAIT_END, wait, sees + ahead)]
    lanes = {
        (0, 0): role(call, 50 + ahead, sees + 80 + ahead, (E.TILE_BEGIN, 4, 110 + ahead), *blocked),
        (0, LDST): role(call, 60 + ahead, sends + 10 + ahead, *copy),
    }
    return read_lanes(
        write_lanes(2, 64, lanes), 2, rank=rank, gpu=f"gpu {rank}" if gpu is None else gpu
    )


def test_clocks_are_put_between_what_flags_say(program):
    """Rank 1's clock is 10 µs ahead. Its flag is seen 400 ns after its transfer, rank 0's after 200."""
    ranks = [
        records_of(program, 0, sends=1000, sees=1900),
        records_of(program, 1, sends=1500, sees=1200, ahead=10_000),
    ]
    own, other = estimate_clocks(program, ranks).offsets
    assert (own.ns, own.within_ns) == (0, 0)
    assert other.within_ns == pytest.approx(300)
    assert abs(other.ns + 10_000) <= other.within_ns
    profile = Profile.of_records(program, ranks, TimeSource.MEASURED)
    assert "rank 1 -9.9 µs (± 0.3)" in profile.run.clock


def test_one_clock_is_not_moved(program):
    ranks = [records_of(program, rank, sends=1000, sees=1500, gpu="same") for rank in range(2)]
    assert str(estimate_clocks(program, ranks)) == "all ranks have one clock"


def test_clock_without_bounds_says_so(program):
    lanes = {(0, 0): role(1, 0, 10)}
    ranks = [read_lanes(write_lanes(2, 8, lanes), 2, rank=rank, gpu=str(rank)) for rank in range(2)]
    assert "rank 1 +0.0 µs (bounded from one side at most)" in str(estimate_clocks(program, ranks))


def test_waits_tiles_and_transfers_get_their_meaning(program):
    ranks = [
        records_of(program, rank, sends=1000, sees=1500, gpu="same", call=7) for rank in range(2)
    ]
    run = Profile.of_records(program, ranks, TimeSource.MEASURED).run
    assert run.us == pytest.approx(1.53)
    computing = run.of_rank(0)[0]
    tile, wait = computing.spans
    assert tile.kind is SpanKind.TILE and (tile.begin_us, tile.end_us) == (0.06, 1.53)
    assert (wait.begin_us, wait.end_us) == (0.07, 1.45)
    assert wait.cause.label == "data from rank 1"
    (maker,) = wait.cause.makers
    (moving,) = [track for track in run.of_rank(1) if track.role is Realization.LDST_COLOCATED]
    assert [span.key for span in moving.spans] == [maker]
    assert "from rank 1 to rank 0" in moving.spans[0].name
    assert {(link.src, link.dst) for link in run.links} == {(0, 1), (1, 0)}
    shard = program.buffers[0].nbytes // 2
    assert {link.nbytes for link in run.links} == {shard}


def test_calls_are_told_apart(program):
    lanes = {
        (0, 0): [*role(3, 0, 10, (E.TILE_BEGIN, 0, 1)), *role(4, 20, 50, (E.TILE_BEGIN, 0, 30))]
    }
    ranks = [read_lanes(write_lanes(2, 64, lanes), 2, rank=rank, gpu="g") for rank in range(2)]
    first, last = Profile.of_records(program, ranks, TimeSource.MEASURED).runs
    assert (first.us, last.us) == (0.01, 0.03)


def test_empty_buffers_are_refused(program):
    ranks = [read_lanes(write_lanes(2, 8, {}), 2, rank=rank, gpu="g") for rank in range(2)]
    with pytest.raises(SyncopateError, match="program hand has left no records; call it first"):
        Profile.of_records(program, ranks, TimeSource.MEASURED)
