"""What all commands of `syncopate` have in common, and those on workloads and on the machine."""

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from syncopate import cli, doctor
from syncopate.cli import main, make_parser
from syncopate.outcome import ExitCode, Outcome

pytestmark = pytest.mark.any_triton

ROOT = Path(__file__).parents[2]
RING = str(ROOT / "examples" / "plans" / "ring_by_hand.mlir")


def _commands(parser, *words):
    """Every command that does something, by the words that call it."""
    nested = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if not nested:
        yield words, parser
    for action in nested:
        for name, command in action.choices.items():
            yield from _commands(command, *words, name)


def _run_json(capsys, *words):
    code = main([*map(str, words), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_every_command_prints_json_but_those_that_print_others():
    without = {
        words[0]
        for words, parser in _commands(make_parser())
        if "--json" not in parser.format_help()
    }
    assert without == {"opt", "completion"}


def test_plan_commands_as_json(capsys, tmp_path):
    code, said = _run_json(capsys, "explain", RING)
    assert (code, said["ok"], said["name"]) == (0, True, "ring_by_hand")
    columns = said["tables"][2]["tiles"]["columns"]
    assert len(said["tables"]) == 3 and columns[:2] == ["c0", "c1"]
    assert len(said["tables"][2]["tiles"]["rows"]) == 12
    code, said = _run_json(capsys, "show", RING, "--out", tmp_path / "ring.svg")
    assert code == 0 and Path(said["file"]).read_text().startswith("<svg")
    code, said = _run_json(capsys, "export", RING, "--to", "msccl-xml")
    assert code == 0 and said["text"].startswith("<algo")
    code, said = _run_json(capsys, "check", RING, "--seeds", 2)
    assert (code, len(said["interleavings"]), said["findings"]) == (0, 2, [])


def test_findings_of_check_as_json(capsys, monkeypatch):
    def compare(probe, result):
        from syncopate.sim.findings import Finding, Kind

        return [Finding(Kind.RACE, "two ranks write")]

    monkeypatch.setattr("syncopate.sim.check.compare", compare)
    code, said = _run_json(capsys, "check", RING)
    assert (code, said["ok"]) == (ExitCode.WRONG, False)
    assert said["findings"] == [{"kind": "race", "message": "two ranks write"}]


@pytest.mark.parametrize("as_json", [False, True])
def test_refused_input_ends_with_1(as_json, capsys):
    assert main(["simulate", "ag_gemm", "4096x4096x4096", *["--json"] * as_json]) == 1
    out, err = capsys.readouterr()
    if as_json:
        error = json.loads(out)["error"]
        assert error["kind"] == "SyncopateError" and "at most 2^30" in error["message"]
    else:
        assert err.startswith("syncopate: shape: ") and err.count("\n") == 1 and not out


@pytest.mark.parametrize(
    "words",
    [
        ["fabric", "{file}"],
        ["bench", "ag_gemm", "64x64x64", "--machine", "{file}"],
        ["timeline", "{file}"],
        ["cache", "import", "{file}"],
    ],
    ids=lambda words: words[0],
)
def test_files_nested_too_deeply_are_refused(words, capsys, tmp_path):
    file = tmp_path / "deep.json"
    file.write_text('{"a":' * 100_000)
    code, said = _run_json(capsys, *(word.format(file=file) for word in words))
    assert code == ExitCode.REFUSED and "deep.json" in said["error"]["message"]


def test_an_empty_name_removes_no_entries(capsys, tmp_path):
    (tmp_path / "kept.json").write_text("{}")
    code, said = _run_json(capsys, "cache", "remove", "", "--folder", tmp_path)
    assert code == ExitCode.REFUSED and "say --all" in said["error"]["message"]
    assert (tmp_path / "kept.json").exists()


@pytest.mark.parametrize(
    "words",
    [["compile", "gemm", "1x1x1"], ["compile", "ag_gemm", "1x1"], ["tune"], ["doctor", "--mesure"]],
)
def test_wrong_usage_ends_with_2(words, capsys):
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == ExitCode.USAGE


def test_interrupt_ends_with_130(monkeypatch):
    def interrupt(*words, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("syncopate.sim.check.check_plan", interrupt)
    assert main(["check", RING]) == 130


@pytest.mark.parametrize(
    ("code", "said"), [(ExitCode.UNREAD, ""), (ExitCode.REFUSED, "syncopate: cannot write: ")]
)
def test_output_that_nobody_takes_ends_without_a_traceback(code, said):
    program = (
        "import sys\nfrom syncopate.outcome import end_in_order\n"
        "sys.exit(end_in_order(lambda: print('a line') or 0))"
    )
    if code is ExitCode.UNREAD:
        read, write = os.pipe()
        os.close(read)
    else:
        write = os.open("/dev/full", os.O_WRONLY)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sys.path))}
    run = subprocess.run(
        [sys.executable, "-c", program],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        check=False,
    )
    os.close(write)
    assert run.returncode == code
    assert run.stderr.startswith(said) and run.stderr.count("\n") == bool(said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["bench", "ag_gemm", "64x64x64", "--machine", "h100"], "or one of h200-w2, "),
        (["compile", "ag_gemm", "64x64x64", "--strategy", "copy_engine/push/x"], "but got 'x'"),
        (["explain", ""], "file: expects the name of a file"),
    ],
)
def test_what_a_newcomer_misspells_is_named(words, said, capsys):
    assert main(words) == ExitCode.REFUSED
    assert said in capsys.readouterr().err


def test_page_lists_the_exit_codes():
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    section = page.split("## Exit codes")[1].split("\n## ")[0]
    assert [int(code) for code in re.findall(r"(?m)^\| (\d+) \|", section)] == list(ExitCode)
    table = page.split("## Output")[0]
    for words, _ in _commands(make_parser()):
        assert re.search(rf"`{words[0]}\b", table), f"docs/commands.md: no {words[0]}"


def test_progress_of_a_command_is_no_part_of_its_json(capsys, monkeypatch):
    def run(arguments):
        print("half way")
        return Outcome("words", {"number": 3})

    monkeypatch.setattr(cli, "_check", run)
    code, said = _run_json(capsys, "check", RING)
    assert (code, said) == (0, {"command": "check", "ok": True, "number": 3})


def test_compile_saves_every_stage(tmp_path, capsys):
    out = tmp_path / "program"
    code, said = _run_json(capsys, "compile", "gemm_rs", "256x128x128", "--out", out)
    assert code == 0 and said["workload"] == "gemm_rs-256x128x128-bf16-w2"
    assert (out / "fused.cubin").stat().st_size == said["cubin_bytes"] > 1000
    assert {path.name for path in out.iterdir()} == set(said["files"])


@pytest.mark.parametrize(
    ("kind", "ranks", "strategy"),
    [("ag_gemm", 3, ""), ("gemm_a2a", 2, "copy_engine/pull/2"), ("gemm_rs", 2, "ldst_dedicated")],
)
def test_simulate_compares_with_numpy(kind, ranks, strategy, capsys):
    words = ["simulate", kind, "150x72x104", "--ranks", ranks, "--strategy", strategy, "--seeds", 1]
    code, said = _run_json(capsys, *words)
    assert code == 0, said
    assert 0 < said["relative_error"] < 2**-6


def test_simulate_takes_fewer_rows_than_ranks(capsys):
    code, said = _run_json(capsys, "simulate", "ag_gemm", "2x8x16", "--ranks", 3, "--seeds", 1)
    assert code == 0 and 0 < said["relative_error"] < 2**-6, said


def test_simulate_finds_wrong_results(capsys, monkeypatch):
    from syncopate.workloads import expected

    right = expected.expect
    monkeypatch.setattr(expected, "expect", lambda *given: [1.1 * one for one in right(*given)])
    code, said = _run_json(capsys, "simulate", "ag_gemm", "128x64x64", "--seeds", 1)
    assert code == ExitCode.WRONG and said["findings"][0].startswith("wrong results: ")


def test_tune_and_bench_by_the_model(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("SYNCOPATE_CACHE_DIR", str(tmp_path))
    words = ["gemm_rs", "1024x1024x512", "--machine", "h200-w2"]
    code, chosen = _run_json(capsys, "tune", *words)
    assert code == 0 and chosen["predicted_us"] <= chosen["default_predicted_us"]
    code, kept = _run_json(capsys, "cache", "list")
    assert list(kept["entries"].values()) == [chosen["chosen"]]
    code, said = _run_json(capsys, "bench", *words, "--strategy", "copy_engine")
    assert code == 0 and said["predicted_us"] > said["bound_us"] > 0
    assert "copy_engine" in said["strategy"]


def test_tuning_of_what_cannot_be_compiled_is_refused(capsys):
    assert main(["tune", "a2a_gemm", "3x1x1", "--ranks", "7", "--machine", "h200-w2"]) == 1
    assert "m: expects a multiple of 7 ranks for a2a_gemm" in capsys.readouterr().err


def test_bench_without_gpus_says_what_to_do(capsys, monkeypatch):
    monkeypatch.setattr("syncopate.bench.count_gpus", lambda: 1)
    assert main(["bench", "ag_gemm", "256x128x128"]) == 1
    said = capsys.readouterr().err
    assert "expects 2 GPUs, but this machine has 1" in said and "--machine" in said


def test_measuring_needs_torchrun(capsys, monkeypatch):
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    assert main(["tune", "ag_gemm", "256x128x128", "--measure"]) == 1
    assert "torchrun --nproc-per-node 2" in capsys.readouterr().err


def test_doctor_says_what_is_there(capsys):
    code, said = _run_json(capsys, "doctor")
    found = {one["name"]: one for one in said["findings"]}
    assert code == 0 and said["can"]["compile"]
    assert found["MLIR bindings"]["ok"] and found["ptxas"]["ok"] and found["cache"]["ok"]
    assert all(one["ok"] or one["fix"] for one in said["findings"])
    assert main(["doctor"]) == 0
    assert capsys.readouterr().out.count("\n") >= len(found)


def test_doctor_of_a_machine_that_cannot_compile(capsys, monkeypatch, tmp_path):
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("SYNCOPATE_CACHE_DIR", str(file))

    def find_no_tool(name):
        raise FileNotFoundError(f"no executable {name!r}")

    monkeypatch.setattr("syncopate._tools.find_tool", find_no_tool)
    monkeypatch.setattr(doctor, "OLDEST_TRITON", (99, 0))
    code, said = _run_json(capsys, "doctor")
    assert code == ExitCode.WRONG and said["can"] == {"compile": False, "run": False}
    broken = {one["name"] for one in said["findings"] if not one["ok"] and one["need"] == "compile"}
    assert broken == {"syncopate-opt", "triton", "cache"}
    main(["doctor"])
    assert "SYNCOPATE_CACHE_DIR" in capsys.readouterr().err


def test_doctor_describes_gpus_and_links(monkeypatch):
    gpu = {"name": "GPU", "target": "sm_90", "detail": "132 multiprocessors, 139 GiB"}
    monkeypatch.setattr(
        doctor, "_describe_gpus", lambda: ((gpu, gpu), ((True, False), (False, True)))
    )
    monkeypatch.setattr(doctor, "measure_links", lambda: {"0-1": 350.4, "1-0": 20.0})
    found = doctor.diagnose(measure=True)
    (peers,) = (one for one in found.findings if one.name == "peer access")
    assert not peers.ok and peers.found == "not between 0 and 1" and "nccl" in peers.fix
    said = str(found)
    assert "GPU 1: GPU, sm_90, 132 multiprocessors" in said and "GPU 0 to 1: 350 GB/s" in said
    json.dumps(found.to_json())


def test_doctor_needs_no_torch():
    code = (
        "import sys\nsys.modules['torch'] = None\nimport importlib.util as u\n"
        "real = u.find_spec\nu.find_spec = lambda name, *_: None if name == 'torch' else real(name)\n"
        "from syncopate.cli import main\nsys.exit(main(['doctor']))\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sys.path))}
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert run.returncode == 0, run.stderr
    assert "torch              not installed" in run.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion_knows_commands_and_options(shell, capsys, tmp_path):
    pytest.importorskip("shtab")
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "doctor" in script and "realization" in script
    if shell == "bash":
        path = tmp_path / "complete.sh"
        path.write_text(
            script
            + "\nCOMP_WORDS=(syncopate doc) COMP_CWORD=1\n_shtab_syncopate\necho ${COMPREPLY[@]}\n"
        )
        run = subprocess.run(["bash", str(path)], capture_output=True, text=True)
        assert run.stdout.strip() == "doctor", run.stderr


def test_completion_without_its_package_says_how_to_get_it(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 1
    assert "syncopate-compiler[completion]" in capsys.readouterr().err
