"""Imports of collectives between tensors: StableHLO and HLO, against what their specification says."""

import dataclasses
import re

import numpy as np
import pytest
from import_tensor_files import CASES, Case, hlo, stablehlo

import syncopate
from syncopate.cli import main
from syncopate.errors import PlanError, SyncopateError
from syncopate.importers import Source, import_plan, read_exchanges, read_steps
from syncopate.ir import new_context, parse, run_pipeline
from syncopate.kernels import GemmConfig, gemm
from syncopate.plan.interpreter import interpret_plan
from syncopate.sim.check import check_plan
from syncopate.sim.simulate import simulate
from syncopate.workloads import GemmWorkload

TINY = GemmConfig(block_m=32, block_n=32, block_k=32, num_warps=4, num_ctas=2)
CHECKS = "chunk.plan(chunk-decompose-collectives,chunk-split-transfers,chunk-check-plan,chunk-check-claims)"
PIPELINE = "syncopate-plan-pipeline"
FORMS = {
    "stablehlo": ("stablehlo", stablehlo),
    "generic": ("stablehlo", lambda case: stablehlo(case, generic=True)),
    "hlo": ("hlo", hlo),
}


def read(form, case):
    name, write = FORMS[form]
    (exchange,) = read_exchanges(write(case), name, "f")
    return exchange


def place_of(exchange, imported, rank):
    """Where a rank's result is in its buffer."""
    src, dst = exchange.src.boxes[rank], exchange.dst.boxes[rank]
    apart = imported.result.name == "output" or imported.given is not imported.result
    inside = exchange.blocks is None and not dst.without(src)
    if not inside or (apart and not exchange.src.parts) or imported.result.name == "output":
        return tuple(slice(0, size) for size in dst.sizes)
    offsets = tuple(a - b for a, b in zip(dst.offsets, src.offsets, strict=True))
    return tuple(slice(a, a + n) for a, n in zip(offsets, dst.sizes, strict=True))


def is_said(form, name):
    """Whether a form has one collective for a case; HLO has a transposition beside some exchanges."""
    case = CASES[name]
    return form != "hlo" or case.axis == case.concat or case.kind != "all_to_all"


@pytest.mark.any_triton
@pytest.mark.parametrize(
    ("name", "form"), [(name, form) for name in CASES for form in FORMS if is_said(form, name)]
)
def test_plan_does_what_the_collective_says(name, form):
    case = CASES[name]
    exchange = read(form, case)
    generator = np.random.default_rng()
    operands = [generator.integers(-999, 999, case.shape) for _ in range(case.ranks)]
    expected = case.expect(operands)
    for source in Source:
        imported = exchange.build(source)
        text = re.sub(r"(\d)xf32>", r"\1xi64>", imported.plan.text)
        run_pipeline(parse(text, new_context()), CHECKS)
        shape = max(box.sizes for box in exchange.src.boxes)
        given = [
            np.zeros(shape)[:0] if box.is_empty else operand.reshape(box.sizes)
            for operand, box in zip(operands, exchange.src.boxes, strict=True)
        ]
        memory = interpret_plan(text, {imported.given.name: given})
        for rank in range(case.ranks):
            place = place_of(exchange, imported, rank)
            found = memory[imported.result.name][rank]
            assert found.defined[place].all()
            np.testing.assert_array_equal(found.data[place].reshape(case.result), expected[rank])


@pytest.mark.parametrize(
    ("name", "workload"),
    [
        ("gather rows", GemmWorkload("ag_gemm", 64, 32, 32, 4, "f32", transpose_b=True)),
        ("scatter rows", GemmWorkload("gemm_rs", 16, 32, 32, 4, "f32", transpose_b=True)),
        ("sum", GemmWorkload("gemm_ar", 12, 32, 32, 4, "f32", transpose_b=True)),
        ("sum of a batch", GemmWorkload("gemm_ar", 12, 32, 32, 2, "f32", transpose_b=True)),
        ("exchange before", GemmWorkload("a2a_gemm", 16, 32, 32, 4, "f32", transpose_b=True)),
        ("exchange behind", GemmWorkload("gemm_a2a", 16, 32, 32, 4, "f32", transpose_b=True)),
        ("gather in groups", None),
        ("gather columns", None),
        ("scatter columns", None),
        ("columns to rows", None),
        ("shift", None),
    ],
)
@pytest.mark.any_triton
def test_product_beside_a_collective_of_all_rows_is_a_workload(name, workload):
    for form in FORMS:
        if is_said(form, name):
            gemm_beside = read(form, CASES[name]).gemm
            assert gemm_beside.workload == workload, form
            assert gemm_beside.reads == (CASES[name].product == "behind"), form


@pytest.mark.any_triton
@pytest.mark.parametrize("name", ["maximum", "gather the middle", "broadcast in groups", "swap"])
def test_without_a_product_there_is_none(name):
    assert read("stablehlo", CASES[name]).gemm is None


@pytest.mark.any_triton
@pytest.mark.parametrize(
    ("mesh", "axes", "groups"),
    [
        ("x=2 y=2", ['"y"'], ((0, 1), (2, 3))),
        ("x=2 y=2", ['"y"', '"x"'], ((0, 2, 1, 3),)),
        ("x=4", ['"x", sub_axis_info = (1)2'], ((0, 2), (1, 3))),
        ("x=4", ['"x", sub_axis_info = (2)2'], ((0, 1), (2, 3))),
        ("x=2 y=2 [0, 2, 1, 3]", ['"y"'], ((0, 2), (1, 3))),
    ],
)
@pytest.mark.parametrize("named", [True, False])
def test_groups_of_stablehlo_go_along_axes_of_a_mesh(mesh, axes, groups, named):
    sizes, _, ids = mesh.partition(" [")
    pairs = [pair.split("=") for pair in sizes.split()]
    taken = ", ".join(f"#stablehlo.axis_ref<name = {axis}>" for axis in axes)
    inline = ", ".join(f'#stablehlo.mesh_axis<name = "{a}", size = {n}>' for a, n in pairs)
    devices = f", device_ids = dense<[{ids}> : tensor<4xi64>" if ids else ""
    where = "@m" if named else f"#stablehlo.mesh<axes = [{inline}]{devices}>"
    text = stablehlo(CASES["sum"]).replace(
        "dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>",
        f"#stablehlo.replica_group_mesh_axes<mesh = {where}, axes = [{taken}]>",
    )
    if named:
        known = ", ".join(f'"{a}"={n}' for a, n in pairs)
        known = f"  sdy.mesh @m = <[{known}]{f', device_ids=[{ids}' if ids else ''}>\n"
        text = text.replace("  func.func", f"{known}  func.func", 1)
    (exchange,) = read_exchanges(text, "stablehlo")
    assert exchange.src.parts == groups


@pytest.mark.any_triton
@pytest.mark.parametrize(
    ("old", "new"),
    [
        # The gathered tensor is the second factor.
        ("%1, %arg1", "%arg1, %1"),
        # The kernel has one element type.
        ("tensor<32x32xf32>) -> tensor<64", "tensor<32x32xbf16>) -> tensor<64"),
        ("[1] x [0]", "[0, 1] x [0, 1]"),
        ("contracting_dims", "batching_dims = [0] x [0], contracting_dims"),
    ],
)
def test_product_that_the_kernel_does_not_compute_is_left_alone(old, new):
    text = stablehlo(CASES["gather rows"])
    assert old in text
    (exchange,) = read_exchanges(text.replace(old, new), "stablehlo")
    assert exchange.gemm is None
    assert exchange.build().gemm is None


@pytest.mark.any_triton
def test_what_passes_a_tensor_on_does_not_hide_the_product():
    text = stablehlo(CASES["gather rows"])
    same = "%9 = stablehlo.optimization_barrier %1 : tensor<64x32xf32>\n    %2"
    (exchange,) = read_exchanges(text.replace("%2", same, 1).replace("l %1,", "l %9,"), "stablehlo")
    assert exchange.gemm.workload == read("stablehlo", CASES["gather rows"]).gemm.workload


@pytest.mark.parametrize(
    "name", ["gather in groups", "scatter and multiply", "rows to columns", "broadcast"]
)
@pytest.mark.any_triton
def test_kernel_without_code_can_be_checked(name):
    exchange = read("stablehlo", CASES[name])
    imported = exchange.build(Source.INPUTS, kernel=True)
    assert check_plan(imported.plan.text, seeds=1, calls=2).ok
    imported = exchange.build(Source.TILES, kernel=True)
    run_pipeline(parse(imported.plan.text, new_context()), PIPELINE)


FUSED = {
    "gather": Case("all_gather", (32, 64), ((0, 2), (1, 3)), product="behind", dtype="bf16"),
    "scatter": Case("reduce_scatter", (64, 32), ((1, 0),), product="before", dtype="bf16"),
}


@pytest.mark.parametrize("name", FUSED)
def test_plan_is_fused_with_the_product(name):
    case = FUSED[name]
    imported = read("stablehlo", case).build()
    assert imported.gemm is not None
    program = syncopate.compile(gemm, imported.plan, **imported.gemm.bind(imported, TINY))
    result = simulate(program, calls=2, seed=3)
    assert result.verdict.ok, result.verdict
    given = imported.given.name if imported.gemm.reads else "a"
    for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
        a, b = ([part.astype(np.float32) for part in inputs[key]] for key in (given, "b"))
        if imported.gemm.reads:
            expected = [x @ y for x, y in zip(case.expect(a), b, strict=True)]
        else:
            expected = case.expect([x @ y for x, y in zip(a, b, strict=True)])
        (found,) = outputs.values()
        for part, wanted in zip(found, expected, strict=True):
            assert part.shape == wanted.shape
            assert np.abs(part.astype(np.float32) - wanted).max() < 2e-2 * np.abs(wanted).max()


TWO = """module attributes {mhlo.num_partitions = 2 : i32} {
  func.func @main(%a: tensor<4x8xf32>, %b: tensor<8x8xf32>) -> tensor<4x8xf32> {
    %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>,
      channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}>
      : (tensor<4x8xf32>) -> tensor<8x8xf32>
    %1 = stablehlo.dot %0, %b : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %2 = "stablehlo.reduce_scatter"(%1) ({
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %s = stablehlo.add %x, %y : tensor<f32>
        stablehlo.return %s : tensor<f32>
    }) {
      scatter_dimension = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, // by hand
      channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, use_global_device_ids
    } : (tensor<8x8xf32>) -> tensor<4x8xf32>
    return %2 : tensor<4x8xf32>
  }
}
"""


@pytest.mark.any_triton
def test_line_says_which_collective(tmp_path, capsys):
    file, out = tmp_path / "two.mlir", tmp_path / "plan.mlir"
    file.write_text(TWO)
    words = ["import", str(file), "--from", "stablehlo", "--out", str(out)]
    assert main(words) == 1
    assert (
        "line: expects one of 3, 7, where something moves, but got None" in capsys.readouterr().err
    )
    assert main([*words, "--line", "7"]) == 0
    text = out.read_text()
    assert "chunk.reduce_scatter" in text
    assert "chunk.produce" in text
    assert f'"{file}":7:1' in text
    imported = import_plan(file, "stablehlo", line=3)
    assert imported.gemm.workload == GemmWorkload("ag_gemm", 8, 8, 8, 2, "f32", transpose_b=True)


@pytest.mark.any_triton
def test_arguments_that_do_not_go_with_a_format_are_refused(tmp_path):
    file = tmp_path / "two.mlir"
    file.write_text(TWO)
    with pytest.raises(SyncopateError, match="shape: expects none, since a file of stablehlo"):
        import_plan(file, "stablehlo", shape=(4, 8))
    with pytest.raises(SyncopateError, match="dtype: expects none"):
        import_plan(file, "stablehlo", dtype="f32")
    with pytest.raises(SyncopateError, match="line: expects none, since a file of taccl-json"):
        import_plan(file, "taccl-json", line=3)
    with pytest.raises(SyncopateError, match=r"format: expects one of msccl-xml, .* but got hlo"):
        read_steps("", "hlo")
    with pytest.raises(SyncopateError, match=r"format: expects one of stablehlo, .* but got msccl"):
        read_exchanges("", "msccl-xml")
    with pytest.raises(PlanError, match="f:1: expects collectives, or layouts that differ"):
        read_exchanges("module {}", "stablehlo", "f")


@pytest.mark.any_triton
@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("{{0,2},{1,3}}", ((0, 2), (1, 3))),
        ("[2,2]<=[4]", ((0, 1), (2, 3))),
        ("[2,2]<=[2,2]T(1,0)", ((0, 2), (1, 3))),
        ("mesh['x'=2,'y'=2] {'y'}", ((0, 1), (2, 3))),
        ("mesh['x'=2,'y'=2] {'x'}", ((0, 2), (1, 3))),
        ("mesh['x'=2,'y'=2] {'y','x'}", ((0, 2, 1, 3),)),
        ("mesh['x'=4] {'x':(1)2}", ((0, 2), (1, 3))),
        ("mesh['x'=4] {'x':(2)2}", ((0, 1), (2, 3))),
        ("{}", ((0, 1, 2, 3),)),
    ],
)
def test_groups_of_hlo_are_read_in_all_their_forms(text, groups):
    case = Case("all_reduce", (4, 4), ((0, 1, 2, 3),))
    written = hlo(case)
    assert "{{0,1,2,3}}" in written
    (exchange,) = read_exchanges(written.replace("{{0,1,2,3}}", text), "hlo")
    assert exchange.src.parts == groups


@pytest.mark.any_triton
@pytest.mark.parametrize(
    ("name", "types"),
    [
        ("gather rows", "({given}, {gives})"),
        ("scatter rows", "(({given}), {gives})"),
        ("sum", "{gives}"),
        ("exchange before", "(({given}), {gives}, u32[])"),
        ("shift", "({given}, {gives}, u32[], u32[])"),
        ("broadcast", "(({given}), {gives})"),
    ],
)
def test_collective_that_hlo_starts_and_ends_is_one(name, types):
    case = CASES[name]
    text, kind = hlo(case), case.kind.replace("_", "-")
    found = re.search(rf"((?:ROOT )?%\S+) = (\S+) {kind}\((%[\w.]+)\)(.*)", text)
    result, gives, operand, rest = found.groups()
    given = re.search(rf"{operand} = (\S+) ", text)[1]
    started = f"%s = {types.format(given=given, gives=gives)} {kind}-start({operand}){rest}"
    ended = f"{result} = {gives} {kind}-done(%s)"
    text = text.replace(found[0], f"{started}\n  {ended}").replace(
        "}\n\n", '}, execution_thread="x"\n\n'
    )
    (exchange,) = read_exchanges(text, "hlo", "f")
    expected = read("hlo", case)
    assert (exchange.src, exchange.dst, exchange.blocks) == (
        expected.src,
        expected.dst,
        expected.blocks,
    )
    assert (exchange.gemm is None) == (expected.gemm is None)


@pytest.mark.any_triton
@pytest.mark.parametrize("form", FORMS)
def test_product_of_integers_is_none_of_the_kernel(form):
    case = dataclasses.replace(CASES["gather rows"], dtype="i32")
    name, write = FORMS[form]
    (exchange,) = read_exchanges(write(case).replace("i32[", "s32["), name, "f")
    assert exchange.dtype == "i32" and exchange.gemm is None


@pytest.mark.any_triton
def test_collective_of_hlo_that_starts_with_several_operands_is_several():
    text, given, gives = hlo(CASES["gather rows"]), "f32[16,32]{1,0}", "f32[64,32]{1,0}"
    found = re.search(r"%all-gather.1 = \S+ all-gather\(%param\)(.*)", text)
    started = (
        f"%s = (({given}, {given}), ({gives}, {gives})) all-gather-start(%param, %param){found[1]}"
    )
    ended = f"%e = ({gives}, {gives}) all-gather-done(%s)"
    taken = f"%all-gather.1 = {gives} get-tuple-element(%e), index=1"
    text = text.replace(found[0], "\n  ".join([started, ended, taken]))
    exchanges = read_exchanges(text, "hlo", "f")
    assert [exchange.gemm is None for exchange in exchanges] == [True, False]
    assert {exchange.src for exchange in exchanges} == {read("hlo", CASES["gather rows"]).src}


@pytest.mark.any_triton
@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Ids of the one replica there is stand for all of its partitions.
        (
            "dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids",
            "dense<0> : tensor<1x1xi64>",
        ),
        # Without a channel they are replicas.
        (
            "mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1",
            "mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 4",
        ),
        ("mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32", "a.b = 1 : i32"),
        (
            "dense<[[0, 1, 2, 3]]>",
            'dense<"0x' + "".join(f"0{i}" + "00" * 7 for i in range(4)) + '">',
        ),
        (
            "dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>",
            '#stablehlo.replica_group_mesh_axes<mesh = #stablehlo.mesh<axes = [#stablehlo.mesh_axis<name = "x", '
            'size = 2>, #stablehlo.mesh_axis<name = "y", size = 2>]>, axes = [#stablehlo.axis_ref<name = "x">, '
            '#stablehlo.axis_ref<name = "y">]>',
        ),
    ],
)
def test_ids_of_stablehlo_are_of_what_the_module_says(old, new):
    text = stablehlo(CASES["sum"])
    assert old in text
    (exchange,) = read_exchanges(text.replace(old, new), "stablehlo")
    assert exchange.src.parts == ((0, 1, 2, 3),)
