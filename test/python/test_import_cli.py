"""The commands `syncopate import` and `syncopate export`."""

import json
import re

import pytest
from import_files import (
    FILES,
    msccl_ring_all_gather,
    msccl_ring_reduce_scatter,
    mscclpp_pairs_all_gather,
)

from syncopate.cli import main
from syncopate.importers import Format, prove, read_steps

pytestmark = pytest.mark.any_triton


@pytest.fixture
def ring(tmp_path):
    path = tmp_path / "ring.xml"
    path.write_text(msccl_ring_all_gather(3))
    return path


@pytest.mark.parametrize("name", ["msccl_ring_all_gather", "mscclpp_packets_all_reduce"])
def test_what_is_imported_can_be_checked_explained_and_drawn(name, tmp_path, capsys):
    form, _, write = FILES[name]
    file, plan, picture = (tmp_path / end for end in ("in", "plan.mlir", "plan.svg"))
    file.write_text(write(3))
    words = ["import", str(file), "--from", form, "--kernel", "--out", str(plan)]
    assert main(words) == 0
    assert capsys.readouterr().out == ""
    assert main(["check", str(plan), "--seeds", "2"]) == 0
    assert main(["explain", str(plan)]) == 0
    assert main(["show", str(plan), "--view", "schedule", "--out", str(picture)]) == 0
    said = capsys.readouterr().out
    assert "no races or deadlocks" in said
    assert "rank 2: " in said
    assert picture.read_text().startswith("<svg")


def test_reduce_scatter_of_inputs_can_be_checked(tmp_path, capsys):
    """Tiles of all ranks read the same rows of the result, which each rank has copied there."""
    file, plan = tmp_path / "in.xml", tmp_path / "plan.mlir"
    file.write_text(msccl_ring_reduce_scatter(3))
    assert main(["import", str(file), "--from", "msccl-xml", "--kernel", "--out", str(plan)]) == 0
    assert main(["check", str(plan), "--seeds", "1"]) == 0
    assert "no races or deadlocks" in capsys.readouterr().out


def test_import_takes_shape_type_and_source(ring, capsys):
    words = ["import", str(ring), "--from", "msccl-xml", "--shape", "99x7", "--dtype", "bf16"]
    assert main([*words, "--source", "tiles"]) == 0
    text = capsys.readouterr().out
    assert 'chunk.buffer "data" : <99x7xbf16>' in text
    assert text.count("chunk.produce") == 3
    assert "chunk.input" not in text
    assert f'"{ring}":5:1' in text


@pytest.mark.parametrize("form", [form for form in Format if form.is_written])
def test_export_writes_a_file_that_import_takes(form, ring, tmp_path, capsys):
    plan, out = tmp_path / "plan.mlir", tmp_path / "out"
    assert main(["import", str(ring), "--from", "msccl-xml", "--out", str(plan)]) == 0
    assert main(["export", str(plan), "--to", form.value, "--out", str(out)]) == 0
    assert main(["export", str(plan), "--to", form.value]) == 0
    assert capsys.readouterr().out == out.read_text()
    steps = read_steps(out.read_text(), form)
    prove(steps)
    assert (steps.ranks, steps.chunks, len(steps.moves)) == (3, 1, 6)
    said = ["--collective", "all_reduce"]
    assert main(["export", str(plan), "--to", form.value, *said]) == 1
    assert "expects all_reduce, as collective says, but got all_gather" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["msccl-xml", "mscclpp-json", "taccl-json"])
def test_a_mark_in_front_of_the_text_is_read_past(form, tmp_path, capsys):
    """UTF-8 as editors on Windows save it."""
    name = next(name for name, (known, _, _) in FILES.items() if known == form)
    file, marked = tmp_path / "plan", tmp_path / "marked"
    file.write_text(FILES[name][2](2), encoding="utf-8")
    marked.write_text(FILES[name][2](2), encoding="utf-8-sig")
    texts = []
    for path in (file, marked):
        assert main(["import", str(path), "--from", form]) == 0
        texts.append(capsys.readouterr().out.replace(str(path), "file"))
    assert texts[0] == texts[1]
    plan = tmp_path / "plan.mlir"
    plan.write_text(texts[0], encoding="utf-8-sig")
    assert main(["export", str(plan), "--to", "msccl-xml"]) == 0


def test_export_takes_a_python_file_that_builds_the_plan(tmp_path, capsys):
    file = tmp_path / "gather.py"
    lines = ["from syncopate import Plan", "", "plan = Plan('gather', mesh=[2])"]
    lines += ["a = plan.buffer('a', (4, 8), 'f32', shard_axis=0)", "plan.all_gather(a)"]
    file.write_text("\n".join(lines))
    for name in (file, f"{file}:plan"):
        assert main(["export", str(name), "--to", "msccl-xml"]) == 0
        steps = read_steps(capsys.readouterr().out, Format.MSCCL_XML)
        prove(steps)
        assert (steps.ranks, steps.name) == (2, "gather")
    file.write_text("\n".join([*lines, "plan.broadcast(a, root=0)"]))
    assert main(["export", str(file), "--to", "msccl-xml"]) == 1
    assert "gather.py" in capsys.readouterr().err


def test_plan_without_claim_is_exported_as_what_it_is_said_to_be(tmp_path, capsys):
    form, collective, write = FILES["mscclpp_reading_reduce_scatter"]
    file, plan = tmp_path / "in.json", tmp_path / "plan.mlir"
    file.write_text(write(3))
    assert main(["import", str(file), "--from", form, "--out", str(plan)]) == 0
    words = ["export", str(plan), "--to", form]
    assert main(words) == 1
    assert "expects a plan with one collective" in capsys.readouterr().err
    assert main([*words, "--collective", collective]) == 0
    steps = read_steps(capsys.readouterr().out, form)
    prove(steps)
    assert not steps.in_place


def test_exported_execution_plan_has_what_the_executor_reads(tmp_path, capsys):
    file, plan = tmp_path / "in.json", tmp_path / "plan.mlir"
    file.write_text(mscclpp_pairs_all_gather(2))
    assert main(["import", str(file), "--from", "mscclpp-json", "--out", str(plan)]) == 0
    assert main(["export", str(plan), "--to", "mscclpp-json"]) == 0
    content = json.loads(capsys.readouterr().out)
    # Both ranks tell each other that they have begun, put, and wait for each other's put.
    for gpu in content["gpus"]:
        put, guard = ([op["name"] for op in block["ops"]] for block in gpu["threadblocks"])
        assert put == ["rlxwait", "put", "nop", "signal"]
        assert guard == ["rlxsignal", "wait"]
        assert gpu["remote_buffers"] == [
            {"rank": 1 - gpu["id"], "type": "o", "access_channel_types": ["memory"]}
        ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["import", "NONE", "--from", "msccl-xml"], "file: cannot read .*NONE: No such file"),
        (["export", "NONE", "--to", "msccl-xml"], "file: cannot read .*NONE: No such file"),
        (["import", "RING", "--from", "taccl-json"], r"RING:1: expects a value, but got '<'"),
        (["export", "RING", "--to", "msccl-xml"], "RING:1: expected operation name"),
        (["import", "BYTES", "--from", "msccl-xml"], "file: .*BYTES is no text"),
        (["import", "RING", "--from", "msccl-xml", "--dtype", "x"], "dtype: expects an element"),
        (["import", "RING", "--from", "msccl-xml", "--dtype", ""], "dtype: expects an element"),
        (["import", "RING", "--from", "msccl-xml", "--out", "."], "--out: cannot write "),
    ],
)
def test_what_goes_wrong_is_one_line(words, said, ring, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "RING").write_text(ring.read_text())
    (tmp_path / "BYTES").write_bytes(b"<algo \xff")
    assert main(words) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert re.match(f"syncopate: {said}", err), err


@pytest.mark.parametrize(
    "words",
    [
        ["import", "x"],
        ["import", "x", "--from", "xml"],
        ["export", "x", "--to", "taccl-json"],
        ["import", "x", "--from", "msccl-xml", "--shape", "0x4"],
        ["import", "x", "--from", "msccl-xml", "--shape", "4x"],
        ["import", "x", "--from", "msccl-xml", "--source", "files"],
    ],
)
def test_wrong_usage_leaves_through_argparse(words, capsys):
    with pytest.raises(SystemExit) as left:
        main(words)
    assert left.value.code == 2
    assert capsys.readouterr().err.startswith("usage: syncopate")
