"""Faults of partitioned collectives in JSON, as in `import_faults_msccl`."""

GOOD = """{
  "name": "two levels",
  "collective": "all_reduce",
  "ranks": 4,
  "pieces": 2,
  "stages": [
    {"primitive": "reduce_scatter", "groups": [[0, 1], [2, 3]]},
    {"primitive": "all_reduce", "groups": [[0, 2], [1, 3]], "algorithm": "ring"},
    {"primitive": "all_gather", "groups": [[0, 1], [2, 3]]}
  ]
}
"""
SCATTER = GOOD.replace("all_reduce", "reduce_scatter").replace(
    ',\n    {"primitive": "all_gather", "groups": [[0, 1], [2, 3]]}', ""
)
FIRST = '{"primitive": "reduce_scatter", "groups": [[0, 1], [2, 3]]}'
SECOND = '"groups": [[0, 2], [1, 3]]'
LAST = '{"primitive": "all_gather", "groups": [[0, 1], [2, 3]]}'

PARTITIONS = {
    "no collective": (GOOD, '"collective"', '"x"', "partition: expects collective, but it is missing", "{"),
    "other collective": (GOOD, '"all_reduce",\n', '"scan",\n', "expects collective to be one of", "scan"),
    "no ranks": (GOOD, '"ranks": 4', '"x": 4', "partition: expects ranks, but it is missing", "{"),
    "too few ranks": (GOOD, '"ranks": 4', '"ranks": 0', "expects ranks to be an integer in", "ranks"),
    "too many ranks": (GOOD, '"ranks": 4', '"ranks": 9999', "expects ranks to be an integer in", "ranks"),
    "ranks in words": (GOOD, '"ranks": 4', '"ranks": "4"', "expects ranks to be an integer in", "ranks"),
    "no pieces": (GOOD, '"pieces": 2', '"pieces": 0', "expects pieces to be an integer in", "pieces"),
    "huge pieces": (GOOD, '"pieces": 2', '"pieces": 99999', "expects pieces to be an integer in", "pieces"),
    "other order": (GOOD, '"pieces": 2', '"order": "random"', "expects order to be one of pieces", "order"),
    "other reduction": (GOOD, '"pieces": 2', '"reduction": "prod"', "expects reduction to be one of sum", "red"),
    "no stages": (GOOD, '"stages": [', '"x": [', "partition: expects stages, but it is missing", "{"),
    "stages that are no list": (GOOD, '"stages": [', '"stages": 4, "x": [', "stages to be a list", "stages"),
    "stages that are no objects": (GOOD, '"stages": [', '"stages": [4,', "objects in stages", "stages"),
    "empty stages": (GOOD, '"stages": [', '"stages": [], "x": [', "expects 1 to 64 stages, but got 0", "stages"),
    "many stages": (GOOD, FIRST, ", ".join([FIRST] * 70), "expects 1 to 64 stages", "stages"),
    "stage without primitive": (GOOD, f"{FIRST}", '{"x": 1}', "stage: expects primitive, but it is", "x"),
    "stage that computes": (
        GOOD,
        FIRST,
        '{"primitive": "compute"}',
        "stage: expects primitive to be one of all_gather, .* but got 'compute'",
        "compute",
    ),
    "groups that are no list": (GOOD, SECOND, '"groups": 4', "expects groups to be a list", '": 4'),
    "groups that are no lists": (GOOD, SECOND, '"groups": [0, 2]', "expects lists in groups", "[0, 2]"),
    "groups of words": (GOOD, SECOND, '"groups": [["a"]]', "to be an integer in .0, 4.", '"a"'),
    "rank that is none": (GOOD, SECOND, '"groups": [[0, 2], [1, 4]]', "to be an integer in .0, 4.", "4]"),
    "rank twice": (GOOD, SECOND, '"groups": [[0, 2], [2, 3]]', "have each of 4 ranks once", "[2, 3]"),
    "rank in no group": (GOOD, SECOND, '"groups": [[0, 2]]', "have each of 4 ranks once", "[0, 2]"),
    "groups of two sizes": (GOOD, SECOND, '"groups": [[0], [1, 2, 3]]', "expects groups of one size", "[0]"),
    "empty groups": (GOOD, SECOND, '"groups": []', "have each of 4 ranks once", "[]"),
    "other algorithm": (GOOD, '"ring"', '"tree"', "expects algorithm to be one of direct, ring", "tree"),
    "root of no broadcast": (GOOD, '"ring"', '"ring", "root": 0', "a root of a broadcast or reduce alone", "root"),
    "root that is none": (
        GOOD,
        FIRST,
        '{"primitive": "broadcast", "root": 4}',
        "expects root to be an integer in .0, 4.",
        "root",
    ),
    "ring of a broadcast": (
        GOOD,
        FIRST,
        '{"primitive": "broadcast", "algorithm": "ring"}',
        "expects algorithm to be direct for broadcast",
        "broadcast",
    ),
    "exchange in a sum": (GOOD, FIRST, '{"primitive": "all_to_all"}', "the one stage of an all_to_all", "all_to_all"),
    "sum in a gather": (
        GOOD,
        '"collective": "all_reduce"',
        '"collective": "all_gather"',
        "expects no reduce_scatter in an all_gather",
        "reduce_scatter",
    ),
    "sum of different parts": (GOOD, SECOND, '"groups": [[0, 1], [2, 3]]', "what they hold differs", "ring"),
    "gather of the same": (GOOD, FIRST, LAST, "expects ranks .* to hold different blocks", "all_gather"),
    "stage that is missing": (GOOD, f",\n    {LAST}", "", "is no all_reduce: in the end, data", "{"),
    "stage too many": (GOOD, f"{LAST}", f"{LAST},\n    {LAST}", "to hold different blocks", "all_gather"),
    "other groups at the end": (GOOD, LAST, LAST.replace("[0, 1], [2, 3]", "[0, 2], [1, 3]"), "different blocks", ""),
    "scatter that does not reach all": (
        SCATTER,
        SECOND,
        '"groups": [[0, 1], [2, 3]]',
        "expects ranks .* to have all of what they hold between them",
        "reduce_scatter",
    ),
    "scatter after a scatter": (SCATTER, FIRST, '{"primitive": "reduce_scatter"}', "have all of what|differs", "red"),
}  # fmt: skip
