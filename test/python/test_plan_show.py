"""`syncopate show`: pictures of plans with and without kernels, from .mlir and .py."""

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from syncopate import Plan, SyncopateError
from syncopate.cli import main
from syncopate.model.fabric_file import find_fabric
from syncopate.show.plan_show import PlanShow
from syncopate.show.plan_transfers import read_transfers
from syncopate.show.svg import INK
from syncopate.show.views import View

pytestmark = pytest.mark.any_triton

RING = Path(__file__).parents[2] / "examples" / "plans" / "ring_by_hand.mlir"


def bars(svg):
    return len(re.findall(r"<title>(?:put|get) \d+", svg))


def chain():
    """A sum of what tiles of rank 0 compute, passed on by rank 1."""
    plan = Plan("chain", [3])
    a = plan.buffer("a", (4, 8), "f16")
    made = [plan.produce(a[:], rank=rank) for rank in range(2)]
    first = plan.put(a[:], a[:], src_rank=0, dst_rank=1, reduction="sum", after=made)
    b = plan.buffer("b", (4, 8), "f16")
    plan.get(a[0:2], b[0:2], src_rank=1, dst_rank=2, after=[plan.join([first])])
    return plan


def test_transfers_are_those_of_the_plan():
    found = read_transfers(chain().text_with_locations, "splits=1")
    assert (found.name, found.ranks, found.has_kernel, found.calls) == ("chain", 3, False, ())
    put, get = found.transfers
    assert (put.kind, put.src_rank, put.dst_rank, put.reduction) == ("put", 0, 1, "sum")
    assert (put.source, put.nbytes, put.after, put.after_tiles) == ("a[0:4, 0:8]", 64, (), True)
    assert (get.kind, get.target, get.nbytes, get.after) == ("get", "b[0:2, 0:8]", 32, (0,))
    assert (get.after_tiles, get.executor, put.executor) == (False, 2, 0)
    assert re.search(r"test_plan_show\.py:\d+$", put.place)


def test_times_are_steps_or_microseconds():
    assert [span.end_us for span in PlanShow(chain().text, "splits=1").spans] == [1.0, 1.5]
    fabric = find_fabric("h100-w8-predicted", 3)
    spans = PlanShow(chain().text, "splits=1", fabric=fabric).spans
    assert spans[0].end_us == pytest.approx(4.0 + 64 / 369e3)
    with pytest.raises(SyncopateError, match="fabric: expects 3 ranks, those of plan chain"):
        PlanShow(chain().text, fabric=find_fabric("h100-w8-predicted", 4))


@pytest.mark.parametrize("view", View)
def test_pictures_are_documents_with_every_transfer(view):
    svg = PlanShow(RING.read_text()).draw(view)
    ElementTree.fromstring(svg)
    expected = {View.RANKS: 12, View.DEPENDENCES: 6, View.SCHEDULE: 0}
    shown = bars(svg)
    # By rank and time, each transfer stands at its sender and at its receiver; those wide enough have a label, too.
    assert shown == expected[view] if view is not View.RANKS else shown >= expected[view]


def test_sums_have_an_edge_and_colours_are_explained_in_large_pictures_too():
    """Where there are too many transfers for tooltips, each colour is one element."""
    plan = Plan("large", [48])
    a = plan.buffer("a", (48, 8), "f16")
    made = [plan.produce(a[:], rank=rank) for rank in range(48)]
    plan.reduce_scatter(a, after=made, algorithm="direct")
    svg = PlanShow(plan.text).draw(View.RANKS)
    edges = re.findall(rf'<path d="([^"]*)" fill="{INK}"', svg)
    assert sum(edge.count("M") for edge in edges) == 2 * 48 * 47
    assert "Every 8th rank has the same colour." in svg


def test_words_above_a_graph_of_one_column_have_room():
    plan = Plan("broadcast_by_direct_puts", [8])
    a = plan.buffer("a", (8, 8), "f16")
    plan.input(a[:], rank=0)
    plan.broadcast(a, root=0, algorithm="direct")
    root = ElementTree.fromstring(PlanShow(plan.text).draw(View.DEPENDENCES))
    width = float(root.attrib["width"])
    for text in root.iter("{http://www.w3.org/2000/svg}text"):
        letters = 0.5 * float(text.attrib["font-size"]) * len("".join(text.itertext()))
        assert float(text.attrib["x"]) + letters <= width


def test_plan_without_kernel_has_no_schedule_but_pictures():
    shown = PlanShow(chain().text)
    for view in (View.RANKS, View.DEPENDENCES):
        ElementTree.fromstring(shown.draw(view))
    with pytest.raises(SyncopateError, match=r"plan chain has no chunk\.kernel"):
        shown.draw(View.SCHEDULE)


def test_page_is_whole_and_escapes_names(tmp_path):
    plan = Plan("a<b", [2])
    a = plan.buffer("x", (4, 8), "f16")
    plan.input(a[:], rank=0)
    plan.broadcast(a, root=0)
    page = PlanShow(plan.text, "splits=2").write_page()
    assert page.count("<svg") == 2
    assert page.count('<tr id="t') == 2
    assert "a<b" not in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")


def test_graphs_that_nobody_could_read_are_refused():
    plan = Plan("many", [8])
    a = plan.buffer("a", (80, 2), "f32", shard_axis=0)
    plan.all_gather(a)
    shown = PlanShow(plan.text, "splits=10")
    with pytest.raises(SyncopateError, match=r"at most 400 transfers .* but got 560"):
        shown.draw(View.DEPENDENCES)
    assert shown.write_page().count("<svg") == 1


def test_command_draws_python_files(tmp_path, capsys):
    file = tmp_path / "plans.py"
    build = 'import syncopate\ndef make(n):\n    p = syncopate.Plan("p", [n])\n'
    build += '    a = p.buffer("a", (n * 4, 2), "f32", shard_axis=0)\n    p.all_gather(a)\n    return p\n'
    file.write_text(build + "two = make(2)\nthree = make(3)\nagain = three\n")
    assert main(["show", f"{file}:three", "--json", "--options", "splits=1"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["ranks"], len(shown["transfers"]), shown["unit"]) == (3, 6, "steps")
    assert shown["transfers"][0]["place"] == f"{file}:5"
    out = tmp_path / "p.html"
    assert main(["show", f"{file}:two", "--out", str(out)]) == 0
    assert out.read_text().startswith("<!DOCTYPE html>")
    assert capsys.readouterr().out == f"{out}\n"


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ("x = 1\n", "", "to leave one syncopate.Plan in a variable, but it leaves none"),
        ("x = 1\n", ":x", "leaves no plan named x; its plans: none"),
        ("1 / 0\n", "", "plans.py:1: ZeroDivisionError: division by zero"),
        ("import sys\nsys.exit(0)\n", "", "plans.py:2: SystemExit: 0"),
        (
            "import syncopate\n\nsyncopate.Plan('p', [2]).buffer('a', (2,), 'f99')\n",
            "",
            "plans.py:3: dtype: expects an element type",
        ),
        (
            "import syncopate\na, b = (syncopate.Plan('p', [2]) for _ in range(2))\n",
            "",
            "but it leaves plans a, b; name one, as ",
        ),
    ],
)
def test_python_files_without_a_plan_are_one_line(text, name, said, tmp_path, capsys):
    file = tmp_path / "plans.py"
    file.write_text(text)
    assert main(["show", f"{file}{name}"]) == 1
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
