"""Faults of layouts in JSON, as in `import_faults_msccl`."""

GOOD = """{
  "mesh": [2, 2],
  "dtype": "bf16",
  "moves": [
    {"shape": [64, 48], "from": "S0S1", "to": "S0R"},
    {"shape": [8, 64, 48], "from": ["S(1)", "P(sum)"], "to": ["S(1)", "R"]},
    {"shape": [16, 8], "from": "{devices=[4,1]<=[4]}", "to": "{replicated}"}
  ],
  "products": [
    {"shape": [64, 48, 32], "strategy": "RR = RS x SR @ {1} (allreduce @ 1)"},
    {"shape": [64, 48, 32], "strategy": "SS = SR x RS @ {0,1}", "a": "S01R"},
    {"shape": [64, 48, 32], "strategy": "S0R = S0S1 x S1R", "c": "S01R"}
  ]
}
"""
SPEC, TILES, PARTS, NAME, GIVEN = (
    '"from": "S0S1"',
    '"{devices=[4,1]<=[4]}"',
    '["S(1)", "P(sum)"]',
    '"RR = RS x SR @ {1} (allreduce @ 1)"',
    '"a": "S01R"',
)
ONE = '"strategy"'

LAYOUTS = {
    "no mesh": (GOOD, '"mesh"', '"grid"', "layouts: expects mesh, but it is missing", "{"),
    "mesh that is no list": (GOOD, "[2, 2]", "4", "expects mesh to be a list", "mesh"),
    "mesh without ranks": (GOOD, "[2, 2]", "[2, 0]", "expects integers in mesh, but got 0", "mesh"),
    "huge mesh": (GOOD, "[2, 2]", "[4096, 4096]", "mesh: expects 1 to 4096 ranks", "from"),
    "mesh of many dimensions": (GOOD, "[2, 2]", str([1] * 40), "expects at most 32 dimensions, but got 40", "from"),
    "more devices than there can be": (
        GOOD.replace("S0S1", "{replicated}"), "[2, 2]", "[4096, 4096, 4096]", "mesh: expects 1 to 4096", "from"
    ),
    "empty mesh": (GOOD, "[2, 2]", "[]", "mesh: expects 1 to 4096 ranks|at most once", "from"),
    "no type": (GOOD, '"dtype"', '"type"', "expects dtype, but it is missing", "{"),
    "type that is none": (GOOD, '"bf16"', '"bf17"', "expects dtype to be one of", "dtype"),
    "moves that are no list": (GOOD, '"moves": [', '"moves": 7, "x": [', "expects moves to be a list", "moves"),
    "moves that are no objects": (GOOD, '"moves": [', '"moves": [7,', "expects objects in moves", "moves"),
    "products that are no objects": (GOOD, '"products": [', '"products": ["x",', "expects objects in", "prod"),
    "no shape": (GOOD, '"shape": [64, 48], ', "", "move: expects shape, but it is missing", SPEC),
    "shape that is no list": (GOOD, "[64, 48],", '"64x48",', "move: expects shape to be a list", SPEC),
    "shape without elements": (GOOD, "[64, 48],", "[64, 0],", "expects integers in shape, but got 0", SPEC),
    "shape without sizes": (GOOD, "[64, 48],", "[],", "expects shape to have 1 to 5 sizes", SPEC),
    "shape of many sizes": (GOOD, "[64, 48],", "[1, 1, 1, 1, 1, 1],", "1 to 5 sizes, but got 6", SPEC),
    "no layout": (GOOD, SPEC, '"at": "S0S1"', "move: expects from, but it is missing", "S0S1"),
    "layout that is none": (GOOD, SPEC, '"from": 7', "move: expects from to be a spec, a sharding", ": 7"),
    "placements that are none": (GOOD, PARTS, '["S(1)", 7]', "expects from to be a spec", "S(1)"),
    "spec of letters": (GOOD, SPEC, '"from": "X0R"', "move: spec: expects R or S", "X0R"),
    "spec of another tensor": (GOOD, SPEC, '"from": "S0"', "for each of 2 dimensions", '"S0"'),
    "spec of another mesh": (GOOD, SPEC, '"from": "S2R"', "each of 2 dimensions of the mesh", "S2R"),
    "spec that cuts twice": (GOOD, SPEC, '"from": "S0S0"', "at most once", "S0S0"),
    "sharding that is none": (GOOD, TILES, '"{tiles}"', "move: sharding: expects {replicated}", "tiles"),
    "sharding of other devices": (GOOD, TILES, '"{devices=[2,1]<=[2]}"', "each of 4 devices once", "dev"),
    "placement that is none": (GOOD, PARTS, '["S(1)", "Q"]', "move: placements: expects S", "Q"),
    "placement of no dimension": (GOOD, PARTS, '["S(3)", "R"]', "dimensions in .0, 3., but got 3", "S(3)"),
    "too few placements": (GOOD, PARTS, '["S(1)"]', "move: placements: expects 2, one for each", "S(1)"),
    "parts to something else": (GOOD, '"to": ["S(1)", "R"]', '"to": ["S(2)", "R"]', "dst: expects parts", "S(2)"),
    "product of two sizes": (GOOD, "[64, 48, 32]", "[64, 48]", "expects shape to be M, N and K", ONE),
    "no strategy": (GOOD, '"strategy": "RR', '"name": "RR', "product: expects strategy, but it is mi", "RR"),
    "strategy that is no string": (GOOD, NAME, "7", "expects strategy to be a string", ONE),
    "strategy that is none": (GOOD, NAME, '"RR"', "expects strategy to be such as", ONE),
    "too few dimensions of the mesh": (GOOD, "{0,1}", "{0}", "for each of 2 that are cut", GIVEN),
    "too many dimensions of the mesh": (GOOD, "@ {1}", "@ {0,1}", "for each of 1 that are cut", ONE),
    "dimension of another mesh": (GOOD, "@ {1}", "@ {5}", "each of 2 dimensions of the mesh", ONE),
    "dimension twice": (GOOD, "{0,1}", "{0,0}", "at most once", GIVEN),
    "digits twice": (GOOD, '"RR = RS x SR', '"RR = RS0 x S0R', "a dimension of the mesh for each", ONE),
    "factors that do not fit": (GOOD, "RR = RS x SR", "RR = RS x RR", "a dimension of the mesh for", ONE),
    "result that factors do not make": (GOOD, "SS = SR x RS", "RR = SR x RS", "factors that make the res", GIVEN),
    "factor that is no layout": (GOOD, GIVEN, '"a": 4', "product: expects a to be a spec", ": 4"),
    "result that is no layout": (GOOD, '"c": "S01R"', '"c": "X"', "product: spec: expects R or S", "X"),
    "nothing that moves": ('{"mesh": [2], "dtype": "f32"}', "f32", "f32", "layouts that differ, but there", ""),
}  # fmt: skip
