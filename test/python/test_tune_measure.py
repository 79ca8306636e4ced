"""Measurement on several ranks: they agree, drop what fails, go on where they were, and never choose worse."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from tune_fakes import (
    DEFAULT,
    SPACE,
    FakeBench,
    FakeSubject,
    Killed,
    ThreadRanks,
    candidate,
    made_up_us,
)

from syncopate.agreement import Alone, agree, agree_on, attempt, from_first, maximum, settle
from syncopate.errors import SyncopateError
from syncopate.model import find_preset
from syncopate.tune import Auto, Effort, Origin, TuningCache, choose
from syncopate.tune.journal import Journal, read_journal
from syncopate.tune.progress import Progress

MACHINE = find_preset("h200-w2")
EFFORT = Effort(top=4, rounds=3, final_rounds=5, finalists=2)
ENGINE = candidate(realization="copy_engine")


def tune(folder, benches, *, subjects=None, effort=EFFORT, **options):
    """What each rank reports, or raises."""
    world = len(benches)
    subjects = subjects or [FakeSubject(world_size=world) for _ in benches]

    def body(agreement):
        auto = Auto(
            measure=True,
            machine=MACHINE,
            cache=TuningCache(folder),
            effort=effort,
            progress=False,
            agreement=agreement,
            **options,
        )
        return choose(subjects[agreement.rank], auto, benches[agreement.rank])

    return ThreadRanks(world).run(body)


def all_candidates():
    """Everything that is measurable in the space, by brute force."""
    found, new = {DEFAULT}, [DEFAULT]
    while new:
        new = [
            moved
            for one in new
            for axis in SPACE.axes
            for moved in axis.moves(one)
            if moved not in found
        ]
        found.update(new)
    return found


@pytest.mark.parametrize("world", [1, 2, 3])
def test_ranks_choose_alike_and_by_the_slowest(tmp_path, world):
    benches = [FakeBench(skew=float(rank)) for rank in range(world)]
    reports = tune(tmp_path, benches)
    first = reports[0]
    assert first.origin is Origin.MEASUREMENT
    for report, bench in zip(reports, benches, strict=True):
        assert (report.chosen, report.measured, report.final_us) == (
            first.chosen, first.measured, first.final_us,
        )  # fmt: skip
        assert bench.log == benches[0].log and bench.calls == benches[0].calls
        assert not bench.open
    for one in first.measured:
        assert one.us == made_up_us(one.candidate) + world - 1
        assert one.default_us == made_up_us(DEFAULT) + world - 1
    best = min(first.measured, key=lambda one: one.us)
    assert first.chosen == best.candidate and first.regret == 0.0
    assert first.measured[0] == best


def test_default_is_always_measured_and_never_beaten_by_what_is_chosen(tmp_path):
    """Even where the model is wrong about everything."""
    subject = FakeSubject(predicted=lambda one: 1000 - made_up_us(one))
    slow = lambda one: 100.0 if one == DEFAULT else 150.0  # noqa: E731
    (report,) = tune(tmp_path, [FakeBench(us=slow)], subjects=[subject])
    assert report.chosen == DEFAULT
    assert DEFAULT in {one.candidate for one in report.measured}
    assert report.speedup == 1.0 and report.regret == 0.0
    assert report.model_regret == pytest.approx(0.5)


def test_calls_take_turns_and_are_equally_many(tmp_path):
    bench = FakeBench()
    (report,) = tune(tmp_path, [bench])
    other = next(one.candidate for one in report.measured if one.candidate != DEFAULT)
    counts = {one: bench.calls.count(one) for one in bench.log}
    rounds = {EFFORT.rounds + 2, EFFORT.rounds + EFFORT.final_rounds + 4}
    assert {count for one, count in counts.items() if one != DEFAULT} <= rounds
    first = bench.calls.index(other) - 1
    begin = bench.calls[first : first + 4] if bench.calls[first] == DEFAULT else None
    assert begin in ([DEFAULT, other, other, DEFAULT], None)


@pytest.mark.parametrize("how", ["compile_fails", "check_fails", "run_fails"])
def test_what_fails_on_one_rank_is_dropped_on_all(tmp_path, how):
    benches = [FakeBench(), FakeBench()]
    ((fine, _), _) = tune(tmp_path / "fine", benches), None
    best = fine.chosen
    assert best != DEFAULT
    benches = [FakeBench(), FakeBench(**{how: {best}})]
    reports = tune(tmp_path / "broken", benches)
    assert reports[0].chosen == reports[1].chosen != best
    for report in reports:
        assert best.name in report.failed
        assert best not in {one.candidate for one in report.measured}
    assert not benches[0].open and not benches[1].open
    reason = {
        "compile_fails": "does not compile",
        "check_fails": "wrong results",
        "run_fails": "a wait reached its limit",
    }[how]
    for report in reports:
        assert report.failed[best.name].startswith("rank 1: ")
        assert reason in report.failed[best.name]
    assert f"dropped {best.name}: " in str(reports[1])


def test_default_that_cannot_run_is_an_error_on_all_ranks(tmp_path):
    results = tune(tmp_path, [FakeBench(), FakeBench(compile_fails={DEFAULT})])
    assert all(isinstance(result, SyncopateError) for result in results)
    for result in results:
        assert "cannot run: rank 1: SyncopateError: does not compile" in str(result)


def test_interrupted_tuning_goes_on_where_it_stopped(tmp_path):
    whole = FakeBench()
    (expected,) = tune(tmp_path / "whole", [whole])
    order = list(dict.fromkeys(whole.log))
    killer = order[3]
    first = FakeBench(killed_by=killer)
    (result,) = tune(tmp_path / "cut", [first])
    assert isinstance(result, Killed)
    (journal,) = (tmp_path / "cut" / "unfinished").glob("*.jsonl")
    assert sum('"us"' in line for line in journal.read_text().splitlines()) == 3
    # A line that was cut off when the process died does not count.
    with journal.open("a") as file:
        file.write('{"strategy": {"realiz')
    second = FakeBench()
    (report,) = tune(tmp_path / "cut", [second])
    assert report.chosen == expected.chosen and report.resumed == 3
    assert set(order[1:3]).isdisjoint(
        set(second.log) - {one.candidate for one in report.measured[:3]}
    )
    once = [one for one in order[1:3] if one.name not in report.final_us]
    assert not set(once) & set(second.log)
    assert not list((tmp_path / "cut" / "unfinished").glob("*"))
    assert {one.candidate for one in report.measured} == {
        one.candidate for one in expected.measured
    }


def test_nothing_is_lost_behind_a_line_that_was_cut_off_or_beside_another_tuning(tmp_path):
    (report,) = tune(tmp_path, [FakeBench()])
    first, second, third = report.measured[:3]
    path = tmp_path / "journal.jsonl"
    journal = Journal(path, "header", [])
    journal.add(first)
    with path.open("a") as file:
        file.write('{"strategy": {"realiz')
    lines = read_journal(path, "header")
    journal.add(second)
    Journal(path, "header", lines).add(third)
    found = Journal(None, "header", read_journal(path, "header")).measured
    assert set(found) == {one.candidate for one in (first, second, third)}
    assert read_journal(path, "another") == []


def test_candidate_that_kills_twice_is_not_tried_again(tmp_path):
    order = list(dict.fromkeys(tune(tmp_path / "w", [bench := FakeBench()]) and bench.log))
    killer = order[2]
    for _ in range(2):
        (result,) = tune(tmp_path / "cut", [FakeBench(killed_by=killer)])
        assert isinstance(result, Killed)
    last = FakeBench(killed_by=killer)
    (report,) = tune(tmp_path / "cut", [last])
    assert killer not in last.log
    assert report.failed == {killer.name: "did not end, 2 times"}


def test_journal_of_another_machine_or_effort_does_not_count(tmp_path):
    bench = FakeBench()
    tune(tmp_path, [bench])
    killer = list(dict.fromkeys(bench.log))[2]
    tune(tmp_path / "cut", [FakeBench(killed_by=killer)])
    other = Effort(top=4, rounds=4, final_rounds=5, finalists=2)
    (report,) = tune(tmp_path / "cut", [FakeBench()], effort=other)
    assert report.resumed == 0


def test_no_candidate_begins_after_the_budget(tmp_path, monkeypatch):
    clock = iter(range(10**6))
    monkeypatch.setattr("syncopate.tune.tuner.time.monotonic", lambda: float(next(clock)))
    counts = []
    for budget in (8.0, 1e6):
        effort = Effort(budget=budget, top=4, rounds=3, final_rounds=3)
        (report,) = tune(tmp_path / str(budget), [FakeBench()], effort=effort)
        assert report.chosen in {one.candidate for one in report.measured}
        counts.append(len(report.measured))
    assert 1 < counts[0] < counts[1]


def test_what_the_model_cannot_say_is_measured_as_well(tmp_path):
    subject = FakeSubject(unknown=lambda one: one.strategy.realization.value == "tma_colocated")
    fast = lambda one: 50.0 if subject.unknown(one) else made_up_us(one)  # noqa: E731
    (report,) = tune(tmp_path, [FakeBench(us=fast)], subjects=[subject])
    assert subject.unknown(report.chosen) and report.unknown >= 2


def test_axes_that_the_model_cannot_rank_are_measured_from_the_best(tmp_path):
    groups = lambda one: made_up_us(ENGINE) - one.strategy.group_m  # noqa: E731
    (report,) = tune(tmp_path, [FakeBench(us=groups)])
    assert report.chosen.strategy.group_m == 16


@pytest.mark.parametrize(("more", "is_measured"), [(0.02, True), (0.05, False)])
def test_what_the_model_finds_hardly_slower_is_measured_from_the_best(tmp_path, more, is_measured):
    best, other = candidate(splits=2), candidate(splits=4)
    predicted = {DEFAULT: 101.0, best: 100.0, other: 100.0 * (1 + more)}
    subject = FakeSubject(predicted=lambda one: predicted.get(one, 200.0))
    bench = FakeBench(us=lambda one: 50.0 if one == other else predicted.get(one, 200.0))
    effort = Effort(top=1, rounds=3, final_rounds=3)
    (report,) = tune(tmp_path, [bench], subjects=[subject], effort=effort)
    assert (other in bench.log) is is_measured
    assert report.chosen.strategy.splits == (4 if is_measured else 2)


def test_second_call_finds_it_in_the_cache_if_all_ranks_do(tmp_path):
    (first, _) = tune(tmp_path, [FakeBench(), FakeBench()])
    benches = [FakeBench(), FakeBench()]
    reports = tune(tmp_path, benches)
    for report in reports:
        assert report.origin is Origin.CACHE and report.chosen == first.chosen
        assert report.measured == first.measured and report.regret == 0.0
    assert not benches[0].log


def test_cache_of_one_rank_alone_is_used_by_none(tmp_path):
    tune(tmp_path / "0", [FakeBench(), FakeBench()])
    benches = [FakeBench(), FakeBench()]

    def body(agreement):
        auto = Auto(
            measure=True, machine=MACHINE, cache=TuningCache(tmp_path / str(agreement.rank)),
            effort=EFFORT, progress=False, agreement=agreement,
        )  # fmt: skip
        return choose(FakeSubject(), auto, benches[agreement.rank])

    reports = ThreadRanks(2).run(body)
    assert all(report.origin is Origin.MEASUREMENT for report in reports)
    assert benches[0].log and benches[0].log == benches[1].log
    # Each rank has kept the same, so the next time all have it.
    entries = [next(iter(TuningCache(tmp_path / name).entries()))[1] for name in "01"]
    assert entries[0].candidate == entries[1].candidate
    assert entries[0].measured == entries[1].measured


def test_rank_without_a_bench_keeps_others_from_measuring(tmp_path):
    def body(agreement):
        auto = Auto(measure=True, machine=MACHINE, cache=TuningCache(tmp_path), agreement=agreement)
        return choose(FakeSubject(), auto, FakeBench() if agreement.rank else None)

    results = ThreadRanks(2).run(body)
    assert all(isinstance(result, SyncopateError) for result in results)
    assert {str(result) for result in results} == {
        "measure: rank 0: SyncopateError: expects a GPU of each rank, but torch sees none"
    }


def test_measuring_by_the_environment_alone_falls_back(tmp_path, monkeypatch):
    monkeypatch.setenv("SYNCOPATE_MEASURE", "1")
    auto = Auto(machine=MACHINE, cache=TuningCache(tmp_path))
    report = choose(FakeSubject(), auto)
    assert report.origin is Origin.MODEL
    assert "not measured: " in report.reason


def test_ranks_agree():
    def body(agreement):
        own = f"text of {agreement.rank}"
        return (
            agree_on(agreement, "one"),
            agree_on(agreement, own),
            from_first(agreement, lambda: own),
            agree(agreement, agreement.rank != 1),
            maximum(agreement, [agreement.rank, -agreement.rank]),
            settle(agreement, "" if agreement.rank == 0 else f"no {agreement.rank}"),
            settle(agreement, ""),
        )

    expected = (True, False, "text of 0", False, [2, 0], "rank 1: no 1", "")
    assert ThreadRanks(3).run(body) == [expected] * 3
    assert from_first(Alone(), lambda: ("größer",)) == ["größer"]


def test_what_one_rank_cannot_make_none_gets():
    def body(agreement):
        return attempt(agreement, lambda: 6 // (agreement.rank - 1))

    first, second, third = ThreadRanks(3).run(body)
    told = "rank 1: ZeroDivisionError: integer division or modulo by zero"
    assert first == third == (None, told, None)
    assert second[:2] == (None, told) and isinstance(second[2], ZeroDivisionError)
    assert (
        ThreadRanks(2).run(lambda agreement: attempt(agreement, lambda: 3)) == [(3, "", None)] * 2
    )


@pytest.mark.parametrize("broken", ["data", "space", "target"])
def test_rank_that_fails_before_ranks_meet_is_named_on_all(tmp_path, broken):
    class Broken(FakeSubject):
        def __getattribute__(self, name):
            return 1 / 0 if name == broken else super().__getattribute__(name)

    subjects = [FakeSubject(world_size=3), FakeSubject(world_size=3), Broken(world_size=3)]
    results = tune(tmp_path, [FakeBench() for _ in subjects], subjects=subjects)
    assert isinstance(results[2], ZeroDivisionError)
    for result in results[:2]:
        assert str(result) == "fake-0: failed on rank 2: ZeroDivisionError: division by zero"


@pytest.mark.parametrize("error", [MemoryError("out of memory"), ValueError("a timer")])
@pytest.mark.parametrize("bad", ["compile", "start", "sample"])
def test_default_that_fails_on_one_rank_is_an_error_that_names_it(tmp_path, error, bad):
    def fail(*_):
        raise error

    benches = [FakeBench(), FakeBench(), FakeBench()]
    if bad == "sample":
        benches[1].us = fail
    else:
        setattr(benches[1], bad, fail)
    for result in tune(tmp_path, benches):
        assert isinstance(result, SyncopateError)
        assert f"rank 1: {type(error).__name__}: {error}" in str(result)
        assert DEFAULT.name in str(result)


def prefers_engine(one):
    return 1.0 if one == ENGINE else made_up_us(one)


def test_candidate_that_fails_on_one_rank_is_dropped_with_its_name(tmp_path):
    benches = [FakeBench(), FakeBench(run_fails={ENGINE})]
    for report in tune(tmp_path, benches, subjects=[FakeSubject(prefers_engine) for _ in benches]):
        assert report.failed[ENGINE.name] == "rank 1: RuntimeError: a wait reached its limit"


def test_time_that_is_none_is_a_failure(tmp_path):
    def us(one):
        return float("nan") if one == ENGINE else made_up_us(one)

    subjects = [FakeSubject(prefers_engine) for _ in range(2)]
    for report in tune(tmp_path, [FakeBench(us=us), FakeBench()], subjects=subjects):
        assert report.failed[ENGINE.name] == "rank 0: takes nan µs"


def test_progress_is_a_bar_on_a_terminal_and_lines_elsewhere():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    progress = Progress("x", stream=stream)
    progress.update(1, 4, "now", "best", 12.345)
    progress.close("done")
    said = stream.getvalue()
    assert said.count("\r") == 2 and "1/4 best 12.3 µs: best" in said and said.endswith("x: done\n")
    stream = io.StringIO()
    progress = Progress("x", stream=stream)
    progress.update(1, 4, "now", "", 0.0)
    progress.update(2, 4, "then", "best", 2.0)
    progress.close("done")
    assert stream.getvalue() == (
        "x 1/4: now; nothing measured yet\nx 2/4: then; best 2.0 µs: best\nx: done\n"
    )
    stream = io.StringIO()
    Progress("x", shown=False, stream=stream).update(1, 4, "now", "", 0.0)
    assert not stream.getvalue()
    stream.close()
    Progress("x", stream=stream, shown=True).update(1, 4, "now", "", 0.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"top": 0}, "top: expects a positive integer, but got 0"),
        ({"rounds": 1.5}, "rounds: expects a positive integer, but got 1.5"),
        ({"budget": -1}, "budget: expects seconds, but got -1"),
    ],
)
def test_wrong_effort_is_refused(change, message):
    with pytest.raises(SyncopateError, match=message):
        Effort(**change)


def test_report_is_plain_data_too(tmp_path):
    (report,) = tune(tmp_path, [FakeBench()])
    data = json.loads(json.dumps(report.to_json()))
    assert data["measured"] == len(report.measured) and data["compiled"] >= data["measured"]
    assert data["regret"] == 0.0 and data["speedup"] == pytest.approx(report.speedup)
    said = str(report)
    assert said.startswith(f"tuning of fake-0: {report.chosen.name}")
    assert "from measurement" in said and "slower than the best measured" in said


def test_processes_agree_through_torch_distributed(tmp_path):
    pytest.importorskip("torch")
    script = Path(__file__).with_name("tune_process.py")
    file, folder = tmp_path / "meeting", tmp_path / "cache"
    ranks = [
        subprocess.Popen(
            [sys.executable, str(script), str(rank), "2", str(file), str(folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    results = [rank.communicate(timeout=120) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], results
    (first, shown), (second, hidden) = results
    assert json.loads(first) == json.loads(second)
    assert made_up_us(DEFAULT) + 1 == json.loads(first)["final_us"][DEFAULT.name]
    # Rank 0 alone says how far it is, in lines, since nobody sees a terminal.
    assert shown.count("fake-0 ") > 3 and "best " in shown and "fake-0" not in hidden
    assert len(list(folder.glob("*.json"))) == 1


def test_failure_of_rank_0_is_one_of_all(tmp_path):
    def broken(one, machine):
        raise RuntimeError("a pass has crashed")

    subjects = [FakeSubject(), FakeSubject()]
    subjects[0].prepare = broken
    results = tune(tmp_path, [FakeBench(), FakeBench()], subjects=subjects)
    for result in results:
        assert isinstance(result, SyncopateError)
        assert str(result) == "rank 0 cannot choose: RuntimeError: a pass has crashed"
