"""The picture of a schedule: well-formed, complete, and of the right data."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hand_tables import ENGINE, all_gather

from syncopate.show import describe_schedule, draw_schedule
from syncopate.show.model import read_lanes
from syncopate.show.plan_file import schedule_plan
from syncopate.show.svg import rank_colour

SVG = "{http://www.w3.org/2000/svg}"


def _tips(picture):
    return [t.text for t in ElementTree.fromstring(picture).iter(f"{SVG}title")]


@pytest.mark.parametrize(("world", "algorithm"), [(2, "push"), (4, "pull"), (3, "ring")])
def test_every_tile_of_every_rank_is_drawn(world, algorithm):
    program = all_gather(world, algorithm)
    tips = _tips(draw_schedule(program))
    positions = len(program.per_rank[0]["tiles"])
    assert len({(i, t) for i, t in enumerate(tips)}) >= world * positions
    assert sum("position 0," in t for t in tips) == world


def test_tile_takes_the_colour_of_the_rank_whose_data_it_waits_for():
    lanes = read_lanes(all_gather(3, "ring"))
    last = lanes[0].tiles[-1]
    assert [t.origin for t in last.waits] == [2]
    assert last.origins == (2,)
    first_hop = [t for t in lanes[0].tiles if t.waits and t.waits[0].origin == 1]
    assert first_hop[0].waits[0].src == 2  # rank 2 forwards the data of rank 1


def test_picture_uses_one_colour_per_rank_and_no_outside_resource():
    picture = draw_schedule(all_gather(4, "push", ENGINE), title="a < b")
    assert all(rank_colour(r) in picture for r in range(4))
    assert picture.count("http") == 1  # the namespace
    assert "a &lt; b" in picture
    assert "copy_engine" in picture


def test_many_ctas_are_drawn_without_labels_and_within_the_card():
    program = all_gather(2, shape=(512, 16), columns=64, num_ctas=132)
    root = ElementTree.fromstring(draw_schedule(program))
    width = float(root.attrib["width"])
    rects = [r for r in root.iter(f"{SVG}rect") if r.attrib.get("x")]
    assert all(float(r.attrib["x"]) + float(r.attrib["width"]) <= width for r in rects)


PULL = Path(__file__).parents[2] / "examples" / "plans" / "all_gather_pull.mlir"


def test_staging_for_other_ranks_is_told_and_drawn():
    schedule = schedule_plan(PULL.read_text(), "realization=ldst_colocated algorithm=direct_pull")
    lanes = read_lanes(schedule)
    assert [t.staging for t in lanes[0].transfers].count(True) == 1
    staging = lanes[0].transfers[0]
    assert (staging.by, staging.src, staging.dst) == (0, 0, 0)
    said = describe_schedule(schedule)
    assert re.search(
        r"  stages its input a\[0:\d+, 0:\d+\] for rank 1.* by ldst_colocated, after", said
    )
    picture = draw_schedule(schedule)
    assert re.search(r"stages its input a\[0:\d+, 0:\d+\] for other ranks", picture)
    assert "raises ready[0] of rank 1" in picture
