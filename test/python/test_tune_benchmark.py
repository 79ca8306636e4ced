"""The table of tuned shapes, from a tuning with made-up times. Needs torch, and no GPU."""

import json

import pytest
from tune_fakes import FakeBench, ThreadRanks, made_up_us

from syncopate import GemmWorkload, Target
from syncopate.model import find_preset
from syncopate.tune import Auto, Effort, Entry, GemmSubject, Origin, TuningCache, choose

pytest.importorskip("torch")

MACHINE = find_preset("h200-w2")
EFFORT = Effort(top=3, rounds=3, final_rounds=3, finalists=2)


@pytest.fixture
def tune(root, monkeypatch):
    monkeypatch.syspath_prepend(str(root))
    import benchmark.tune

    return benchmark.tune


def choose_on_ranks(subject, auto, cache):
    def body(agreement):
        own = Auto(
            measure=auto, machine=MACHINE, cache=cache, effort=EFFORT, progress=False, keep=auto,
            agreement=agreement,
        )  # fmt: skip
        return choose(subject, own, FakeBench() if auto else None)

    reports = ThreadRanks(2).run(body)
    assert reports[0].chosen == reports[1].chosen
    return reports[0]


def test_table_says_what_was_chosen_and_lost(tune, tmp_path):
    cache, done = TuningCache(tmp_path / "cache"), []
    for n in (512, 1024):
        workload = GemmWorkload("gemm_rs", 1024, n, 512, 2)
        subject = GemmSubject(workload, Target())
        model = choose_on_ranks(subject, False, TuningCache(tmp_path / "none"))
        near = choose_on_ranks(subject, False, cache)
        report = choose_on_ranks(subject, True, cache)
        is_near = near.origin is Origin.NEIGHBOURS
        assert is_near is bool(done)
        done.append(tune.Tuned(f"n{n}", workload, report, model, near if is_near else None))
    meta = {"gpu": "NVIDIA H200", "torch": "0"}
    tune.write(tmp_path, 2, meta, cache, done)
    data = json.loads((tmp_path / "tuning-w2-h200.json").read_text())
    assert [row["workload"] for row in data["rows"]] == [one.workload.name for one in done]
    assert [Entry.from_json(entry).key.subject["n"] for entry in data["entries"]] == [1024, 512]
    for row, tuned in zip(data["rows"], done, strict=True):
        shares = {
            one.candidate.name: made_up_us(one.candidate) / made_up_us(tuned.report.default)
            for one in tuned.report.measured
        }
        best = min(shares.values())
        assert row["regret"] == pytest.approx(shares[tuned.report.chosen.name] / best - 1)
        assert row["model_loses"] == pytest.approx(shares[row["model"]] / best - 1)
        firsts = [row["firsts_lose"][str(n)] for n in tune.FIRSTS]
        assert firsts == sorted(firsts, reverse=True) and firsts[-1] >= 0
    assert data["rows"][1]["near"] == done[1].near.chosen.name
    table = (tmp_path / "tuning-w2-h200.md").read_text()
    rows = [line for line in table.splitlines() if line.startswith("| gemm_rs")]
    head = next(line for line in table.splitlines() if line.startswith("| workload"))
    assert len(rows) == 2 and all(row.count("|") == head.count("|") for row in rows)
    assert "* What was chosen: loses 0.0% on average" in table
    assert f"{done[0].report.speedup:.3f}" in rows[0]


def test_shipped_entries_are_taken_by_the_command(tune, tmp_path, capsys):
    from syncopate.cli import main

    cache = TuningCache(tmp_path / "cache")
    workload = GemmWorkload("ag_gemm", 1024, 512, 512, 2)
    subject = GemmSubject(workload, Target())
    report = choose_on_ranks(subject, True, cache)
    done = [tune.Tuned("one", workload, report, report, None)]
    tune.write(tmp_path, 2, {"gpu": "NVIDIA H200"}, cache, done)
    other = str(tmp_path / "other")
    assert main(["cache", "import", str(tmp_path / "tuning-w2-h200.json"), "--folder", other]) == 0
    assert capsys.readouterr().out == "1 entries added, 0 there already\n"
    again = choose_on_ranks(subject, False, TuningCache(other))
    assert again.origin is Origin.CACHE and again.chosen == report.chosen
