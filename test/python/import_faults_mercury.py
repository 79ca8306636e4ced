"""Faults of Mercury's communication in JSON, as in `import_faults_msccl`."""

GOOD = """{
  "program": "gemm",
  "mesh": [2, 2],
  "axes": [{"name": "I", "size": 64}, {"name": "K", "size": 32}],
  "buffers": [
    {"tensor": "A", "shape": [16, 32], "dtype": "bfloat16", "shard_spec": [[0, 1], "R"]},
    {"tensor": "C", "shape": [16, 48], "dtype": "bfloat16", "shard_spec": [[0, 1], "R"]},
    {"tensor": "D", "shape": [16, 48], "dtype": "float32"}
  ],
  "body": [
    {"node": "GridLoop", "axes": ["I", "K"], "axis_types": "sr", "body": [
      {"node": "BufferLoad", "buffer": "A", "comm": [
        {"axis": "I", "num_cards": 2, "shard_dim": 0},
        {"axis": "I", "num_cards": 2, "shard_dim": 1}]},
      {"node": "PyNode"},
      {"node": "ReduceOp", "buffer": "C", "op": "torch.add", "comm": [
        {"axis": "K", "num_cards": 2, "shard_dim": 1, "write_back": true}]},
      {"node": "ReduceOp", "buffer": "D", "op": "sum", "shard_dim": [0, 1]},
      {"node": "BufferStore", "buffer": "D"}
    ]}
  ]
}
"""
A = '"shape": [16, 32]'
SPEC = '[[0, 1], "R"]},\n    {"tensor": "C"'
LOOP, LOAD, RING = '"axis_types": "sr"', '"buffer": "A"', '"num_cards": 2, "shard_dim": 0}'
SUM, HOME = '"op": "sum", "shard_dim": [0, 1]', '"write_back": true'

MERCURY = {
    "no mesh": (GOOD, '"mesh"', '"grid"', "program: expects mesh, but it is missing", "{"),
    "one rank": (GOOD, "[2, 2],\n", "[1],\n", "expects mesh to have 2 to 1024 ranks", "mesh"),
    "empty mesh": (GOOD, "[2, 2],\n", "[],\n", "expects mesh to have 2 to 1024 ranks", "mesh"),
    "huge mesh": (GOOD, "[2, 2],\n", "[64, 64],\n", "expects mesh to have 2 to 1024 ranks", "mesh"),
    "mesh of words": (GOOD, "[2, 2],\n", '["x"],\n', "expects integers in mesh", "mesh"),
    "no axes": (GOOD, '"axes": [{', '"x": [{', "program: expects axes, but it is missing", "{"),
    "axis without name": (GOOD, '"name": "I"', '"x": "I"', "axis: expects name, but it is missing", "axes"),
    "axis without size": (GOOD, '"I", "size": 64', '"I"', "axis: expects size, but it is missing", "axes"),
    "axis without elements": (GOOD, '"size": 64', '"size": 0', "axis: expects size to be an integer", "axes"),
    "no buffers": (GOOD, '"buffers"', '"x"', "program: expects buffers, but it is missing", "{"),
    "buffer twice": (GOOD, '"tensor": "C"', '"tensor": "A"', "expects each buffer once, but got 'A'", '"A"'),
    "buffer without name": (GOOD, '"tensor": "A"', '"x": "A"', "buffer: expects tensor, but it is", A),
    "buffer without shape": (GOOD, A, '"x": 1', "buffer: expects shape, but it is missing", "tensor"),
    "buffer without sizes": (GOOD, A, '"shape": []', "expects shape to have 1 to 5 sizes, but got 0", "tens"),
    "buffer of many sizes": (GOOD, A, '"shape": [1, 1, 1, 1, 1, 1]', "1 to 5 sizes, but got 6", "tensor"),
    "buffer without elements": (GOOD, A, '"shape": [0, 32]', "expects integers in shape, but got 0", "tensor"),
    "type that is none": (GOOD, "bfloat16", "bfloat17", "expects dtype to be one of", "bfloat17"),
    "spec that is no list": (GOOD, SPEC, '"S"},\n    {"tensor": "C"', "shard_spec to have 2 entries", '"S"'),
    "spec of another tensor": (GOOD, SPEC, '["R"]},\n    {"tensor": "C"', "shard_spec to have 2 entries", '["R"]'),
    "spec of a word": (GOOD, SPEC, '["S", "R"]},\n    {"tensor": "C"', "entries of shard_spec to be", '["S"'),
    "spec of another mesh": (GOOD, SPEC, '[[2], "R"]},\n    {"tensor": "C"', "entries of shard_spec to be", "[2]"),
    "spec that cuts twice": (GOOD, SPEC, '[[0], [0]]},\n    {"tensor": "C"', "each dimension of the mesh once", "[0]"),
    "no body": (GOOD, '  "body": [', '  "x": [', "program: expects body, but it is missing", "{"),
    "body that is no list": (GOOD, '  "body": [', '  "body": 4, "x": [', "expects body to be a list", "body"),
    "node of another kind": (GOOD, '"PyNode"', '"Send"', "node to be one of GridLoop, .* but got 'Send'", "Send"),
    "node without kind": (GOOD, '"node": "PyNode"', '"x": "PyNode"', "expects node, but it is missing", "PyNode"),
    "loop without axes": (GOOD, '"axes": ["I", "K"], ', "", "GridLoop: expects axes to be a list of names", "Grid"),
    "loop over what is none": (GOOD, '["I", "K"]', '["I", "Q"]', "expects axes of the program, but got 'Q'", "Q"),
    "loop without types": (GOOD, f", {LOOP}", "", "GridLoop: expects axis_types, but it is missing", "Grid"),
    "too few types": (GOOD, LOOP, '"axis_types": "s"', "s, r or m for each of 2 axes", "Grid"),
    "type of a loop": (GOOD, LOOP, '"axis_types": "sx"', "s, r or m for each of 2 axes", "Grid"),
    "access of nothing": (GOOD, LOAD, '"x": "A"', "BufferLoad: expects buffer, but it is missing", "BufferL"),
    "access of what is none": (GOOD, LOAD, '"buffer": "Q"', "expects a buffer of the program, but got 'Q'", "Q"),
    "ring of nothing": (GOOD, '{"axis": "I", "num_cards"', '{"num_cards"', "RingComm: expects axis, but it", "cards"),
    "ring of what is none": (GOOD, '{"axis": "I"', '{"axis": "Q"', "expects an axis of the program, but got 'Q'", "Q"),
    "ring without cards": (GOOD, RING, '"shard_dim": 0}', "expects num_cards, but it is missing", "shard_dim"),
    "ring of other cards": (GOOD, RING, '"num_cards": 4, "shard_dim": 0}', "num_cards to be 2, as dimension 0", "4"),
    "ring of no dimension": (GOOD, RING, '"num_cards": 2}', "expects shard_dim, but it is missing", "num_cards"),
    "ring of another mesh": (GOOD, RING, '"num_cards": 2, "shard_dim": 2}', "shard_dim to be an integer in", "2}"),
    "ring twice": (GOOD, RING, '"num_cards": 2, "shard_dim": 1}', "each dimension of the mesh to be one ring", "comm"),
    "ring that comes home from a load": (
        GOOD,
        RING,
        '"num_cards": 2, "shard_dim": 0, "write_back": true}',
        "expects write_back to be false in a BufferLoad",
        "true",
    ),
    "ring of a sum that does not come home": (
        GOOD,
        HOME,
        '"write_back": false',
        "expects write_back to be true in a ReduceOp",
        "false",
    ),
    "ring of what is not cut": (GOOD, SPEC, '["R", "R"]},\n    {"tensor": "C"', "that cut one dimension of A", "Buf"),
    "ring of two dimensions": (GOOD, SPEC, '[[0], [1]]},\n    {"tensor": "C"', "that cut one dimension of A", "Buf"),
    "no operation": (GOOD, '"op": "sum", ', "", "ReduceOp: expects op, but it is missing", "ReduceOp"),
    "other operation": (GOOD, '"op": "sum"', '"op": "prod"', "expects op to be one of sum, add", "prod"),
    "sum over another mesh": (GOOD, SUM, '"op": "sum", "shard_dim": [2]', "expects integers in shard_dim", "[2]"),
    "sum of what is cut": (
        GOOD,
        '"buffer": "D", "op"',
        '"buffer": "A", "op"',
        "expects shard_dim not to cut A, of which ranks have parts",
        "ReduceOp",
    ),
    "sum of a load": (GOOD, '"BufferStore"', '"BufferStore", "shard_dim": [0]', "in a ReduceOp alone", "Store"),
    "sum of a ring's sums": (
        GOOD,
        f"{HOME}}}]",
        f'{HOME}}}], "shard_dim": [0]',
        "expects rings over all of shard_dim, or none",
        "write_back",
    ),
    "deep": (
        GOOD,
        '{"node": "PyNode"}',
        '{"node": "GridLoop", "axes": [], "axis_types": "", "body": [' * 12 + "]}" * 12,
        "at most 8 deep|at most 16 deep",
        "GridLoop",
    ),
}  # fmt: skip
