"""The picture of a schedule: well-formed, complete, and of the right data."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hand_tables import ENGINE, all_gather

from syncopate.plan.plan_file import schedule_plan
from syncopate.show import describe_schedule, draw_schedule
from syncopate.show.model import read_lanes
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
    schedule = schedule_plan(
        PULL.read_text(), "realization=ldst_colocated algorithm=direct direction=pull"
    )
    lanes = read_lanes(schedule)
    assert [t.staging for t in lanes[0].transfers].count(True) == 1
    staging = lanes[0].transfers[0]
    assert (staging.by, staging.src, staging.dst) == (0, 0, 0)
    said = describe_schedule(schedule)
    assert re.search(
        r"  stages its input a\[0:\d+, 0:\d+\] for rank 1.* by ldst_colocated, after", said
    )
    picture = draw_schedule(schedule)
    assert re.search(r"stages its input a\[0:\d+, 0:\d+\] for others", picture)
    assert "raises ready[0] at rank" in picture


def _plan(shape, footprint, sizes, put=None):
    """Two ranks; rank 0 puts what a tile reads of a buffer whose input it holds."""
    kind = f"!chunk.buffer<{'x'.join(map(str, shape))}xf32>"
    offsets, extent = put or ([0] * len(shape), list(shape))
    zero = [0] * len(shape)
    return f"""
chunk.plan @p mesh [2] {{
  %x = chunk.buffer "x" : {kind}
  chunk.input %x{zero} sizes {list(shape)} on 0 : {kind}
  %t = chunk.put %x{offsets} to %x{offsets} sizes {extent} from 0 to 1 : {kind} to {kind}
  chunk.kernel @k tiles [2] ctas 2 args(%x as "x") after(%t) : {kind} {{
    chunk.footprint read "x" at affine_map<(m) -> ({footprint})> sizes {sizes}
  }}
}}
"""


@pytest.mark.parametrize(
    ("shape", "put", "footprint", "sizes", "words"),
    [
        ((64,), None, "m * 32", [32], "x[0:64]"),
        ((8, 6), ([2, 1], [4, 5]), "m * 2 + 2, 1", [2, 5], "x[2:6, 1:6]"),
        (
            (4, 6, 8),
            ([1, 1, 2], [2, 3, 4]),
            "m + 1, 1, 2",
            [1, 3, 4],
            "x[1:3, 1:4, 2:6]",
        ),
        ((4, 1, 8), ([1, 0, 0], [2, 1, 8]), "m + 1, 0, 0", [1, 1, 8], "x[1:3, 0:1, 0:8]"),
        (
            (3, 4, 5, 6),
            ([1, 1, 1, 1], [2, 2, 2, 3]),
            "m + 1, 1, 1, 1",
            [1, 2, 2, 3],
            "x[1:3, 1:3, 1:3, 1:4]",
        ),
        (
            (2, 3, 2, 3, 4),
            ([0, 1, 0, 1, 1], [2, 2, 2, 2, 2]),
            "m, 1, 0, 1, 1",
            [1, 2, 2, 2, 2],
            "x[0:2, 1:3, 0:2, 1:3, 1:3]",
        ),
    ],
    ids=["1-D", "2-D", "3-D", "3-D with a flat dimension", "4-D", "5-D"],
)
def test_buffers_of_one_to_five_dimensions(shape, put, footprint, sizes, words):
    schedule = schedule_plan(_plan(shape, footprint, sizes, put))
    lanes = read_lanes(schedule)
    # However many commands a transfer needs, it is one transfer.
    assert [t.region for t in lanes[0].transfers] == [words]
    assert all(tile.origins == (0,) for lane in lanes for tile in lane.tiles)
    assert f"  puts {words} to rank 1 by ldst_colocated" in describe_schedule(schedule)
    ElementTree.fromstring(draw_schedule(schedule))


def test_flags_of_streams_are_named_as_such():
    schedule = schedule_plan(
        PULL.read_text(), "realization=copy_engine algorithm=ring direction=pull splits=1"
    )
    said = describe_schedule(schedule)
    assert "opens a call: raises ready[0] for streams at rank 1" in said
    assert "after done[1] for streams of the call before and ready[3] for streams" in said
    assert "before its input is replaced it waits for done[1] of the call before" in said
    assert "raises s3 at rank 0 and s3 for streams at rank 1" in said
    assert "from rank 3 (s3) at position" in said
    assert "ends a call after engine_done: raises done[0] at rank 3" in said
    layout = schedule.signal_layout
    for number in re.findall(r"\bs(\d+)", said):
        assert int(number) < layout.data_twin


def test_text_of_copies_stays_left_of_the_grid_and_many_copies_are_counted():
    options = "realization=ldst_colocated algorithm=ring direction=push splits=32"
    picture = draw_schedule(schedule_plan(PULL.read_text(), options))
    root = ElementTree.fromstring(picture)
    assert float(root.attrib["height"]) < 4 * 420
    assert "more, which explain() lists" in picture
    for text in root.iter(f"{SVG}text"):
        if text.attrib.get("font-size") == "10.5" and float(text.attrib["x"]) < 100:
            words = text[0].tail if len(text) else text.text
            assert len(words) * 0.55 * 10.5 <= 330


def test_a_program_says_where_its_input_is_read():
    import syncopate
    from syncopate.kernels import GemmConfig, bind_gemm, bind_gemm_pointers, gemm, gemm_pointers

    config = GemmConfig(block_n=64, num_warps=4, num_ctas=8)

    def explain(kernel, bind, rows=512, **strategy):
        plan = syncopate.Plan("p", mesh=[2])
        a = plan.buffer("a", (rows, 128), "bf16", shard_axis=0)
        plan.all_gather(a)
        program = syncopate.compile(
            kernel, plan, **bind(a, 128, config), strategy=syncopate.Strategy(**strategy)
        )
        return next(line for line in program.explain().splitlines() if line.startswith("input a"))

    engine = {"realization": "copy_engine"}
    assert "where the caller keeps them, without a copy" in explain(gemm, bind_gemm)
    assert "where the caller keeps them, without a copy" in explain(gemm, bind_gemm, **engine)
    assert explain(gemm, bind_gemm, direction="pull", **engine).endswith(
        "before the kernel, since copy engines of other ranks get it from there"
    )
    assert "takes it as a pointer, a_ptr" in explain(gemm_pointers, bind_gemm_pointers)
    assert "tile (1, 0) of rank 0 reads rows of it together with others'" in explain(
        gemm, bind_gemm, rows=500
    )
