"""What is made of runs: the critical path, shares of the time, words, traces and files."""

import dataclasses
import json

import pytest
from profile_runs import TILE, TRANSFER, tile, transfer, two_ranks, wait

from syncopate.abi import Realization
from syncopate.errors import SyncopateError
from syncopate.profile import (
    CauseKind,
    Key,
    LinkUse,
    Run,
    TimeSource,
    Track,
    describe_run,
    find_critical_path,
    find_shares,
    load_runs,
    save_runs,
    to_chrome_trace,
)

pytestmark = pytest.mark.any_triton


def test_critical_path_goes_by_way_of_what_ended_waits():
    path = find_critical_path(two_ranks())
    assert [link.span.key for link in path] == [
        Key(TILE, 1, 0),
        Key(TRANSFER, 1, 0),
        Key(TILE, 0, 1),
    ]
    assert [(link.begin_us, link.end_us) for link in path] == [(0, 40), (42, 60), (62, 100)]
    assert [link.waited_for is not None for link in path] == [True, True, False]


def test_critical_path_begins_with_what_the_end_of_a_call_waits_for():
    key = Key(TRANSFER, 1, 0)
    tracks = (
        Track(0, None, 0, None, 0, 80, (tile(0, 0, 0, 20), wait(21, 80, makers=[key]))),
        Track(1, Realization.TMA_DEDICATED, 0, None, 0, 75, (transfer(1, 0, 5, 75),)),
    )
    run = Run("end", TimeSource.MEASURED, "", 80, 2, 1, tracks)
    assert [link.span.key for link in find_critical_path(run)] == [key]


def test_a_tile_that_is_looked_up_early_keeps_its_wait():
    """Pipelined loops look the next tile up before they store the one before."""
    key = Key(TRANSFER, 1, 0)
    spans = (tile(0, 0, 0, 52), tile(0, 1, 40, 90), wait(41, 50, makers=[key]))
    tracks = (
        Track(0, None, 0, None, 0, 90, spans),
        Track(1, Realization.TMA_DEDICATED, 0, None, 0, 48, (transfer(1, 0, 5, 48),)),
    )
    path = find_critical_path(Run("early", TimeSource.MEASURED, "", 90, 2, 1, tracks))
    assert [link.span.key for link in path] == [key, Key(TILE, 0, 1)]


def test_empty_run_has_no_path():
    run = Run("none", TimeSource.MEASURED, "", 1.0, 1, 1, (Track(0, None, 0, None, 0, 1, ()),))
    assert find_critical_path(run) == []
    assert "nothing was recorded" in describe_run(run)


def test_shares_of_a_rank_add_up():
    first, second = find_shares(two_ranks())
    assert first.compute == pytest.approx(0.7)
    assert first.waits == {"data from rank 1": pytest.approx(0.3)}
    assert (first.start, first.tail, first.other) == pytest.approx((0, 0, 0))
    assert (second.compute, second.tail, second.end) == pytest.approx((0.8, 0.2, 0))
    assert second.waits == {}
    # Data move from 42 to 60; rank 0 waits all the while, rank 1 computes.
    assert (first.moving, first.uncovered) == pytest.approx((0.18, 0.18))
    assert (second.moving, second.uncovered) == pytest.approx((0.18, 0))


def test_ctas_without_tiles_are_idle():
    run = dataclasses.replace(two_ranks(), num_ctas=2)
    first, second = find_shares(run)
    assert (first.compute, first.tail) == pytest.approx((0.35, 0.5))
    assert (second.compute, second.tail) == pytest.approx((0.4, 0.6))


def test_words_say_where_the_time_went():
    text = describe_run(two_ranks())
    assert "in tiles for 75.0 % of the time" in text
    assert "30.0 %  waiting for data from rank 1" in text
    assert "rank 1 sends 0.02 MiB to rank 0: for 18.0 % of the time, 1.0 GB/s then" in text
    assert "critical path: 3 pieces, 2 of them ended by another's wait" in text
    assert "18.0 µs  transfers of rank 1 by ldst_colocated" in text
    assert "more splits" in text


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        ({"links": (LinkUse(1, 0, ((0.0, 95.0, 10**6),)),)}, "fewer bytes"),
        ({"us": 140.0}, "more work in a call: for 28.6 % of the time"),
        (
            {"us": 140.0, "links": (LinkUse(1, 0, ((90.0, 120.0, 9),)),)},
            "transfers that end earlier",
        ),
        ({"num_ctas": 3}, "leave 33.3 % of the last round without work"),
        ({}, "tiles that take alike"),
        ({"source": TimeSource.SIMULATED}, "what the simulator takes says nothing"),
    ],
)
def test_hints_follow_from_what_is_seen(change, hint):
    text = describe_run(dataclasses.replace(two_ranks(), **change))
    assert hint in text.partition("what to try:")[2]


@pytest.mark.parametrize(
    ("kind", "hint"),
    [
        (CauseKind.RING, "more CTAs for communication"),
        (CauseKind.CALL, "the same work on every rank"),
        (CauseKind.TILES, "smaller pieces"),
    ],
)
def test_hints_go_by_the_cause_of_waits(kind, hint):
    track = Track(0, None, 0, None, 0, 10, (tile(0, 0, 0, 10), wait(1, 5, kind, 0)))
    text = describe_run(Run("x", TimeSource.MEASURED, "", 10, 1, 1, (track,)))
    assert hint in text.partition("what to try:")[2]


def test_transfers_may_take_no_time_by_a_coarse_clock():
    run = dataclasses.replace(two_ranks(), links=(LinkUse(1, 0, ((42.0, 42.0, 18_000),)),))
    assert "rank 1 sends 0.02 MiB to rank 0: for 0.0 % of the time\n" in describe_run(run)


def test_good_run_gets_no_hint():
    track = Track(0, None, 0, None, 0, 10, (tile(0, 0, 0, 10),))
    text = describe_run(Run("x", TimeSource.MEASURED, "", 10, 1, 1, (track,)))
    assert "nothing stands out: tiles take 100.0 %" in text


def test_prediction_stands_beside_measurement():
    other = dataclasses.replace(two_ranks(us=80.0), source=TimeSource.PREDICTED)
    assert "beside it, predicted: 80.0 µs, +25.0 %" in describe_run(two_ranks(), other)


def test_use_of_a_link_keeps_all_bytes():
    link = LinkUse(0, 1, ((0.0, 7.0, 700), (3.0, 3.0, 50), (9.5, 10.0, 100)))
    for bins in (1, 3, 10, 64):
        rates = link.rates(10.0, bins)
        assert len(rates) == bins
        assert sum(rates) * 10.0 / bins * 1e3 == pytest.approx(850)


def test_trace_is_what_trace_viewers_read():
    run = two_ranks()
    events = json.loads(
        to_chrome_trace([run, dataclasses.replace(run, source=TimeSource.PREDICTED)])
    )
    events = events["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert names == {
        0: "rank 0, measured",
        1: "rank 1, measured",
        1000: "rank 0, predicted",
        1001: "rank 1, predicted",
    }
    spans = [e for e in events if e["ph"] == "X"]
    assert len(spans) == 2 * sum(len(track.spans) for track in run.tracks)
    (waits,) = [e for e in spans if e["pid"] == 0 and e["cat"] == "wait"]
    assert (waits["ts"], waits["dur"], waits["name"]) == (32, 30, "wait for data from rank 1")
    starts, ends = ({e["id"] for e in events if e["ph"] == phase} for phase in "sf")
    assert len(starts) == 4 and starts == ends
    counters = [e for e in events if e["ph"] == "C"]
    assert {e["pid"] for e in counters} == {1, 1001} and max(
        e["args"]["GB/s"] for e in counters
    ) == 1


def test_spans_of_a_thread_nest_in_traces():
    """A tile that begins before the one before has ended is cut there, as viewers want it."""
    track = Track(0, None, 0, None, 0, 90, (tile(0, 0, 0, 52), tile(0, 1, 40, 90)))
    trace = json.loads(to_chrome_trace([Run("x", TimeSource.MEASURED, "", 90, 1, 1, (track,))]))
    spans = [(e["ts"], e["dur"]) for e in trace["traceEvents"] if e["ph"] == "X"]
    assert spans == [(0, 52), (52, 38)]


def test_runs_survive_a_file(tmp_path):
    file = tmp_path / "runs.json"
    runs = [two_ranks(), dataclasses.replace(two_ranks(), source=TimeSource.PREDICTED)]
    save_runs(runs, file)
    assert load_runs(file.read_text()) == runs


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": "x"}', '{"format": "syncopate runs 1"}']
)
def test_other_files_are_refused(text):
    with pytest.raises(SyncopateError, match=r"f\.json: expects"):
        load_runs(text, "f.json")
