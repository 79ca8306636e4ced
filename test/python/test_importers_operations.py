"""What each step of MSCCL, and each operation of MSCCL++, moves."""

import json

import pytest
from import_files import MscclFile, MscclppFile

from syncopate.importers import prove, read_steps

pytestmark = pytest.mark.any_triton

COPY, SUM = "copy of {} to {}", "reduction of {} to {}"


def cells(text):
    """`s1@0` are cells 1 of scratch of rank 0; `d` is the buffer of what is in place."""
    place, rank = text.split("@")
    memory = {"i": "input", "o": "output", "s": "scratch", "d": "data", "f": "fifo"}[place[0]]
    begin, _, count = place[1:].partition("+")
    return f"{memory}[{begin}:{int(begin) + int(count or 1)}] of rank {rank}"


def spell(moves):
    return [form.format(cells(src), cells(dst)) for form, src, dst in moves]


def msccl(steps, **options):
    file = MscclFile("allreduce", 2, 4, 4, scratch_chunks=4, in_place=False)
    for rank, kind, src, dst, ends in steps:
        file.step(rank, kind, src, dst, **ends, **options)
    return [str(move) for move in read_steps(file.text(), "msccl-xml").moves]


TO, FROM = {"send": 1}, {"recv": 0}


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([(0, "cpy", "i1", "s2", {})], [(COPY, "i1@0", "s2@0")]),
        ([(0, "re", "i1", "s2", {})], [(SUM, "i1@0", "s2@0")]),
        ([(0, "cpy", "i1", "i1", {})], []),
        ([(0, "nop", "i-1", "o-1", {})], []),
        ([(0, "s", "i1", "o2", TO), (1, "r", "i1", "s3", FROM)], [(COPY, "i1@0", "s3@1")]),
        ([(0, "s", "i1", "o2", TO), (1, "rrc", "s3", "s3", FROM)], [(SUM, "i1@0", "s3@1")]),
        # What comes is added to the source, wherever the sum is then.
        (
            [(0, "s", "i1", "o2", TO), (1, "rrc", "i2", "s3", FROM)],
            [(COPY, "i2@1", "s3@1"), (SUM, "i1@0", "s3@1")],
        ),
        (
            [
                (0, "s", "i1", "o2", TO),
                (1, "rcs", "o3", "s3", FROM | {"send": 0}),
                (0, "r", "o0", "o0", {"recv": 1}),
            ],
            [(COPY, "i1@0", "s3@1"), (COPY, "s3@1", "o0@0")],
        ),
        (
            [
                (0, "s", "i1", "o2", TO),
                (1, "rrcs", "s3", "s3", FROM | {"send": 0}),
                (0, "r", "o0", "o0", {"recv": 1}),
            ],
            [(SUM, "i1@0", "s3@1"), (COPY, "s3@1", "o0@0")],
        ),
        # A sum that is only sent on is behind the scratch.
        (
            [
                (0, "s", "i1", "o2", TO),
                (1, "rrs", "i3", "o3", FROM | {"send": 0}),
                (0, "r", "o0", "o0", {"recv": 1}),
            ],
            [(COPY, "i3@1", "s4@1"), (SUM, "i1@0", "s4@1"), (COPY, "s4@1", "o0@0")],
        ),
        # The sender overwrites what it has sent before it is taken: it waits for what is taken last.
        (
            [
                (0, "s", "s1", "o2", {"send": 1, "recv": 1}),
                (0, "r", "s1", "s1", {"send": 1, "recv": 1}),
                (1, "s", "i0", "o2", {"send": 0}),
                (1, "nop", "i-1", "o-1", {"after": (0, 0)}),
                (1, "nop", "i-1", "o-1", {"after": (0, 0)}),
                (1, "r", "o0", "o0", {"recv": 0, "after": (1, 1)}),
            ],
            [(COPY, "s1@0", "f0@1"), (COPY, "i0@1", "s1@0"), (COPY, "f0@1", "o0@1")],
        ),
    ],
)
def test_steps_of_msccl_move(steps, expected):
    assert msccl(steps) == spell(expected)


def test_counts_of_msccl_are_cells_side_by_side():
    steps = [(0, "s", "i1", "o2", TO), (1, "r", "i1", "s1", FROM)]
    assert msccl(steps, count=3) == spell([(COPY, "i1+3@0", "s1+3@1")])


def test_what_taccl_adds_to_msccl():
    """Copies before all steps, scratch behind the output, no reduction by its name."""
    file = MscclFile("alltoall", 2, 2, 2, scratch_chunks=1, in_place=False)
    for rank in range(2):
        file.step(rank, "s", f"i{1 - rank}", "o2", send=1 - rank)
        file.step(rank, "r", "i0", "o2", recv=1 - rank)
        file.step(rank, "cpy", "o2", f"o{1 - rank}", after=(1, 0))
    text = file.text().replace("<algo", '<algo redop="nop"')
    for rank in range(2):
        gpu = f'<gpu id="{rank}" i_chunks="2" o_chunks="2" s_chunks="1">'
        text = text.replace(gpu, f'{gpu}<copy i_off="{rank}" o_off="{rank}"/>')
    steps = read_steps(text, "msccl-xml")
    prove(steps)
    moves = list(map(str, steps.moves))
    assert moves.index(spell([(COPY, "i0@0", "o0@0")])[0]) < moves.index(
        spell([(COPY, "s0@0", "o1@0")])[0]
    )
    assert len(moves) == 6


def test_input_and_output_in_place_are_one_buffer():
    file = MscclFile("allgather", 2, 1, 2)
    file.step(1, "s", "i0", "o1", send=0)
    file.step(0, "r", "i0", "o1", recv=1)
    assert list(map(str, read_steps(file.text(), "msccl-xml").moves)) == spell(
        [(COPY, "d1@1", "d1@0")]
    )
    file = MscclFile("reduce_scatter", 2, 2, 1)
    file.step(1, "re", "i0", "o0")
    assert list(map(str, read_steps(file.text(), "msccl-xml").moves)) == spell(
        [(SUM, "d0@1", "d1@1")]
    )


def mscclpp(*operations, channel="memory"):
    """The moves of operations of rank 0, to whose scratch 3 rank 1 sends packets."""
    file = MscclppFile("allreduce", 2, (4, 4, 4), in_place=False)
    file.add(1, 0, "ppkt", "i3", "+s3")
    for name, src, dst, more in operations:
        file.add(0, 1, name, src, dst, **more)
        if name.startswith("pws"):
            file.add(1, 0, "wait")
    text = file.text().replace('"memory"', f'"{channel}"')
    moves = read_steps(text, "mscclpp-json").moves
    sent = [move for move in moves if (move.src.rank, move.dst.rank) == (1, 0) and not move.pull]
    assert len(sent) == 1
    return [move for move in moves if move not in sent]


@pytest.mark.parametrize(
    ("name", "src", "dst", "expected"),
    [
        ("copy", "i0", "s1", [(COPY, "i0@0", "s1@0")]),
        ("cpkt", "i0", "s1", [(COPY, "i0@0", "s1@0")]),
        ("upkt", "s3", "o1", [(COPY, "s3@0", "o1@0")]),
        ("put", "i0", "+o1", [(COPY, "i0@0", "o1@1")]),
        ("put", ["i0", "i1"], ["+o1", "+s0"], [(COPY, "i0@0", "o1@1"), (COPY, "i1@0", "s0@1")]),
        ("pws", "i0", "+o1", [(COPY, "i0@0", "o1@1")]),
        ("pwsf", "i0", "+o1", [(COPY, "i0@0", "o1@1")]),
        ("ppkt", "i0", "+s1", [(COPY, "i0@0", "s1@1")]),
        ("rppkt", "s3", ["+s1", "+s2"], [(COPY, "s3@0", "s1@1"), (COPY, "s3@0", "s2@1")]),
        ("get", "+i0", "o1", [(COPY, "i0@1", "o1@0")]),
        ("re", ["i0", "s1"], "o2", [(COPY, "i0@0", "o2@0"), (SUM, "s1@0", "o2@0")]),
        ("re", ["o2", "s1", "s2"], "o2", [(SUM, "s1@0", "o2@0"), (SUM, "s2@0", "o2@0")]),
        # The sum is where the second source is.
        ("re", ["i0", "o2"], "o2", [(SUM, "i0@0", "o2@0")]),
        ("rre", ["i0", "+i1"], "i0", [(SUM, "i1@1", "i0@0")]),
        ("res", ["i0", "s1"], ["i0", "+o3"], [(SUM, "s1@0", "i0@0"), (COPY, "i0@0", "o3@1")]),
        ("rres", ["i0", "+i1"], ["i0", "+o3"], [(SUM, "i1@1", "i0@0"), (COPY, "i0@0", "o3@1")]),
        ("repkt", ["i0", "s3"], "i0", [(SUM, "s3@0", "i0@0")]),
        ("respkt", ["i0", "s3"], ["i0", "+s2"], [(SUM, "s3@0", "i0@0"), (COPY, "i0@0", "s2@1")]),
        ("recpkt", ["i0", "s3"], ["i0", "s2"], [(SUM, "s3@0", "i0@0"), (COPY, "i0@0", "s2@0")]),
        (
            "recspkt",
            ["i0", "s3"],
            ["i0", "s2", "+s1"],
            [(SUM, "s3@0", "i0@0"), (COPY, "i0@0", "s2@0"), (COPY, "i0@0", "s1@1")],
        ),
    ],
)
def test_operations_of_mscclpp_move(name, src, dst, expected):
    channels = {"channel_ids": [0]} if name.startswith("pws") else {}
    moves = mscclpp((name, src, dst, channels))
    assert [str(move) for move in moves] == spell(expected)
    for move in moves:
        assert move.pull == (name == "get" or (move.reduces and move.src.rank == 1))
        assert not move.engine


@pytest.mark.parametrize("name", ["put", "pws"])
def test_ports_are_copy_engines(name):
    (move,) = mscclpp((name, "i0", "+o1", {"channel_ids": [0]}), channel="port")
    assert move.engine


def test_groups_cut_chunks_into_their_parts():
    group = {"tbg_info": {"tb_id": 1, "tbg_size": 3}}
    moves = mscclpp(("copy", "i2", "s1", group), ("copy", "i0", "s0", {}))
    assert [str(move) for move in moves] == spell(
        [(COPY, "i7@0", "s4@0"), (COPY, "i0+3@0", "s0+3@0")]
    )


def test_semaphores_begin_with_what_the_file_says():
    file = MscclppFile("allreduce", 2, (1, 1, 0))
    file.content["gpus"][0]["semaphores"] = [{"init_value": 1}]
    file.add(0, 1, "sem_acquire", semaphore_ids=[0])
    file.add(0, 1, "sem_release", semaphore_ids=[0])
    assert read_steps(json.dumps(file.content), "mscclpp-json").moves == []
