"""The command line, as far as it needs neither a kernel nor a GPU."""

from pathlib import Path

import pytest

from syncopate.cli import main
from syncopate.sim import Deadlock, StaleRead

RING = Path(__file__).parents[2] / "examples" / "plans" / "ring_by_hand.mlir"


def test_explain_names_transfers_and_overlap(capsys):
    assert main(["explain", str(RING)]) == 0
    said = capsys.readouterr().out
    assert "rank 2: 12 tiles, 4 of them (33 %) before the first wait" in said
    assert "puts a[0:128, 0:256] to rank 1 by ldst_colocated" in said
    assert "overlaps with 4 tiles" in said


def test_draw_writes_a_picture(tmp_path, capsys):
    out = tmp_path / "picture.svg"
    assert main(["draw", str(RING), "--out", str(out), "--options", "splits=2"]) == 0
    assert out.read_text().startswith("<svg")
    assert str(out) in capsys.readouterr().out


def test_check_executes_the_tables(capsys):
    assert main(["check", str(RING), "--seeds", "2"]) == 0
    said = (
        "2 interleavings of 3 calls on 3 ranks: every tile of 12 found what the plan brings there\n"
    )
    assert capsys.readouterr().out == said


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (StaleRead("rank 1, call 2, tile (0, 0): row 3 of a is of call 1"), "rank 1, call 2, tile"),
        (Deadlock(f"rank {rank} waits" for rank in range(9)), "rank 3 waits; and 5 more"),
    ],
)
def test_a_wrong_schedule_is_one_line(error, said, capsys, monkeypatch):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("syncopate.sim.execute_tables", fail)
    assert main(["check", str(RING)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert said in err


def test_missing_file_is_one_line(capsys):
    assert main(["explain", "nowhere.mlir"]) == 1
    assert capsys.readouterr().err == (
        "syncopate: file: cannot read nowhere.mlir: No such file or directory\n"
    )


def test_bad_plan_is_one_error_with_its_line(tmp_path, capsys):
    plan = tmp_path / "bad.mlir"
    plan.write_text(RING.read_text().replace("from 2 to 0 :", "from 2 to 3 :"))
    assert main(["check", str(plan)]) == 1
    error = capsys.readouterr().err
    assert "expects dst rank to be in [0, 3), but got 3" in error


def test_bad_option_is_refused(capsys):
    assert main(["demo", "--splits", "0"]) == 1
    assert "--splits: expects at least 1, but got 0" in capsys.readouterr().err


def test_opt_passes_its_arguments_on(capfd):
    assert main(["opt", "--syncopate-plan-pipeline", str(RING)]) == 0
    assert "chunk.schedule @gemm rank 2" in capfd.readouterr().out


@pytest.mark.parametrize("words", [[], ["--help"], ["nonsense"]])
def test_usage_errors_and_help_leave_through_argparse(words):
    with pytest.raises(SystemExit):
        main(words)
