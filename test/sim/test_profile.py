"""What simulated kernels leave of their calls agrees with their tables, and with what has to come before what."""

import functools
import itertools
import re
import runpy
from pathlib import Path

import numpy as np
import pytest

from syncopate import GemmWorkload, Strategy
from syncopate.abi import ProfileEvent, Realization
from syncopate.kernels import GemmConfig
from syncopate.profile import SpanKind, find_critical_path, predicted_run
from syncopate.runtime.commands import role_parts
from syncopate.sim import rank_memory

CONFIG = GemmConfig(block_m=64, block_n=64, block_k=32, num_warps=4, num_ctas=2)
KINDS = [
    ("ag_gemm", Realization.LDST_COLOCATED),
    ("ag_gemm", Realization.TMA_DEDICATED),
    ("gemm_rs", Realization.TMA_COLOCATED),
]


@functools.cache
def compiled(kind, realization, profile=True):
    # Of the sum, every piece is a tile, which hands it over.
    n = 64 if kind == "gemm_rs" else 128
    workload = GemmWorkload(kind, m=256, n=n, k=96, world_size=2)
    strategy = Strategy(realization=realization.spelling, splits=2, comm_ctas=2)
    return workload.compile(strategy, config=CONFIG, profile=profile, machine_code=False)


@functools.cache
def simulated(kind, realization):
    """Two calls. What is not asked for would be a finding of the simulator: it checks stamps as all else."""
    result = compiled(kind, realization).simulate(calls=2, seed=3)
    assert result.verdict.ok, str(result.verdict)
    return result


@pytest.mark.parametrize(("kind", "realization"), KINDS, ids=str)
def test_every_tile_and_transfer_of_a_call_is_there_once(kind, realization):
    program, profile = compiled(kind, realization), simulated(kind, realization).profile
    assert len(profile.runs) == 2 and profile.dropped == 0
    lanes = [lane for own in profile.ranks for lane in own.lanes]
    # Lane 0 of a dedicated CTA has what it waits for when it closes the call.
    assert {(lane.cta, 0) for lane in lanes} <= {(lane.cta, lane.role) for lane in lanes}
    assert all(lane.records[0].event is ProfileEvent.ROLE_BEGIN for lane in lanes)
    for run in profile.runs:
        for rank in range(2):
            tables = program.rank_tables(rank)
            tracks = run.of_rank(rank)
            computing = [track for track in tracks if track.role is None]
            positions = [
                [span.key.number for span in track.of_kind(SpanKind.TILE)] for track in computing
            ]
            wanted = range(len(tables["tiles"].values))
            assert positions == [list(wanted[cta::2]) for cta in range(2)]
            parts = role_parts(tables["commands"], program.comm_ctas, program.num_ctas)
            moving = [track for track in tracks if track.role is not None]
            # A command of the queue is shared by all CTAs of the role, one that a tile hands over is one CTA's.
            counted = {}
            for track in moving:
                assert track.cta in parts[track.role].ctas
                for span in track.of_kind(SpanKind.TRANSFER):
                    counted[span.key.number] = counted.get(span.key.number, 0) + 1
            assert set(counted) == set(range(len(tables["commands"].values)))
            shares = len(parts[realization].ctas)
            handed = sum(
                row["command_end"] - row["command_begin"] for row in tables["tile_groups"].rows()
            )
            assert (handed > 0) == (kind == "gemm_rs")
            assert sum(count == 1 for count in counted.values()) == handed
            assert sum(count == shares for count in counted.values()) == len(counted) - handed


@pytest.mark.parametrize(("kind", "realization"), KINDS, ids=str)
def test_waits_end_behind_what_they_are_for(kind, realization):
    for run in simulated(kind, realization).profile.runs:
        ends = {}
        for track in run.tracks:
            for span in track.spans:
                assert 0 <= span.begin_us <= span.end_us <= run.us
                if span.key is not None:
                    ends[span.key] = max(ends.get(span.key, 0.0), span.end_us)
        waits = [
            (span.end_us, ends[maker])
            for track in run.tracks
            for span in track.of_kind(SpanKind.WAIT)
            for maker in span.cause.makers
            if maker.kind is SpanKind.TRANSFER
        ]
        assert all(end >= made for end, made in waits)
        path = find_critical_path(run)
        assert path and all(a.end_us <= b.begin_us for a, b in itertools.pairwise(path))


def test_some_wait_is_for_data_of_the_other_rank():
    runs = [run for case in KINDS for run in simulated(*case).profile.runs]
    assert any("data from rank" in cause for run in runs for cause in run.causes)
    assert any("ring" in cause for run in runs for cause in run.causes)


def test_results_are_those_of_a_program_without():
    case = KINDS[2]
    plain = compiled(*case, profile=False)
    result = plain.simulate(list(simulated(*case).inputs), seed=3)
    assert result.profile is None
    for ours, theirs in zip(simulated(*case).outputs, result.outputs, strict=True):
        for name, values in theirs.items():
            assert all(np.array_equal(a, b) for a, b in zip(ours[name], values, strict=True))


def test_full_lanes_count_on(monkeypatch):
    monkeypatch.setattr(rank_memory, "DEFAULT_RECORDS", 5)
    whole = simulated(*KINDS[0]).profile
    short = compiled(*KINDS[0]).simulate(calls=2, seed=3).profile
    for own, cut in zip(whole.ranks, short.ranks, strict=True):
        for lane, other in zip(own.lanes, cut.lanes, strict=True):
            events = [(record.event, record.subject) for record in lane.records]
            kept = [(record.event, record.subject) for record in other.records]
            assert len(kept) == 5 and kept == events[:5]
            assert other.dropped == len(events) - 5
    assert short.dropped > 0


def test_words_pages_and_traces_are_made_of_it():
    profile = simulated(*KINDS[2]).profile
    text = compiled(*KINDS[2]).explain(profile)
    assert text.startswith(compiled(*KINDS[2]).explain()) and profile.explain() in text
    assert "simulated" in profile.to_html() and '"traceEvents"' in profile.to_chrome_trace()


def test_prediction_of_a_program_has_the_same_tiles():
    from syncopate.model import KernelCost, find_preset, predict

    program, profile = compiled(*KINDS[0]), simulated(*KINDS[0]).profile
    timeline = predict(program, KernelCost(3.0), find_preset("h200-w2"))
    keys = [
        {span.key for track in run.tracks for span in track.spans if span.key is not None}
        for run in (profile.run, predicted_run(program, timeline))
    ]
    assert keys[0] == keys[1]
    assert "predicted" in profile.explain(timeline)


def test_example_of_documentation_runs(tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[2] / "docs/profiling.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "docs/profiling.md", "exec"), {})
    assert "what to try:" in capsys.readouterr().out
    assert {file.name for file in tmp_path.iterdir()} == {
        "call.html",
        "call.json",
        "call.trace.json",
    }


def test_example_simulates_without_a_gpu(tmp_path, monkeypatch, capsys):
    example = Path(__file__).parents[2] / "examples" / "profile_gemm.py"
    monkeypatch.setattr("sys.argv", ["profile_gemm.py", "--out", str(tmp_path / "out")])
    runpy.run_path(str(example), run_name="__main__")
    said = capsys.readouterr().out
    assert "simulated: sound" in said and "efficiency:" in said
    assert '"source":"simulated"' in (tmp_path / "out" / "timeline.html").read_text("utf-8")
