"""The scripts of studies: partitions, tables of given documents, dry runs and pictures."""

import json
import random
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from studies import load, run

from syncopate import GemmWorkload, Strategy
from syncopate.kernels import GemmConfig
from syncopate.model import find_preset

partitions = load("common.partitions")
flash_tables = load("common.flash_tables")
entwine_tables = load("common.entwine_tables")
study = load("common.study")

pytestmark = pytest.mark.any_triton


@pytest.mark.parametrize("waves", range(1, 9))
def test_few_waves_have_all_partitions(waves):
    wanted = [(waves,), (1,) * waves]
    found = partitions.choose_partitions(waves, 128, random.Random(0), wanted)
    assert found[: min(waves, 2)] == wanted[:waves]
    assert len(found) == len(set(found)) == 2 ** (waves - 1)
    assert all(sum(groups) == waves and min(groups) > 0 for groups in found)


@pytest.mark.parametrize("waves", [9, 17, 34])
def test_many_waves_have_different_random_partitions(waves):
    wanted = [(waves,), (1, waves - 1)]
    found = partitions.choose_partitions(waves, 200, random.Random(3), wanted)
    assert found[:2] == wanted
    assert len(found) == len(set(found)) == 200
    assert all(sum(groups) == waves and min(groups) > 0 for groups in found)
    # A cut is as likely as none, so about half of the places between waves have one.
    cuts = np.mean([(len(groups) - 1) / (waves - 1) for groups in found[2:]])
    assert abs(cuts - 0.5) < 5 * 0.5 / np.sqrt(198 * (waves - 1))
    assert found != partitions.choose_partitions(waves, 200, random.Random(4), wanted)


@pytest.mark.parametrize("waves", range(1, 20))
def test_regular_partitions_hold_all_waves(waves):
    found = partitions.regular_partitions(waves)
    assert (1,) * waves in found and (waves,) in found
    assert all(sum(groups) == waves and min(groups) > 0 for groups in found)


@pytest.mark.parametrize("groups", [(), (1,), (2,), (1, 2), (3, 1, 2), (1, 1, 50), (40,)])
def test_groups_are_as_many_as_calls_of_the_tables(groups):
    """A strategy's waves mean to the compiler what they mean to the closed form."""
    workload = GemmWorkload("gemm_ar", 4096, 8192, 64, 2)
    strategy = Strategy(realization="nccl", waves=groups, slots="tiles", comm_ctas=8)
    schedule = workload.schedule(strategy, GemmConfig())
    waves = -(-(32 * 32) // (132 - 8))
    fitted = partitions.fit_groups(groups, waves)
    assert sum(fitted) == waves
    commands = schedule.rank_tables(0)["commands"].rows()
    calls = [row for row in commands if row["transfer"] < 0]
    assert len(calls) == len(fitted)


def test_groups_are_spelled_in_runs():
    assert partitions.spell_groups((1, 1, 1, 4, 4, 2)) == "3x1+2x4+2"
    assert partitions.spell_groups([5]) == "5"


def flash_row(**changes):
    row = {
        "kind": "gemm_ar", "shape": [512, 256, 128], "comm_ctas": 16, "slots": "tiles", "tiles": "128x256", "waves": 9,
        "partitions": 3, "cublas_nccl_us": 120.0, "split_streams_us": 110.0, "async_tp_us": None, "bound_us": 85.0,
        "found": {"waves": [1, 1, 3], "us": 100.0}, "search_ms": 0.5, "published_ms": 2.0, "tables_ms": 30.0,
        "closed": {"waves": [2, 3], "predicted_us": 101.0, "us": 102.0}, "published": None, "tables": None,
        "tried": [["2x1+3", 100.0, 90.0], ["2+3", 102.0, 101.0]],
    }  # fmt: skip
    return {**row, **changes}


def document(rows, **more):
    meta = {"gpu": "a GPU", "commit": "abc", "command": "torchrun x"}
    return {"meta": meta, "missing": [], "wrong": [], "rows": rows, **more}


def cells(table, start):
    line = next(line for line in table.splitlines() if line.startswith(start))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_flashoverlap_table_of_a_given_document():
    failed = {"kind": "gemm_rs", "shape": [1, 2, 3], "cublas_nccl_us": 77.0}
    table = flash_tables.make_table(document([flash_row(), failed], one_wave=[]))
    assert cells(table, "| gemm_ar") == [
        "gemm_ar", "512, 256, 128", "120", "85.0", "100", "2x1+3", "1.20x", "0.85", "1.10x", "16, tiles, 128x256",
        "3 of 2^8",
    ]  # fmt: skip
    said = next(
        line
        for line in table.splitlines()
        if line.startswith("| gemm_ar") and "2+3" in line.split("|")[3]
    )
    # 100 / 102; 101 / 102 - 1; the mean of 10 % and 1 / 102.
    assert [cell.strip() for cell in said.split("|")[5:9]] == ["0.980", "-1.0%", "5.5%", "0.50"]
    assert cells(table, "| gemm_rs")[:4] == ["gemm_rs", "1, 2, 3", "77.0", "-"]
    assert "abc" in table and "    torchrun x" in table
    assert "Over 1 rows: geometric mean of the speed-up 1.20x" in table


def test_one_wave_groups_are_counted():
    def row(m, waves, one_wave_us, best, best_us):
        return {
            "kind": "gemm_ar", "shape": [m, 1, 1], "partitions": 4, "waves": waves, "one_wave_us": one_wave_us,
            "best": best, "best_us": best_us,
        }  # fmt: skip

    rows = [row(1, 3, 12.0, [3], 10.0), row(2, 2, 9.0, [1, 1], 9.0)]
    # A single wave has no choice, and one did not run.
    rows += [row(3, 1, 5.0, [1], 5.0), row(4, 4, None, None, None)]
    assert flash_tables.count_one_wave(rows) == (1, 2, pytest.approx(0.1))
    table = flash_tables.make_table(document([], one_wave=rows))
    assert (
        "Of 2 shapes of gemm_ar with two waves or more, groups of one wave are the best at 1 (50%)"
        in table
    )
    assert cells(table, "| 1, 1, 1") == ["1, 1, 1", "3", "4", "12.0", "3", "10.0", "20.0%"]


def test_entwine_table_of_a_given_document():
    def one(us, ctas, tiles="128x256"):
        return {
            "us": us,
            "comm_ctas": ctas,
            "realization": "tma_dedicated",
            "tiles": tiles,
            "variant": "v",
        }

    rank = {
        "rank": 1,
        "us": 90.0,
        "times_us": [40.0, 20.0, 60.0],
        "nbytes": [5, 5, 90],
        "unsteadiness": 0.25,
    }
    row = {
        "name": "small", "shape": [4, 5, 6], "ranks": 2, "cublas_nccl_us": 150.0, "best_baseline_us": 120.0,
        "fixed": {"arrival": one(110.0, 8), "paced": one(121.0, 8)},
        "joint": {"arrival": one(100.0, 4), "paced": one(80.0, 16, "128x128")},
        "role": {}, "best": one(75.0, 0), "tried": [1, 2], "of": 3,
        "ready": [{"adds": "roles", "order": "paced", "ranks": [rank]}],
        "alike": {"tiles": [["arrival", "paced"], ["grouped"]]},
    }  # fmt: skip
    table = entwine_tables.make_table(document([row], evenness=[]))
    paced = next(
        line for line in table.splitlines() if line.startswith("| small") and "paced" in line
    )
    assert [cell.strip() for cell in paced.strip("|").split("|")][3:10] == [
        "121", "tma_dedicated", "80.0", "tma_dedicated, 16 CTAs, 128x128", "1.512", "1.88x", "1.250",
    ]  # fmt: skip
    assert "* cuBLAS, then NCCL / paced, joint: 1.875x over 1 shapes" in table
    assert "* arrival / paced, fixed: 0.909x over 1 shapes" in table
    assert "* grouped / paced, joint: -" in table
    assert "* On 2 ranks, if tiles add: arrival, paced are alike." in table
    assert "| small | roles | paced | 1 | 20.0 | 60.0 | 60.0 | 90.0 | 0.250 |" in table
    assert "| 75.0 | v, 128x256 | 2.00x | 1.60x | 2 of 3 |" in table


def test_json_keeps_lists_on_one_line():
    data = {"a": [1, 2.5, None], "b": [["x y", 1], {"c": [3]}], "d": [], "e": ["two  blanks"]}
    text = study.format_json(data)
    assert json.loads(text) == data
    assert '"a": [' in study.format_json({"a": [1, 2], "b": ["[odd"]})
    flat = study.format_json({"a": [1, 2.5, None]})
    assert '"a": [1, 2.5, null]' in flat


DRY = {
    "flashoverlap": [
        "--kinds", "gemm_a2a", "--shapes", "2048x4096x512,2048x2048x256", "--partitions", 20, "--study", 1,
        "--comm-ctas", 8,
    ],
    "entwine": ["--shapes", "1024x512x256,512x512x128", "--comm-ctas", 8],
    "imported_plans": ["--shapes", "1024x512x256"],
    "sensitivity": ["--kinds", "ag_gemm"],
    "steadiness": ["--kinds", "gemm_rs"],
}  # fmt: skip


RANKS = {"flashoverlap": 8, "entwine": 4, "imported_plans": 4}
"""Of dry runs; two of the others."""


@pytest.mark.parametrize("name", DRY)
def test_dry_run_says_that_it_is_one(name, tmp_path):
    ranks = RANKS.get(name, 2)
    ran = run(f"{name}.py", "--dry-run", "--ranks", ranks, "--out", tmp_path, *DRY[name])
    assert ran.returncode == 0, ran.stderr
    data = json.loads((tmp_path / f"{name}-w{ranks}-dry.json").read_text(encoding="utf-8"))
    assert data["rows"] and not data["wrong"]
    assert "PREDICTED by the cost model: nothing of this was measured" in data["meta"]["times"]
    table = (tmp_path / f"{name}-w{ranks}-dry.md").read_text(encoding="utf-8")
    assert "PREDICTED by the cost model: nothing of this was measured" in table
    # The table follows from the document alone.
    (tmp_path / f"{name}-w{ranks}-dry.md").unlink()
    assert run(f"{name}.py", "--table", tmp_path / f"{name}-w{ranks}-dry.json").returncode == 0
    assert (tmp_path / f"{name}-w{ranks}-dry.md").read_text(encoding="utf-8") == table


@pytest.mark.parametrize("name", DRY)
def test_run_without_time_says_what_is_missing(name, tmp_path):
    ran = run(f"{name}.py", "--dry-run", "--budget", 0, "--out", tmp_path)
    assert ran.returncode == 0, ran.stderr
    files = list(tmp_path.glob(f"{name}-w2-dry.json"))
    assert files, "writes even if nothing was measured"
    data = json.loads(files[0].read_text(encoding="utf-8"))
    assert data["rows"] == []
    assert len(data["missing"]) >= 2
    table = files[0].with_suffix(".md").read_text(encoding="utf-8")
    assert all(what in table for what in data["missing"])


def test_dry_run_without_a_folder_writes_nothing_and_prints(tmp_path):
    ran = run("steadiness.py", "--dry-run", "--kinds", "ag_gemm", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert not list(tmp_path.iterdir())
    assert "## ag_gemm: M, N, K 8192, 3584, 8192" in ran.stdout


def test_pictures_show_every_series_and_are_the_same_again(tmp_path):
    pytest.importorskip("matplotlib")
    points = [
        {"axis": "splits", "series": series, "at": at, "us": us}
        for series, times in (("one/push", (30.0, 20.0)), ("two/pull", (40.0, 25.0)))
        for at, us in zip((1, 2), times, strict=True)
    ]
    points += [{"axis": "order", "series": "one/push", "at": "arrival", "us": 30.0}]
    row = {
        "kind": "ag_gemm",
        "shape": [1, 2, 3],
        "gemm_us": 10.0,
        "cublas_nccl_us": 35.0,
        "points": points,
    }
    path = tmp_path / "sensitivity-w2-x.json"
    path.write_text(json.dumps(document([row])), encoding="utf-8")
    ran = run("sensitivity.py", "--plot", path)
    assert ran.returncode == 0, ran.stderr
    folder = tmp_path / "sensitivity"
    assert sorted(file.name for file in folder.iterdir()) == [
        "w2-x-ag_gemm-order.svg",
        "w2-x-ag_gemm-splits.svg",
    ]
    picture = folder / "w2-x-ag_gemm-splits.svg"
    text = picture.read_text(encoding="utf-8")
    ElementTree.fromstring(text)
    for words in ("one/push", "two/pull", "cuBLAS and NCCL", "a GPU", "ag_gemm, M, N, K 1, 2, 3"):
        assert words in text
    assert not re.search(r"20\d\d-\d\d-\d\d", text)
    run("sensitivity.py", "--plot", path)
    assert picture.read_text(encoding="utf-8") == text


def test_evenness_ends_with_all_that_peers_get():
    evenness, bench = load("common.evenness"), load("common.bench")
    workload = GemmWorkload("gemm_rs", 4096, 2048, 512, 8)
    machine = find_preset("h100-w8-predicted")
    spreads = {}
    for order in ("arrival", "paced"):
        trial = bench.default_trial(workload).having(realization="ldst_dedicated", order=order)
        found = evenness.measure_evenness(workload, trial, machine)
        assert found["ranks"] == 8 and "predicted" in found["machine"]
        ready = np.array(list(found["ready_bytes"].values()))
        assert ready.shape == (7, evenness.SAMPLES) == (7, len(found["times_us"]))
        assert (np.diff(ready, axis=1) >= 0).all()
        assert (ready[:, -1] == 512 * 2048 * 2).all()
        # The samples show about the spread that is averaged over all tiles.
        shares = ready / ready[:, -1:]
        sampled = (shares.max(axis=0) - shares.min(axis=0)).mean()
        assert sampled == pytest.approx(found["spread"], abs=0.1)
        spreads[order] = found["spread"]
    assert spreads["paced"] < spreads["arrival"]
