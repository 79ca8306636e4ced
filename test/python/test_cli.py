"""The command line, as far as it needs neither a kernel nor a GPU."""

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest
from broken_probes import probe_without_waits

from syncopate import Strategy, __version__
from syncopate.cli import main
from syncopate.plan.plan_file import OPTIONS
from syncopate.sim.simulate import simulate

pytestmark = pytest.mark.any_triton

RING = Path(__file__).parents[2] / "examples" / "plans" / "ring_by_hand.mlir"


def test_explain_names_transfers_and_overlap(capsys):
    assert main(["explain", str(RING)]) == 0
    said = capsys.readouterr().out
    assert "rank 2: 12 tiles, 4 of them (33 %) before the first wait" in said
    assert "puts a[0:128, 0:256] to rank 1 by ldst_colocated" in said
    assert "overlaps with 4 tiles" in said


def test_show_draws_the_schedule(tmp_path, capsys):
    out = tmp_path / "picture.svg"
    assert (
        main(["show", str(RING), "--view", "schedule", "--out", str(out), "--options", "splits=2"])
        == 0
    )
    assert out.read_text().startswith("<svg")
    assert str(out) in capsys.readouterr().out


def test_check_simulates_the_plan(capsys):
    assert main(["check", str(RING), "--seeds", "4"]) == 0
    said = (
        "4 interleavings (2 random, 1 late, 1 early) of 3 calls on 3 ranks: no races or deadlocks, "
    )
    said += (
        "every tile of 12 found what the plan brings there, and the buffers hold it in the end\n"
    )
    assert capsys.readouterr().out == said


def test_check_says_what_it_left_out(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("syncopate.sim.probe.MOST_ELEMENTS", 12 * 3 * 128 * 140)
    monkeypatch.setattr("syncopate.sim.check.MOST_CTAS", 6)
    assert main(["check", str(RING), "--seeds", "1"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("1 interleaving (1 random) of 3 calls")
    assert said[1:] == [
        "tiles were distributed over 2 CTAs instead of 4",
        'of "a_desc", tiles read every (1 x 2)th element of their footprint, and the last',
    ]


def test_check_of_a_wrong_program_says_what_is_wrong(capsys, monkeypatch):
    monkeypatch.setattr("syncopate.sim.check.make_probe", probe_without_waits)
    assert main(["check", str(RING)]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert re.match(
        r"\d interleavings? \(.*\) of 3 calls on 3 ranks; the last one:\n(race|unwritten): ", err
    )


def test_check_of_wrong_data_says_which(capsys, monkeypatch):
    def simulate_wrongly(program, **options):
        result = simulate(program, **options)
        result.outputs[1]["out0"][2][5, 100, 30] += 1
        result.buffers["a"][1][383, 255] += 1
        return result

    monkeypatch.setattr("syncopate.sim.check.simulate", simulate_wrongly)
    assert main(["check", str(RING), "--seeds", "3"]) == 3
    _, err = capsys.readouterr()
    lines = err.splitlines()
    assert lines[0] == "1 interleaving (1 random) of 3 calls on 3 ranks; the last one:"
    assert lines[1].startswith("wrong result: call 2: tile [1, 1] of rank 2 finds ")
    assert " at a[228, 30], where the plan brings " in lines[1]
    assert lines[2].startswith("wrong result: in the end, rank 1 holds ")
    assert " at a[383, 255], where the plan brings " in lines[2]


def test_check_of_a_kernel_that_reads_nothing_is_refused(tmp_path, capsys):
    text = re.sub(
        r" args\(.*?\) after\(%t\) : !buf \{.*?\}",
        " args() after(%t) { }",
        RING.read_text(),
        flags=re.DOTALL,
    )
    plan = tmp_path / "plan.mlir"
    plan.write_text(text)
    assert main(["check", str(plan)]) == 1
    assert "plan ring_by_hand: tiles of its kernel touch no buffer" in capsys.readouterr().err


def test_missing_file_is_one_line(capsys):
    assert main(["explain", "nowhere.mlir"]) == 1
    assert capsys.readouterr().err == (
        "syncopate: file: cannot read nowhere.mlir: No such file or directory\n"
    )


def test_path_that_no_file_can_have_is_one_line(tmp_path, capsys):
    assert main(["explain", "a\0b"]) == 1
    assert capsys.readouterr().err.startswith("syncopate: file: cannot read 'a\\x00b'")
    assert main(["show", str(RING), "--out", "a\0b"]) == 1
    assert capsys.readouterr().err.startswith("syncopate: --out: cannot write 'a\\x00b'")


def test_bad_plan_is_one_error_with_its_file_and_line(tmp_path, capsys):
    plan = tmp_path / "bad.mlir"
    plan.write_text(RING.read_text().replace("from 2 to 0 :", "from 2 to 3 :"))
    for command in ("check", "explain", "show"):
        assert main([command, str(plan)]) == 1
        error = capsys.readouterr().err
        assert f"{plan}:20: 'chunk.put' op expects dst rank to be in [0, 3), but got 3" in error


def test_what_is_no_plan_is_one_line(tmp_path, capsys):
    plan = tmp_path / "plan.mlir"
    for content, said in (
        (b"\xff\xfe\x00", f"file: {plan} is no text; expects a module in chunk IR"),
        (b"", f"{plan}: expects one chunk.plan, but got 0"),
        (b"chunk.plan @p mesh [2] {", f"{plan}:1: expected operation name"),
        (b"chunk.plan @p mesh [2] {}", f"{plan}: plan p has no chunk.kernel"),
    ):
        plan.write_bytes(content)
        assert main(["check", str(plan)]) == 1
        error = capsys.readouterr().err
        assert error.startswith(f"syncopate: {said}")
        assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            "split=2",
            "expects name=value with a name of algorithm, direction, .*, but got 'split=2'",
        ),
        ("splits", "expects name=value with a name of .*, but got 'splits'"),
        ("splits=-1", r"splits expects a number in \[0, 4096\], but got '-1'"),
        ("splits=9999999999999999999999", r"splits expects a number in \[0, 4096\]"),
        ("splits=2}", r"splits expects a number in \[0, 4096\], but got '2}'"),
        ("splits=2 realization=foo", "realization expects one of copy_engine, tma_dedicated,"),
        ("pause=1000001", r"pause expects a number in \[0, 1000000\], but got '1000001'"),
    ],
)
def test_bad_options_are_refused(options, said, capsys):
    assert main(["check", str(RING), "--options", options]) == 1
    error = capsys.readouterr().err
    assert re.match(f"syncopate: options: {said}", error)
    assert error.count("\n") == 1


def test_options_know_what_strategies_know():
    from syncopate.choices import Algorithm, Direction, Realization, TileOrder

    for name, kind in (
        ("algorithm", Algorithm),
        ("direction", Direction),
        ("realization", Realization),
        ("order", TileOrder),
    ):
        assert set(OPTIONS[name]) == {member.value for member in kind}
    made_by_templates = {"combine", "shots", "reducing", "gathering"}
    of_library_calls = {"waves", "slots", "between"}
    fields = {field.name for field in dataclasses.fields(Strategy)}
    assert set(OPTIONS) == fields - made_by_templates - of_library_calls


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["show", str(RING), "--out", "/nonexistent/x.svg"], "--out: cannot write /nonexistent/x"),
        (["demo", "--out", "/proc/xx"], "out: cannot make the folder /proc/xx: "),
    ],
)
def test_unwritable_output_is_one_line(words, said, capsys):
    assert main(words) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"syncopate: {said}")
    assert err.count("\n") == 1


def test_opt_passes_its_arguments_on(capfd):
    assert main(["opt", "--syncopate-plan-pipeline", str(RING)]) == 0
    assert "chunk.schedule @gemm rank 2" in capfd.readouterr().out


def test_nothing_prints_the_help(capsys):
    assert main([]) == 0
    said = capsys.readouterr().out
    for command in ("demo", "opt", "explain", "show", "check"):
        assert re.search(rf"^    {command} ", said, re.MULTILINE)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--help"], 0),
        (["--version"], 0),
        (["nonsense"], 2),
        (["check"], 2),
        (["check", str(RING), "--seeds", "0"], 2),
        (["demo", "--seeds", "0"], 2),
        (["demo", "--splits", "0"], 2),
        (["demo", "--splits", "4097"], 2),
    ],
)
def test_usage_errors_and_help_leave_through_argparse(words, code, capsys):
    with pytest.raises(SystemExit) as left:
        main(words)
    assert left.value.code == code
    out, err = capsys.readouterr()
    assert (err if code else out).startswith(("usage: syncopate", f"syncopate {__version__}"))


def test_help_loads_neither_mlir_nor_numpy():
    code = (
        "import sys, syncopate.cli\n"
        "syncopate.cli.make_parser()\n"
        "assert not {'numpy', 'syncopate.mlir', 'torch', 'triton'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("command", ["demo", "explain", "show", "check"])
def test_every_option_has_help_with_its_default(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    said = " ".join(capsys.readouterr().out.split())
    options = set(re.findall(r"--(?!help|json)[a-z]+", said.split("options:")[1]))
    assert said.count("(default: ") == len(options) > 0
