"""Shardings of values, as Shardy and XLA write them: what has to move, and that products then are right."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings, strategies

from syncopate.errors import PlanError
from syncopate.importers import Source, dtensor_layout, read_exchanges, reshard
from syncopate.importers.documents.items import Place
from syncopate.importers.programs.products import place_product
from syncopate.importers.programs.tensors import Dot, Node
from syncopate.ir import new_context, parse, run_pipeline
from syncopate.plan.interpreter import interpret_plan

pytestmark = pytest.mark.any_triton

CHECKS = "chunk.plan(chunk-decompose-collectives,chunk-split-transfers,chunk-check-plan,chunk-check-claims)"
MESH = '  sdy.mesh @mesh = <["x"=2, "y"=2]>\n'


def slices(box, inside=None):
    begins = box.offsets if inside is None else np.subtract(box.offsets, inside.offsets)
    return tuple(slice(a, a + n) for a, n in zip(begins, box.sizes, strict=True))


def move(src, dst, values):
    """What ranks have of a tensor after the plan from one layout to another; by rank, as its box."""
    if not src.parts and all(not b.without(a) for a, b in zip(src.boxes, dst.boxes, strict=True)):
        return [
            value[slices(box, own)]
            for value, box, own in zip(values, dst.boxes, src.boxes, strict=True)
        ]
    imported = reshard(src, dst, "i64", apart=True)
    memory = interpret_plan(imported.plan.text, {imported.given.name: values})
    return [
        memory[imported.result.name][rank].data[tuple(slice(0, size) for size in box.sizes)]
        for rank, box in enumerate(dst.boxes)
    ]


PLACEMENTS = strategies.sampled_from(["R", "S(0)", "S(1)"])


@settings(max_examples=80, deadline=None, database=None)
@given(
    strategies.sampled_from([[2], [4], [2, 2], [2, 3]]),
    strategies.data(),
    strategies.booleans(),
    strategies.booleans(),
)
def test_product_of_factors_that_lie_anywhere_lies_where_it_is_wanted(mesh, data, a, b):
    """Whatever moves before and behind it: ranks multiply what they then have."""
    m, n, k = 12, 36, 24
    shapes = (k, m) if a else (m, k), (n, k) if b else (k, n), (m, n)
    lhs, rhs, out = (
        dtensor_layout(mesh, data.draw(strategies.tuples(*[PLACEMENTS] * len(mesh))), shape)
        for shape in shapes
    )
    dot = Dot((0 if a else 1,), (1 if b else 0,))
    said = data.draw(strategies.booleans())
    node = Node(Place("f", 7), "%dot", ("%a", "%b"), None)
    try:
        product = place_product(node, dot, lhs, rhs, out if said else None)
    except PlanError as error:
        assert not said
        assert "f:7: dot: expects a sharding of its result" in str(error)
        return
    assert product is not None
    assert not said or product.result == out
    generator = np.random.default_rng()
    x, y = (generator.integers(-9, 9, shape) for shape in shapes[:2])
    left = move(lhs, product.lhs, [x[slices(box)] for box in lhs.boxes])
    right = move(rhs, product.rhs, [y[slices(box)] for box in rhs.boxes])
    local = [(p.T if a else p) @ (q.T if b else q) for p, q in zip(left, right, strict=True)]
    wanted = (x.T if a else x) @ (y.T if b else y)
    computed, result = product.computed, product.result
    if computed.parts and any(
        box.without(own) for own, box in zip(computed.boxes, result.boxes, strict=True)
    ):
        whole = computed.__class__(computed.text, computed.boxes)
        local, computed = move(computed, whole, local), whole
    found = move(computed, result, local)
    for value, box in zip(found, result.boxes, strict=True):
        np.testing.assert_array_equal(value, wanted[slices(box)])


def module(body, a='[{"x"}, {}]', b='[{}, {"y"}]', out=None):
    given = [
        f"%arg{number}: tensor<{shape}xbf16>"
        + (f" {{sdy.sharding = #sdy.sharding<@mesh, {said}>}}" if said else "")
        for number, (shape, said) in enumerate((("64x32", a), ("32x48", b)))
    ]
    gives = f" {{sdy.sharding = #sdy.sharding<@mesh, {out}>}}" if out else ""
    lines = "".join(f"    {line}\n" for line in body)
    return (
        f"module @m {{\n{MESH}  func.func @main({', '.join(given)}) -> (tensor<64x48xbf16>{gives}) {{\n{lines}"
        "    return %r : tensor<64x48xbf16>\n  }\n}\n"
    )


DOT = (
    "%r = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0]{} : (tensor<64x32xbf16>, tensor<32x48xbf16>)"
    " -> tensor<64x48xbf16>"
)


@pytest.mark.parametrize(
    ("a", "b", "out", "expected"),
    [
        ('[{"x", "y"}, {}]', '[{}, {"x", "y"}]', '[{}, {"x", "y"}]', ["ag_gemm-64x12x32"]),
        ('[{}, {"x", "y"}]', '[{"x", "y"}, {}]', '[{"x", "y"}, {}]', ["gemm_rs-64x48x8"]),
        ('[{}, {"x", "y"}]', '[{"x", "y"}, {}]', "[{}, {}]", ["gemm_ar-64x48x8"]),
        ('[{}, {"x", "y"}]', '[{"x", "y"}, {}]', None, ["gemm_ar-64x48x8"]),
        # Rows of several groups.
        ('[{"x", "y"}, {}]', '[{}, {"y"}]', '[{"x"}, {"y"}]', [(32, 24, 32, True)]),
        ('[{"x"}, {"y"}]', '[{"y"}, {}]', '[{"x"}, {}]', [(32, 48, 16, False)]),
        # The second factor moves.
        ('[{"x", "y"}, {}]', '[{"x", "y"}, {}]', '[{"x", "y"}, {}]', [None]),
        # Sums first, all of them then.
        ('[{"x"}, {"y"}]', '[{"y"}, {}]', "[{}, {}]", [(32, 48, 16, False), None]),
        ('[{"x"}, {"y"}]', '[{"y"}, {"x"}]', '[{"x"}, {}]', [None, (32, 48, 16, False)]),
        # Nothing moves.
        ('[{"x"}, {}]', '[{}, {"y"}]', '[{"x"}, {"y"}]', []),
        ('[{"x"}, {}]', '[{}, {"y"}]', None, []),
    ],
)
def test_shardings_around_a_product_say_what_moves(a, b, out, expected):
    text = module([DOT.format("")], a, b, out)
    if not expected:
        with pytest.raises(PlanError, match="f:1: expects collectives, or layouts that differ"):
            read_exchanges(text, "stablehlo", "f")
        return
    exchanges = read_exchanges(text, "stablehlo", "f")
    found = []
    for exchange in exchanges:
        imported = exchange.build()
        run_pipeline(parse(imported.plan.text, new_context()), CHECKS)
        gemm = exchange.gemm
        assert exchange.place.line == 4
        if gemm is None or gemm.workload is None:
            found.append(gemm and (gemm.m, gemm.n, gemm.k, gemm.reads))
        else:
            found.append(gemm.workload.name.removesuffix("-bf16-w4-kn"))
    assert found == expected


MOVED = {
    "sdy.sharding_constraint %arg1 <@mesh, [{}, {}]>": ("R S(1)", "R R", "all_gather"),
    'sdy.reshard %arg1 <@mesh, [{"y"}, {}]>': ("R S(1)", "R S(0)", "put"),
    'sdy.all_gather [{}, {"y"}] %arg1 out_sharding=<@mesh, [{}, {}]>': (
        "R S(1)",
        "R R",
        "all_gather",
    ),
    'sdy.all_to_all [{"y"}: 1->0] %arg1 out_sharding=<@mesh, [{"y"}, {}]>': (
        "R S(1)",
        "R S(0)",
        "put",
    ),
    'sdy.collective_permute %arg1 out_sharding=<@mesh, [{}, {"x"}]>': ("R S(1)", "S(1) R", "put"),
    'sdy.all_reduce {"x"} %arg1 out_sharding=<@mesh, [{}, {"y"}]>': (
        "P(sum) S(1)",
        "R S(1)",
        "all_reduce",
    ),
    'sdy.all_reduce max {"x"} %arg1 out_sharding=<@mesh, [{}, {"y"}]>': (
        "P(max) S(1)",
        "R S(1)",
        "all_reduce",
    ),
    'sdy.reduce_scatter [{"x"}, {}] %arg1 out_sharding=<@mesh, [{"x"}, {"y"}]>': (
        "P(sum) S(1)",
        "S(0) S(1)",
        "reduce_scatter",
    ),
    'sdy.sharding_constraint %arg1 <mesh<["x"=2, "y"=2]>, [{?}, {?}p1], replicated={"x"}>': (
        "R S(1)",
        "R R",
        "all_gather",
    ),
}


@pytest.mark.parametrize("line", MOVED)
def test_what_shardy_moves_is_between_two_layouts(line):
    src, dst, word = MOVED[line]
    text = module([f"%0 = {line} : tensor<32x48xbf16>", DOT.format("").replace("%arg1,", "%0,")])
    found = read_exchanges(text, "stablehlo", "f")
    exchange = next(one for one in found if one.place.line == 4)
    layouts = [dtensor_layout([2, 2], said.split(), (32, 48)) for said in (src, dst)]
    assert [exchange.src.boxes, exchange.dst.boxes] == [layout.boxes for layout in layouts]
    assert (exchange.src.parts, exchange.src.reduction) == (layouts[0].parts, layouts[0].reduction)
    assert f"chunk.{word} " in exchange.build().plan.text


def test_mesh_without_axes_says_nothing():
    line = "%0 = sdy.sharding_constraint %arg1 <@mesh, [{}, {}]> : tensor<32x48xbf16>"
    text = module([line, DOT.format("").replace("%arg1,", "%0,")])
    more = "%arg2: tensor<8xbf16> {sdy.sharding = #sdy.sharding<mesh<[]>, [{}]>}, %arg0: "
    marked = text.replace("%arg0: ", more, 1)
    assert marked != text
    assert read_exchanges(marked, "stablehlo", "f") == read_exchanges(text, "stablehlo", "f")


@pytest.mark.parametrize(
    ("sharding", "sizes", "offsets"),
    [
        ('[{"y":(1)2}, {"x"}]', (32, 16), "0,0 0,0 32,0 32,0 0,16 0,16 32,16 32,16"),
        ('[{"y":(2)2}, {}]', (32, 32), "0,0 32,0 0,0 32,0 0,0 32,0 0,0 32,0"),
        ('[{"x", "y":(2)2}, {}]', (16, 32), "0,0 16,0 0,0 16,0 32,0 48,0 32,0 48,0"),
    ],
)
def test_part_of_an_axis_cuts_by_its_place(sharding, sizes, offsets):
    text = module(
        ["%r = sdy.sharding_constraint %arg0 <@mesh, [{}, {}]> : tensor<64x32xbf16>"], sharding
    )
    text = text.replace('"y"=2', '"y"=4').replace('[{}, {"y"}]', "[{}, {}]")
    (exchange,) = read_exchanges(text, "stablehlo")
    assert {box.sizes for box in exchange.src.boxes} == {sizes}
    assert " ".join(f"{i},{j}" for i, j in (box.offsets for box in exchange.src.boxes)) == offsets


def test_devices_of_a_mesh_may_stand_in_another_order():
    text = module(
        ["%r = sdy.sharding_constraint %arg0 <@mesh, [{}, {}]> : tensor<64x32xbf16>"],
        '[{"x", "y"}, {}]',
        "[{}, {}]",
    )
    text = text.replace('"y"=2]', '"y"=2], device_ids=[3, 1, 2, 0]')
    (exchange,) = read_exchanges(text, "stablehlo")
    assert [box.offsets[0] for box in exchange.src.boxes] == [48, 16, 32, 0]


def test_layout_passes_through_what_is_computed_element_by_element():
    """As jax leaves a block of two products: shardings of weights alone."""
    text = (
        f"module {{\n{MESH}"
        '  func.func @main(%a: tensor<64x32xbf16>  {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},\n'
        '      %b: tensor<32x48xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>},\n'
        '      %c: tensor<48x32xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>})\n'
        '      -> (tensor<64x32xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {\n'
        "    %0 = stablehlo.dot %a, %b : (tensor<64x32xbf16>, tensor<32x48xbf16>) -> tensor<64x48xbf16>\n"
        "    %1 = stablehlo.tanh %0 : tensor<64x48xbf16>\n"
        "    %2 = stablehlo.multiply %1, %0 : tensor<64x48xbf16>\n"
        "    %3 = stablehlo.dot %2, %c : (tensor<64x48xbf16>, tensor<48x32xbf16>) -> tensor<64x32xbf16>\n"
        "    %4 = stablehlo.negate %3 : tensor<64x32xbf16>\n"
        "    return %4 : tensor<64x32xbf16>\n  }\n}\n"
    )
    (exchange,) = read_exchanges(text, "stablehlo")
    assert exchange.place.line == 10
    assert exchange.src.parts == ((0, 1), (2, 3))
    assert (exchange.gemm.m, exchange.gemm.n, exchange.gemm.k) == (32, 32, 24)
    assert exchange.build().plan.text.count("chunk.all_reduce") == 2


def test_generic_form_says_the_same():
    text = (
        'module {\n  "sdy.mesh"() <{mesh = #sdy.mesh<["x"=2, "y"=2]>, sym_name = "mesh"}> : () -> ()\n'
        '  "func.func"() <{arg_attrs = [{sdy.sharding = #sdy.sharding<@mesh, [{}, {"x", "y"}]>}, '
        '{sdy.sharding = #sdy.sharding<@mesh, [{"x", "y"}, {}]>}], function_type = (tensor<64x32xbf16>, '
        'tensor<32x48xbf16>) -> tensor<64x48xbf16>, res_attrs = [{sdy.sharding = #sdy.sharding<@mesh, [{"x", "y"}, '
        '{}]>}], sym_name = "main"}> ({\n  ^bb0(%arg0: tensor<64x32xbf16>, %arg1: tensor<32x48xbf16>):\n'
        '    %0 = "stablehlo.dot_general"(%arg0, %arg1) <{dot_dimension_numbers = '
        "#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : "
        "(tensor<64x32xbf16>, tensor<32x48xbf16>) -> tensor<64x48xbf16>\n"
        '    "func.return"(%0) : (tensor<64x48xbf16>) -> ()\n  }) : () -> ()\n}\n'
    )
    (exchange,) = read_exchanges(text, "stablehlo")
    assert exchange.gemm.workload.name == "gemm_rs-64x48x8-bf16-w4-kn"


HLO = """HloModule jit_f, entry_computation_layout={{(bf16[64,32], bf16[32,48])->bf16[64,48]}}, num_partitions=4

ENTRY %main.0 (a.1: bf16[64,32], b.1: bf16[32,48]) -> bf16[64,48] {{
  %a.1 = bf16[64,32]{{1,0}} parameter(0), sharding={a}
  %b.1 = bf16[32,48]{{1,0}} parameter(1), sharding={b}
  %dot.1 = bf16[64,48]{{1,0}} dot(%a.1, %b.1), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, sharding={c}
  %tuple.0 = (bf16[64,48]{{1,0}}) tuple(%dot.1), sharding={{{c}}}
  ROOT %get-tuple-element.0 = bf16[64,48]{{1,0}} get-tuple-element(%tuple.0), index=0, sharding={d}
}}
"""
ROWS, COLUMNS, ALL = "{devices=[4,1]<=[4]}", "{devices=[1,4]<=[4]}", "{replicated}"


@pytest.mark.parametrize(
    ("a", "b", "c", "d", "lines", "workload"),
    [
        (ROWS, COLUMNS, COLUMNS, COLUMNS, [6], "ag_gemm-64x12x32-bf16-w4-kn"),
        (COLUMNS, ROWS, ROWS, ROWS, [6], "gemm_rs-64x48x8-bf16-w4-kn"),
        (COLUMNS, ROWS, ALL, ALL, [6], "gemm_ar-64x48x8-bf16-w4-kn"),
        (COLUMNS, ROWS, ALL, ROWS, [6], "gemm_ar-64x48x8-bf16-w4-kn"),
        (ALL, COLUMNS, COLUMNS, ROWS, [8], None),
    ],
)
def test_shardings_of_hlo_before_its_partitioner_say_what_moves(a, b, c, d, lines, workload):
    exchanges = read_exchanges(HLO.format(a=a, b=b, c=c, d=d), "hlo")
    assert [exchange.place.line for exchange in exchanges] == lines
    gemm = exchanges[0].gemm
    assert (gemm.workload.name if workload else gemm.workload) == workload
    for exchange, source in itertools.product(exchanges, Source):
        run_pipeline(parse(exchange.build(source).plan.text, new_context()), CHECKS)


def test_partitioner_leaves_shardings_of_parameters_that_say_nothing_any_more():
    text = HLO.format(a=ROWS, b=COLUMNS, c=COLUMNS, d=COLUMNS)
    kept = [
        line if "parameter" in line else re.sub(r", sharding=.*", "", line)
        for line in text.split("\n")
    ]
    with pytest.raises(PlanError, match="expects collectives, or layouts that differ"):
        read_exchanges("\n".join(kept), "hlo")
