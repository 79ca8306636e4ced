"""Programs made of plans alone: whatever a plan may hold, tiles copy what their footprints say."""

import random
import re

import numpy as np
import pytest
from random_plans import ELEMENTS, RandomPlan

from syncopate import Plan, Strategy, compile
from syncopate.errors import PlanError, SyncopateError
from syncopate.kernels import GemmConfig, bind_gemm, gemm
from syncopate.plan.interpreter import interpret_plan
from syncopate.sim import Kind, simulate
from syncopate.sim.check import check_plan
from syncopate.sim.probe import compare, make_probe

PLAN = """
!b = !chunk.buffer<{shape}x{element}>
chunk.plan @p mesh [2] {{
  %a = chunk.buffer "a" : !b
  chunk.input %a{origin} sizes {half} on 0 : !b
  chunk.input %a{second} sizes {half} on 1 : !b
  %t = chunk.all_gather %a axis 0 group [0, 1] : !b
  chunk.kernel @k tiles {tiles} ctas 2 args(%a as "what is read", %a as "1") after(%t) : !b, !b {{
    {footprints}
  }}
}}
"""


def write_plan(shape, element="f32", tiles=(3, 2), footprints=()):
    half = [shape[0] // 2, *shape[1:]]
    zeros = [0] * len(shape)
    names = ["m", "n", "k"][: len(tiles)]
    lines = [
        f'chunk.footprint read "{argument}" at affine_map<({", ".join(names)}) -> ({offsets})> sizes {sizes}'
        for argument, offsets, sizes in footprints
    ]
    return PLAN.format(
        shape="x".join(map(str, shape)),
        element=element,
        origin=zeros,
        half=half,
        second=[half[0], *zeros[1:]],
        tiles=list(tiles),
        footprints="\n    ".join(lines),
    )


def run(text, options="", **limits):
    """Simulates a probe; gives the program, the result, and outputs as the footprints define them."""
    program = make_probe(text, options, **limits)
    result = simulate(program, calls=2, seed=random.randrange(2**20))
    assert result.verdict.ok, str(result.verdict)
    findings = list(compare(program, result))
    assert not findings, "\n".join(map(str, findings))
    return program, result


def copy_by_definition(whole, tiles, offsets, sizes):
    """What a footprint covers, element by element; zero where it covers nothing."""
    shape = [min(size, bound) for size, bound in zip(sizes, whole.shape, strict=True)]
    out = np.zeros((int(np.prod(tiles)), *shape), whole.dtype)
    for number, tile in enumerate(np.ndindex(*tiles)):
        begins = offsets(*tile)
        for index in np.ndindex(*shape):
            at = [max(begin, 0) + i for begin, i in zip(begins, index, strict=True)]
            ends = [
                min(begin + size, bound)
                for begin, size, bound in zip(begins, sizes, whole.shape, strict=True)
            ]
            if all(a < end for a, end in zip(at, ends, strict=True)):
                out[(number, *index)] = whole[tuple(at)]
    return out


GRIDS = [
    ((10,), (4,), "m * 3 - 2", [5], lambda m: (m * 3 - 2,)),
    (
        (12, 7),
        (3, 2),
        "(m - 1) floordiv 2 + 3, (n - m * 3) mod 4",
        [4, 5],
        lambda m, n: ((m - 1) // 2 + 3, (n - m * 3) % 4),
    ),
    (
        (6, 4, 9),
        (2, 3, 2),
        "(m + n) ceildiv 2, 1, k * 5",
        [3, 1000, 5],
        lambda m, n, k: (-(-(m + n) // 2), 1, k * 5),
    ),
    (
        (4, 2, 3, 2, 5),
        (3, 1),
        "m, 0, 0, n - 5, 2",
        [2, 2, 2, 5, 3],
        lambda m, n: (m, 0, 0, n - 5, 2),
    ),
]


LARGE = [
    (
        (6, 9),
        (3, 4),
        "m + m, n mod 9223372036854775807",
        [2, 3],
        lambda m, n: (m + m, n % (2**63 - 1)),
    ),
    (
        (8, 10),
        (3, 2),
        "(m * 3000000000) mod 7, (n * -4611686018427387905) mod 9",
        [2, 3],
        lambda m, n: (m * 3_000_000_000 % 7, n * -(2**62 + 1) % 9),
    ),
    (
        (8, 10),
        (2, 3),
        "(m * -9223372036854775807) floordiv 4611686018427387904 + 2, n * 4294967296",
        [3, 10],
        lambda m, n: (m * -(2**63 - 1) // 2**62 + 2, n * 2**32),
    ),
    (
        (8, 10),
        (2, 3),
        "m * 9223372036854775807, (n * 5000000000) ceildiv 2500000001",
        [3, 5],
        lambda m, n: (m * (2**63 - 1), -(-5_000_000_000 * n // 2_500_000_001)),
    ),
    ((8,), (2,), "9223372036854775807", [3], lambda m: (2**63 - 1,)),
]
"""Offsets that do not fit in 32 bits on the way."""


@pytest.mark.parametrize(("shape", "tiles", "offsets", "sizes", "function"), [*GRIDS, *LARGE])
def test_footprints_are_copied_as_they_are_defined(shape, tiles, offsets, sizes, function):
    whole = ", ".join("0" for _ in shape)
    footprints = [("1", whole, list(shape)), ("what is read", offsets, sizes)]
    program, result = run(write_plan(shape, "i32", tiles, footprints), "splits=2")
    assert len(program.samplings) == 2
    for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
        gathered = np.concatenate(inputs["a"])
        for rank in range(2):
            expected = copy_by_definition(gathered, tiles, function, sizes)
            np.testing.assert_array_equal(outputs["out1"][rank], expected)
            for tile in outputs["out0"][rank]:
                np.testing.assert_array_equal(tile, gathered)


@pytest.mark.parametrize("element", [*ELEMENTS, "ui16", "f8E4M3FNUZ", "si8"])
@pytest.mark.parametrize("realization", ["ldst_colocated", "copy_engine"])
def test_elements_of_every_type(element, realization):
    text = write_plan(
        (6, 5), element, footprints=[("1", "m * 2, n", [2, 3]), ("what is read", "0, 0", [1, 1])]
    )
    run(text, f"realization={realization}")


def test_large_footprints_are_sampled_evenly():
    text = write_plan(
        (64, 100),
        "i16",
        footprints=[("1", "m * 30, 0", [30, 100]), ("what is read", "0, 0", [1, 1])],
    )
    program, result = run(text, most_elements=2 * 6 * 2 * 150)
    sampling = program.samplings[0]
    rows, columns = sampling.strides
    assert rows * columns > 1
    assert np.prod(sampling.counts) <= 150
    gathered = np.concatenate(result.inputs[0]["a"])
    for m in range(3):
        tile = result.outputs[0]["out0"][1][m * 2]
        at = [min(30 * m + i * rows, min(30 * m + 29, 63)) for i in range(sampling.counts[0])]
        inside = 30 * m + np.arange(sampling.counts[0]) * rows < min(30 * m + 30, 64) + rows - 1
        across = np.minimum(np.arange(sampling.counts[1]) * columns, 99)
        expected = np.where(inside[:, None], gathered[np.ix_(at, across)], 0)
        np.testing.assert_array_equal(tile, expected)
        assert across[-1] == 99


def test_fewer_ctas_make_another_schedule():
    text = write_plan(
        (12, 4), footprints=[("1", "m * 4, 0", [4, 4]), ("what is read", "0, 0", [1, 1])]
    )
    program, _ = run(text, most_ctas=1)
    assert program.num_ctas == 1
    assert run(text)[0].num_ctas == 2


def test_a_chunk_that_does_not_arrive_is_missed_though_no_tile_reads_it():
    plan = RandomPlan(random.Random(4), gathers=0)
    text = plan.text()
    program = make_probe(text)
    unread = [
        (rank, index)
        for rank in range(program.world_size)
        for index, row in enumerate(program.rank_tables(rank)["commands"].rows())
        if row["transfer"] >= 0 and program.buffers[row["dst_buffer"]].name == "y"
    ]
    assert unread, text
    for rank, index in unread:
        table = program.rank_tables(rank)["commands"]
        table.values[index, table.columns.index("rows")] = 0
    # Rows that are not copied are not in the tables either, so only the comparison can tell.
    result = simulate(program)
    assert any(
        finding.kind is Kind.RESULT
        and re.search(r"in the end, rank \d holds .* at y\[", finding.message)
        for finding in compare(program, result)
    )


def test_several_regions_of_a_rank_come_from_one_array():
    text = """
    !b = !chunk.buffer<6x2xi32>
    chunk.plan @p mesh [2] {
      %a = chunk.buffer "a" : !b
      chunk.input %a[0, 0] sizes [1, 2] on 0 : !b
      chunk.input %a[4, 0] sizes [2, 2] on 0 : !b
      chunk.input %a[1, 0] sizes [3, 2] on 1 : !b
      %t = chunk.put %a[1, 0] to %a[1, 0] sizes [3, 2] from 1 to 0 : !b to !b
      %u = chunk.put %a[4, 0] to %a[4, 0] sizes [2, 2] from 0 to 1 : !b to !b
      %v = chunk.put %a[0, 0] to %a[0, 0] sizes [1, 2] from 0 to 1 : !b to !b
      chunk.kernel @k tiles [2] ctas 1 args(%a as "a") after(%t, %u, %v) : !b {
        chunk.footprint read "a" at affine_map<(m) -> (m * 3, 0)> sizes [3, 2]
      }
    }
    """
    program = make_probe(text)
    whole = np.random.default_rng().integers(-1000, 1000, (6, 2))
    result = simulate(program, {"a": [whole, whole[1:4]]})
    assert result.verdict.ok, str(result.verdict)
    for rank in range(2):
        np.testing.assert_array_equal(result.outputs[0]["out0"][rank].reshape(6, 2), whole)
        np.testing.assert_array_equal(result.buffers["a"][rank], whole)
    meaning = interpret_plan(text, result.inputs[0])
    np.testing.assert_array_equal(meaning["a"][1].data, whole)
    with pytest.raises(
        SyncopateError, match=r"inputs: a of rank 0: expects shape \[6, 2\], but got \[3, 2\]"
    ):
        simulate(program, {"a": [whole[:3], whole[1:4]]})


def test_footprints_may_follow_from_the_code_of_the_kernel():
    """What `compile` gives to the passes can be checked too; the probe reads what the kernel would."""
    plan = Plan("gathers", mesh=[2])
    a = plan.buffer("a", (96, 64), "bf16", shard_axis=0)
    plan.all_gather(a)
    config = GemmConfig(block_m=32, block_n=32, num_warps=4, num_ctas=2)
    compiled = compile(gemm, plan, **bind_gemm(a, 64, config), strategy=Strategy(splits=3))
    program, _ = run(compiled.ir["input"])
    assert program.tiles == (3, 2)
    assert [sampling.counts for sampling in program.samplings] == [(32, 64)]


def test_number_of_ranks_is_checked():
    program = make_probe(
        write_plan((6, 4), footprints=[("1", "0, 0", [1, 1]), ("what is read", "0, 0", [1, 1])])
    )
    assert simulate(program, ranks=2).verdict.ok
    with pytest.raises(
        SyncopateError, match="ranks: program p was compiled for 2, but got 3; compile a plan"
    ):
        simulate(program, ranks=3)


@pytest.mark.parametrize(
    ("offset", "value"),
    [
        ("(m * 4611686018427387904) mod 5", 2**63),
        ("m * -4611686018427387905", -(2**63) - 2),
    ],
)
def test_offsets_that_need_more_than_64_bits_are_refused(offset, value):
    text = write_plan(
        (8, 4),
        tiles=(3, 1),
        footprints=[("1", f"{offset}, 0", [1, 1]), ("what is read", "0, 0", [1, 1])],
    )
    with pytest.raises(PlanError, match=f"expects offsets that 64 bits can hold .* may be {value}"):
        make_probe(text)


@pytest.mark.parametrize("number", [0, -1])
def test_numbers_have_to_be_positive(number):
    text = write_plan((6, 4), footprints=[("1", "0, 0", [1, 1]), ("what is read", "0, 0", [1, 1])])
    for name in ("most_elements", "most_ctas"):
        with pytest.raises(
            SyncopateError, match=f"{name}: expects an integer of at least 1, but got {number}"
        ):
            make_probe(text, **{name: number})
    for name in ("seeds", "calls"):
        with pytest.raises(
            SyncopateError, match=f"{name}: expects an integer of at least 1, but got {number}"
        ):
            check_plan(text, **{"seeds": 1, name: number})


def test_plans_that_cannot_be_probed_keep_their_errors():
    with pytest.raises(PlanError, match=r"plan p has no chunk\.kernel"):
        make_probe("chunk.plan @p mesh [2] {}")
    with pytest.raises(PlanError, match='has no footprint of argument "what is read"'):
        make_probe(write_plan((6, 4), footprints=[("1", "0, 0", [1, 1])]))


def test_plans_too_large_to_simulate_are_refused_before_memory_runs_out():
    kind = "!chunk.buffer<8192x8192xbf16>"
    text = f"""chunk.plan @large mesh [2] {{
      %a = chunk.buffer "a" : {kind}
      chunk.input %a[0, 0] sizes [8192, 8192] on 0 : {kind}
      %t = chunk.put %a[0, 0] to %a[0, 0] sizes [8192, 8192] from 0 to 1 : {kind} to {kind}
      chunk.kernel @k tiles [8] ctas 2 args(%a as "a") after(%t) : {kind} {{
        chunk.footprint read "a" at affine_map<(m) -> (m * 1024, 0)> sizes [1024, 8192]
      }}
    }}"""
    with pytest.raises(SyncopateError, match=r"passes all static checks, .* 134217728 elements"):
        check_plan(text, seeds=1)
