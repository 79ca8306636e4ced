"""Faults of Shardy and of HLO's shardings, as in `import_faults_msccl`."""

GOOD = """module @m {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func @main(%a: tensor<64x32xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
      %b: tensor<32x48xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>}) -> tensor<64x48xbf16> {
    %0 = sdy.all_gather [{"x"}, {}] %a out_sharding=<@mesh, [{}, {}]> : tensor<64x32xbf16>
    %1 = sdy.all_reduce {"y"} %0 out_sharding=<@mesh, [{}, {}]> : tensor<64x32xbf16>
    %2 = sdy.reduce_scatter [{"x"}, {}] %1 out_sharding=<@mesh, [{"x"}, {}]> : tensor<64x32xbf16>
    %3 = stablehlo.dot %2, %b {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {"y"}]>]>}
      : (tensor<64x32xbf16>, tensor<32x48xbf16>) -> tensor<64x48xbf16>
    %4 = sdy.sharding_constraint %3 <@mesh, [{}, {"y"}]> : tensor<64x48xbf16>
    return %4 : tensor<64x48xbf16>
  }
}
"""
AXES = '<["x"=2, "y"=2]>'
OUT = '%3 <@mesh, [{}, {"y"}]>'

ONE_RANK = """module {
  sdy.mesh @mesh = <["x"=1]>
  func.func @main(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %1 = sdy.all_reduce {"x"} %a out_sharding=<@mesh, [{}, {}]> : tensor<8x8xf32>
    return %1 : tensor<8x8xf32>
  }
}
"""

ONE = '<["x"=1]>'
ALONE = f"""module @m {{
  sdy.mesh @mesh = {ONE}
  func.func @main(%a: tensor<8x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}}) -> tensor<8x8xf32> {{
    %4 = sdy.sharding_constraint %a <@mesh, [{{}}, {{"x"}}]> : tensor<8x8xf32>
    return %4 : tensor<8x8xf32>
  }}
}}
"""
ON_ONE = '%a <@mesh, [{}, {"x"}]>'

SHARDY = {
    "nothing on one rank moves": (ALONE, None, None, "layouts that differ, but there are none", "module"),
    "axis that is none, on one rank": (ALONE, ON_ONE, '%a <@mesh, [{"z"}, {}]>', "the mesh, x, but got 'z'", "%4"),
    "axis twice, on one rank": (ALONE, ON_ONE, '%a <@mesh, [{"x"}, {"x"}]>', "each axis once, but got 'x'", "%4"),
    "too few dimensions, on one rank": (ALONE, ON_ONE, "%a <@mesh, [{}]>", "expects 2 dimensions, but got 1", "%4"),
    "one rank of several": (
        GOOD,
        OUT,
        "%3 <mesh<[], device_ids=[1]>, []>",
        "what lies on one rank alone in no function with shardings on 4",
        "%4",
    ),
    "several devices without axes": (
        GOOD,
        OUT,
        "%3 <mesh<[], device_ids=[1, 2]>, []>",
        "expects one device where there are no axes",
        "%4",
    ),
    "one rank": (ONE_RANK, None, None, "layouts that differ, but there are none", "module"),
    "mesh without axes": (GOOD, AXES, "<>", r"sdy.mesh: expects axes <\[", "sdy.mesh"),
    "mesh without name": (GOOD, "@mesh = <", "<", "sdy.mesh: expects a name and axes", "sdy.mesh"),
    "axis without size": (GOOD, '"y"=2]', '"y"]', "sdy.mesh: expects axes with sizes", "sdy.mesh"),
    "axis without quotes": (GOOD, '"x"=2', "x=2", "sdy.mesh: expects axes with sizes", "sdy.mesh"),
    "axis twice in the mesh": (GOOD, '"y"=2', '"x"=2', "each once, but got", "sdy.mesh"),
    "mesh without ranks": (GOOD, '"y"=2', '"y"=0', "expects 1 to 4096 ranks", "sdy.mesh"),
    "huge mesh": (GOOD, '"y"=2', '"y"=99999', "expects 1 to 4096 ranks", "sdy.mesh"),
    "too few devices": (GOOD, AXES, '<["x"=2, "y"=2], device_ids=[0, 1]>', "each of 4 devices", "sdy.m"),
    "device twice": (GOOD, AXES, '<["x"=2, "y"=2], device_ids=[0, 1, 2, 2]>', "each of 4 dev", "sdy.m"),
    "devices that are no list": (GOOD, AXES, '<["x"=2, "y"=2], device_ids=4>', "expects axes <", "sdy.m"),
    "mesh that is none": (GOOD, f"{OUT}", "%3 <@none, [{}, {}]>", "a mesh of the module, but got @none", "%4"),
    "no sharding": (GOOD, OUT, "%3", "sharding_constraint: expects a sharding <mesh", "%4"),
    "no dimensions": (GOOD, OUT, "%3 <@mesh>", "expects a sharding <mesh, ", "%4"),
    "dimension without braces": (GOOD, OUT, '%3 <@mesh, ["x", {}]>', "axes in braces for each", "%4"),
    "too many dimensions": (GOOD, OUT, "%3 <@mesh, [{}, {}, {}]>", "expects 2 dimensions, but got 3", "%4"),
    "too few dimensions": (GOOD, OUT, "%3 <@mesh, [{}]>", "expects 2 dimensions, but got 1", "%4"),
    "no dimension at all": (GOOD, OUT, "%3 <@mesh, []>", "expects 2 dimensions, but got 0", "%4"),
    "axis that is none": (GOOD, OUT, '%3 <@mesh, [{"z"}, {}]>', "axes of the mesh, x, y, but got 'z'", "%4"),
    "axis without quotes in a dimension": (GOOD, OUT, "%3 <@mesh, [{x}, {}]>", "axes in quotes", "%4"),
    "axis twice": (GOOD, OUT, '%3 <@mesh, [{"x"}, {"x"}]>', "each axis once, but got 'x' again", "%4"),
    "part of an axis twice": (
        GOOD,
        OUT,
        '%3 <@mesh, [{"x":(1)2}, {"x"}]>',
        "each axis once, but got 'x' again",
        "%4",
    ),
    "part that does not divide": (GOOD, OUT, '%3 <@mesh, [{"x":(1)3}, {}]>', "a part of axis 'x' of 2", "%4"),
    "part of nothing": (GOOD, OUT, '%3 <@mesh, [{"x":(1)0}, {}]>', "a part of axis 'x' of 2", "%4"),
    "part that is no number": (GOOD, OUT, '%3 <@mesh, [{"x":(a)2}, {}]>', "axes in quotes", "%4"),
    "axes of another kind": (GOOD, OUT, '%3 <@mesh, [{}, {}], open={"x"}>', "replicated or unreduced", "%4"),
    "axis that is summed and cut by": (
        GOOD,
        OUT,
        '%3 <@mesh, [{"x"}, {}], unreduced={"x"}>',
        "each axis once, but got 'x' again",
        "%4",
    ),
    "mesh in place that is none": (GOOD, OUT, "%3 <mesh<[x]>, [{}, {}]>", "expects axes", "%4"),
    "other number of ranks": (
        GOOD,
        OUT,
        '%3 <mesh<["a"=2]>, [{"a"}, {}]>',
        "expects layouts of one number of ranks, but got 4 and 2",
        "%4",
    ),
    "collective without sharding": (GOOD, "%a out_sharding=", "%a other=", "all_gather: expects out_sh", "%0"),
    "collective of two": (GOOD, "{} %a out".replace("{} ", "{}] "), "{}] %a, %b out", "expects one operand", "%0"),
    "sum over no axes": (GOOD, '{"y"} %0', "{} %0", "expects axes to sum over, but there are none", "%1"),
    "sum over what is none": (GOOD, '{"y"} %0', '{"z"} %0', "axes of the mesh, x, y, but got 'z'", "%1"),
    "sum over what cuts": (
        GOOD,
        '%0 out_sharding=<@mesh, [{}, {}]>',
        '%0 out_sharding=<@mesh, [{"y"}, {}]>',
        "each axis once, but got 'y' again",
        "%1",
    ),
    "other reduction": (GOOD, '{"y"} %0', 'prod {"y"} %0', "axes in quotes, but got 'prod", "%1"),
    "argument": (GOOD, '[{"x"}, {}]>}', '[{"q"}, {}]>}', "argument: expects axes of the mesh", "%a"),
    "results": (GOOD, '<[<@mesh, [{"x"}, {"y"}]>]>', "<[]>", "a sharding for each of 1 results, but got 0", "%3"),
    "unknown size": (
        GOOD,
        f"{OUT} : tensor<64x48xbf16>",
        f"{OUT} : tensor<?x48xbf16>",
        "expects the result to be a tensor of known sizes",
        "%4",
    ),
    "elements that no plan has": (
        GOOD.replace("bf16", "i4"),
        "%a",
        "%a",
        "expects elements of .*, but got i4",
        "%0",
    ),
    "no elements": (GOOD, OUT + " : tensor<64", OUT + " : tensor<0", "a tensor with elements", "%4"),
}  # fmt: skip

HLO_GOOD = """HloModule jit_f, num_partitions=4

ENTRY %main.0 (a.1: bf16[64,32], b.1: bf16[32,48]) -> bf16[64,48] {
  %a.1 = bf16[64,32]{1,0} parameter(0), sharding={devices=[4,1]<=[4]}
  %b.1 = bf16[32,48]{1,0} parameter(1), sharding={devices=[1,4]<=[4]}
  ROOT %dot.1 = bf16[64,48] dot(%a.1, %b.1), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding=TILES
}
"""
TILES = "{devices=[1,2,2]<=[4] last_tile_dim_replicate}"
HLO_GOOD = HLO_GOOD.replace("TILES", TILES)

HLO_SHARDINGS = {
    f"sharding: {name}": (HLO_GOOD, TILES, text, said, "dot(")
    for name, (text, said) in {
        "no braces": ("devices", "expects {replicated} or {devices=.* but got 'devices'"),
        "one device": ("{maximal device=1}", "expects {replicated} or {devices="),
        "too few devices": ("{devices=[1,2]<=[2]}", "expects each of 4 devices once"),
        "device twice": ("{devices=[1,4]0,1,2,2}", "expects each of 4 devices once"),
        "too many dimensions": ("{devices=[1,2,2]<=[4]}", "expects 2 dimensions of tiles, but got 3"),
        "too few dimensions": ("{devices=[4]<=[4]}", "expects 2 dimensions of tiles, but got 1"),
        "transposed wrongly": ("{devices=[1,4]<=[2,2]T(0,0)}", "expects T to name each dimension once"),
        "other number of tiles": ("{devices=[1,3]<=[4]}", "expects each of 4 devices once"),
        "kind of a dimension": (
            "{devices=[1,2,2]<=[4] last_tile_dims={manual}}",
            "expects replicated or unreduced dimensions, but got manual",
        ),
        "many dimensions": (f"{{devices=[{'1,' * 40}4]<=[4]}}", "expects at most 32 tiles"),
        "no number": ("{devices=[1,,4]<=[4]}", "expects numbers with commas between"),
    }.items()
} | {
    "many devices": (HLO_GOOD, "num_partitions=4", "num_partitions=9999", "HloModule: expects 1 to 4096 ranks", "HloM")
}  # fmt: skip
