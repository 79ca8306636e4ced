"""The tuning cache: what is found, what is not, damaged files, and the command line."""

import dataclasses
import json
import subprocess
import sys
import warnings

import numpy as np
import pytest
from tune_fakes import DEFAULT

from syncopate import GemmWorkload, Strategy, Target
from syncopate.cli import main
from syncopate.kernels import GemmConfig
from syncopate.tune import Candidate, Entry, GemmSubject, Key, Measured, TuningCache
from syncopate.tune.cache import CACHE_FORMAT

KEY = Key({"kind": "ag_gemm", "m": 512, "tiles": None}, "NVIDIA H200", "sm_90x132", "0.1.0")
CHOSEN = Candidate(Strategy(realization="copy_engine", splits=2), GemmConfig(block_n=128))
ENTRY = Entry(
    KEY,
    CHOSEN,
    "abc",
    (Measured(CHOSEN, 80.0, 100.0, 85.0), Measured(DEFAULT, 100.0, 100.0)),
    {"seconds": 12.5, "considered": 40},
)


@pytest.fixture
def cache(tmp_path):
    return TuningCache(tmp_path / "tuning")


def test_entry_is_found_again(cache):
    assert cache.find(KEY) is None
    cache.store(ENTRY)
    assert cache.find(KEY) == ENTRY
    assert [entry for _, entry in cache.entries()] == [ENTRY]
    assert cache.path(KEY).name.startswith("ag_gemm-512-nvidia-h200-sm_90x132-")
    assert not list(cache.folder.glob("*.tmp"))


@pytest.mark.parametrize(
    "change",
    [
        {"gpu": "NVIDIA H100"},
        {"target": "sm_90x114"},
        {"version": "0.2.0"},
        {"subject": {**KEY.subject, "m": 513}},
    ],
)
def test_entry_of_another_key_is_not(cache, change):
    cache.store(ENTRY)
    assert cache.find(dataclasses.replace(KEY, **change)) is None


WORKLOADS = {
    "kind": "gemm_ar",
    "m": 520,
    "n": 520,
    "k": 520,
    "world_size": 4,
    "dtype": "f16",
    "node_size": 1,
    "weight_pitch": 528,
    "transpose_b": True,
    "returns_a": True,
}


def key_of(changes=None, target=None, **more):
    workload = {"kind": "ag_gemm", "m": 512, "n": 512, "k": 512, "world_size": 2} | (changes or {})
    data = GemmSubject(GemmWorkload(**workload), target or Target(), **more).data
    return Key(json.loads(json.dumps(data)), "NVIDIA H200", "sm_90x132", "0.1.0")


def test_no_two_workloads_share_an_entry():
    """Every property of a workload tells it apart, those that it gets one day too."""
    assert set(WORKLOADS) == {item.name for item in dataclasses.fields(GemmWorkload)}
    keys = [key_of(), key_of({"weight_pitch": 544}), key_of({"kind": "gemm_rs"})]
    keys += [key_of({name: value}) for name, value in WORKLOADS.items()]
    keys += [key_of(unordered=True), key_of(config=GemmConfig(block_n=128))]
    stems = [key.stem for key in keys]
    assert len(set(stems)) == len(stems)


def test_options_that_change_code_or_tables_tell_entries_apart():
    order = list(range(16))
    options = [
        {"ctas": 100},
        {"ctas": 101},
        {"options": {"num_stages": 2}},
        {"options": {"num_stages": 3}},
        {"tile_order": order},
        {"tile_order": order[::-1]},
        {"tile_order": np.array([*range(1, 5000), 0])},
        {"tile_order": np.arange(5000)},
    ]
    stems = [key_of(options=some).stem for some in options] + [key_of().stem]
    assert len(set(stems)) == len(stems)
    assert key_of(options={"timeout": 3.0, "check_tables": False}).stem == key_of().stem


def test_weights_that_lie_alike_are_near():
    """How far apart their rows are goes with their length."""

    def subject(k, **changes):
        return GemmSubject(GemmWorkload("gemm_rs", 512, 512, k, 2, **changes), Target())

    near, other = subject(512, weight_pitch=576), subject(1024)
    assert subject(1024, weight_pitch=1088).distance(near.data) == 1.0
    assert other.distance(near.data) is None
    assert other.distance(subject(1024, transpose_b=True).data) is None


def test_choice_of_the_model_holds_for_one_state_of_the_machine(cache):
    cache.store(dataclasses.replace(ENTRY, measured=()))
    assert cache.find(KEY, "abc") is not None
    assert cache.find(KEY, "def") is None
    cache.store(ENTRY)
    assert cache.find(KEY, "def") == ENTRY


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[1, 2]",
        b"\xff\xfe",
        b'{"format": 1}',
        b'{"format": 99}',
        b"[" * 100_000,
    ],
)
def test_damaged_file_is_ignored_with_a_warning_that_names_it(cache, text):
    cache.store(ENTRY)
    path = cache.path(KEY)
    path.write_bytes(text)
    with pytest.warns(UserWarning, match=path.name):
        assert cache.find(KEY) is None
    with pytest.warns(UserWarning, match="remove it, or tune again"):
        assert not list(cache.entries())
    assert path.exists()
    cache.store(ENTRY)
    assert cache.find(KEY) == ENTRY


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"chosen": {"strategy": {"realization": "warp"}}}, "realization"),
        ({"measured": [{"strategy": {}, "us": "fast", "default_us": 1}]}, "fast"),
        ({"measured": 3}, "int"),
        ({"subject": None}, "NoneType"),
        ({"format": CACHE_FORMAT + 1}, "expects an entry of format"),
    ],
)
def test_entry_that_makes_no_sense_is_ignored(cache, change, what):
    cache.store(ENTRY)
    data = {**ENTRY.to_json(), **change}
    cache.path(KEY).write_text(json.dumps(data))
    with pytest.warns(UserWarning, match=what):
        assert cache.find(KEY) is None


def test_folder_that_cannot_be_written_is_a_warning(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.warns(UserWarning, match="set SYNCOPATE_CACHE_DIR"):
        TuningCache(tmp_path / "file" / "tuning").store(ENTRY)


def run(*words: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "syncopate.cli", "cache", *words]
    code = f"import sys; from syncopate.cli import main; sys.exit(main({['cache', *words]!r}))"
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_command_line_lists_ships_and_removes(cache, tmp_path):
    """By another process, as a user does."""
    cache.store(ENTRY)
    folder, shipped = ["--folder", str(cache.folder)], tmp_path / "shipped.json"
    listed = run("list", *folder)
    assert listed.returncode == 0, listed.stderr
    assert listed.stdout == (
        f"{cache.path(KEY).stem}: {CHOSEN.name}, measured 80.0 µs, 1.250x the speed of the default, the best of 2\n"
    )
    exported = run("export", str(shipped), *folder)
    assert exported.stdout == f"1 entries in {shipped}\n"
    other = ["--folder", str(tmp_path / "other")]
    assert run("import", str(shipped), *other).stdout == "1 entries added, 0 there already\n"
    assert TuningCache(tmp_path / "other").find(KEY) == ENTRY
    assert run("remove", "nothing", *other).stdout == "0 entries removed\n"


def test_command_line_shows_what_was_measured(cache, capsys):
    cache.store(ENTRY)
    assert main(["cache", "show", "ag_gemm", "--folder", str(cache.folder)]) == 0
    said = capsys.readouterr().out
    assert "for kind ag_gemm, m 512, on NVIDIA H200, sm_90x132, syncopate 0.1.0" in said
    assert "80.0 µs (0.800 of the default, predicted 85.0)" in said
    assert "considered: 40" in said


def test_command_line_says_where_it_looks(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("SYNCOPATE_CACHE_DIR", str(tmp_path))
    assert main(["cache", "path"]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'tuning'}\n"


def test_import_keeps_what_is_there_unless_told(cache, tmp_path, capsys):
    folder = ["--folder", str(cache.folder)]
    cache.store(ENTRY)
    shipped = tmp_path / "shipped.json"
    assert main(["cache", "export", str(shipped), "ag_gemm", *folder]) == 0
    mine = dataclasses.replace(ENTRY, candidate=DEFAULT)
    cache.store(mine)
    assert main(["cache", "import", str(shipped), *folder]) == 0
    assert cache.find(KEY) == mine
    assert main(["cache", "import", str(shipped), "--replace", *folder]) == 0
    assert cache.find(KEY) == ENTRY
    assert capsys.readouterr().out.endswith("1 entries added, 0 there already\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["show", "nobody"], "cache: no entry in .* has 'nobody' in its name"),
        (["import", "{folder}/nothing.json"], "file: cannot read "),
        (
            ["import", "{folder}/odd.json"],
            "file: expects what `syncopate cache export` has written",
        ),
        (["export", "{folder}/no/such/place.json"], "file: cannot write"),
        (["remove"], "cache: expects names of entries to remove, or --all, and not both"),
        (["remove", "x", "--all"], "cache: expects names of entries to remove, or --all"),
    ],
)
def test_wrong_use_is_an_error(tmp_path, capsys, words, message):
    (tmp_path / "odd.json").write_text('{"entries": [1]}')
    words = [word.format(folder=tmp_path) for word in words]
    assert main(["cache", *words, "--folder", str(tmp_path / "tuning")]) == 1
    import re

    assert re.search(message, capsys.readouterr().err)


def test_remove_takes_damaged_files_too(cache, capsys):
    cache.store(ENTRY)
    (cache.folder / "broken.json").write_text("{")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert main(["cache", "remove", "broken", "--folder", str(cache.folder)]) == 0
    assert capsys.readouterr().out == "broken\n1 entries removed\n"
    assert main(["cache", "remove", "--all", "--folder", str(cache.folder)]) == 0
    assert not list(cache.folder.glob("*.json"))


def test_cache_alone_prints_its_help(capsys):
    assert main(["cache"]) == 0
    assert "export" in capsys.readouterr().out
