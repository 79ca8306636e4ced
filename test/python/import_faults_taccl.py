"""Faults of TACCL's JSON, and of any JSON: what is changed into what, what the error says, and what stands in its line.

Each is by its name a text, a part of it and what takes its place, or None for both; a pattern of the error; and a part
of the line that it names.
"""

from import_files import taccl_ring_all_gather, taccl_ring_all_reduce

HUGE = "9" * 5000

JSON = {
    "empty": ("", "expects a value, but got the end of the file", ""),
    "no JSON": ("plan: {}", "expects a value, but got 'p'", "plan"),
    "list": ("[]", "expects an object", "[]"),
    "number": ("17", "expects an object", "17"),
    "deep": ("[" * 5000, "expects values at most 16 deep", "["),
    "deep objects": ('{"a":' * 5000, "expects values at most 16 deep", "{"),
    "two values": ('{"gpus": []} {}', "expects the end of the file, but got '{'", "{}"),
    "name without value": ('{"gpus"}', "expects ':', but got '}'", "gpus"),
    "no name": ("{\n5: 6}", "expects a name, but got '5'", "5"),
    "comma at the end": ('{"gpus": [1,]}', "expects a value, but got ']'", "]"),
    "string that does not end": ('{"gpus": "1\n}', "expects a string, but got", "gpus"),
    "escape": ('{"gpus": "\\q"}', "expects a string, but got", "gpus"),
    "half a character": ('{"gpus": "\\ud800"}', "expects a string, but got", "gpus"),
    "name twice": (
        '{"gpus": 1,\n"gpus": 2}',
        "expects each name once, but got 'gpus' again",
        '"gpus": 2',
    ),
    "huge number": ('{"gpus": ' + HUGE + "}", "expects a value, but got '999", "999"),
    "no number": ('{"gpus": NaN}', "expects a value, but got 'N'", "NaN"),
}

RING, SUM = taccl_ring_all_gather(3), taccl_ring_all_reduce(3)
SEND = "    [\n     0,\n     0,\n     1,\n     0.0,\n     0\n    ]"
assert SEND in RING


def send(*entries):
    return f"     [{', '.join(entries)}]"


TACCL = {
    "truncated": (RING, RING[200:], "", "expects", ""),
    "kind of file": (
        RING,
        '"sccl_type": "algorithm"',
        '"sccl_type": "topology"',
        "expects sccl_type to be one of algorithm",
        "topology",
    ),
    "no kind": (
        RING,
        '"sccl_type": "algorithm"',
        '"type": 1',
        "algorithm: expects sccl_type, but it is missing",
        "{",
    ),
    "collective missing": (
        RING,
        '"collective": {',
        '"collection": {',
        "expects collective, but it is missing",
        "{",
    ),
    "collective is a string": (
        RING,
        '"collective": {',
        '"collective": "all", "more": {',
        "expects collective to be an object, but got 'all'",
        "collective",
    ),
    "collective": (
        RING,
        "Allgather(n=3)",
        "Broadcast(n=3,root=0)",
        "expects name to be Allgather, .* 'Broadcast",
        "Broadcast",
    ),
    "collective without ranks": (
        RING,
        "Allgather(n=3)",
        "Allgather",
        "expects name to be Allgather, Allreduce",
        "Allgather",
    ),
    "ranks": (
        RING,
        '"nodes": 3',
        '"nodes": 4',
        "expects nodes to be 3, as name says, but got 4",
        "nodes",
    ),
    "huge ranks": (
        RING,
        '"nodes": 3',
        '"nodes": 100000',
        r"expects nodes to be an integer in \[1, 4097\)",
        "nodes",
    ),
    "map missing": (RING, '"input_map"', '"map"', "expects input_map, but it is missing", "{"),
    "map is a list": (
        RING,
        '"input_map": {',
        '"input_map": [], "more": {',
        "expects input_map to be an object, but got a list",
        "input_map",
    ),
    "map of no rank": (
        RING,
        '"input_map": {\n  "0"',
        '"input_map": {\n  "9"',
        r"input_map: expects ranks in \[0, 3\), but got '9'",
        '"9"',
    ),
    "map of a word": (
        RING,
        '"input_map": {\n  "0"',
        '"input_map": {\n  "x"',
        r"input_map: expects ranks in \[0, 3\), but got 'x'",
        '"x"',
    ),
    "map of a number": (
        RING,
        '"input_map": {\n  "0": [\n   0\n  ]',
        '"input_map": {\n  "0": 0',
        "expects 0 to be a list, but got 0",
        '"0": 0',
    ),
    "address twice": (
        RING,
        '"input_map": {\n  "0": [\n   0',
        '"input_map": {\n  "0": [\n   0, 0',
        "expects each address of rank 0 once",
        '"0"',
    ),
    "another input": (
        RING,
        '"input_map": {\n  "0": [\n   0',
        '"input_map": {\n  "0": [\n   1',
        r"expects input_map of rank 0 to have 1 addresses.*got \[1\]",
        "input_map",
    ),
    "no input": (
        RING,
        '"input_map": {\n  "0": [\n   0\n  ]',
        '"input_map": {\n  "0": []',
        "expects rank 0 to have addresses",
        "input_map",
    ),
    "another output": (
        RING,
        '"output_map": {\n  "0": [\n   0',
        '"output_map": {\n  "0": [\n   5',
        "expects output_map of rank 0 to have 3 addresses",
        "output_map",
    ),
    "negative address": (
        RING,
        '"input_map": {\n  "0": [\n   0',
        '"input_map": {\n  "0": [\n   -1',
        "expects integers in 0, but got -1",
        '"0"',
    ),
    "steps missing": (RING, '"steps": [', '"stairs": [', "expects steps, but it is missing", "{"),
    "no steps": (
        RING,
        '"steps": [\n  {',
        '"steps": [], "more": [\n  {',
        "written is no all_gather: in the end, data.1. of rank 0 is to hold .* but holds nothing",
        "{",
    ),
    "step is a number": (
        RING,
        '"steps": [\n  {',
        '"steps": [\n  5, {',
        "expects objects in steps, but got 5",
        "steps",
    ),
    "kind of step": (
        RING,
        '"sccl_type": "step"',
        '"sccl_type": "stairs"',
        "step 0: expects sccl_type to be one of step",
        "stairs",
    ),
    "rounds": (
        RING,
        '"rounds": 1',
        '"rounds": "1"',
        "step 0: expects rounds to be an integer",
        "rounds",
    ),
    "sends are no list": (
        RING,
        '"sends": [',
        '"sends": 1, "more": [',
        "step 0: expects sends to be a list",
        "sends",
    ),
    "send is no list": (RING, SEND, "    5", "step 0: expects lists in sends, but got 5", "sends"),
    "short send": (
        RING,
        SEND,
        send("0", "0"),
        "step 0, send 0: expects 3 to 6 entries, but got 2",
        "sends",
    ),
    "long send": (
        RING,
        SEND,
        send(*"0010000"),
        "step 0, send 0: expects 3 to 6 entries, but got 7",
        "sends",
    ),
    "address": (
        RING,
        SEND,
        send("7", "0", "1"),
        "step 0, send 0: expects an address of the collective, but got 7",
        "sends",
    ),
    "huge address": (
        RING,
        SEND,
        send("99999999999", "0", "1"),
        "step 0, send 0: expects 0 to be an integer",
        "sends",
    ),
    "address is a string": (
        RING,
        SEND,
        send('"0"', "0", "1"),
        "step 0, send 0: expects 0 to be an integer in .* '0'",
        "sends",
    ),
    "from nobody": (
        RING,
        SEND,
        send("0", "3", "1"),
        r"step 0, send 0: expects 1 to be an integer in \[0, 3\), but got 3",
        "sends",
    ),
    "to nobody": (
        RING,
        SEND,
        send("0", "0", "-1"),
        r"step 0, send 0: expects 2 to be an integer in \[0, 3\), but got -1",
        "sends",
    ),
    "to itself": (
        RING,
        SEND,
        send("0", "0", "0"),
        "step 0, send 0: expects another rank to send to than 0 itself",
        "sends",
    ),
    "reduction": (
        SUM,
        '"rrc"',
        '"add"',
        "step 0, send 0: expects its reduction to be null or rrc, but got 'add'",
        "sends",
    ),
    "reduction in a gather": (
        RING,
        SEND,
        send("0", "0", "1", "0.0", "0", '"rrc"'),
        "expects no reduction in an all_gather",
        "sends",
    ),
    "sent twice": (
        RING,
        SEND,
        f"{SEND},\n{SEND}",
        "step 0, send 1: race: step 0, send 0 writes data.0:1. of rank 1 too",
        "sends",
    ),
    "read in the same step": (
        RING,
        SEND,
        f"{SEND},\n{send('0', '1', '2')}",
        "race: step 0, send 0 writes data.0:1. of rank 1, which this reads in the same step",
        "sends",
    ),
    "sent before it came": (RING, SEND, send("1", "0", "1"), "which holds nothing|race", "sends"),
    "contribution twice": (SUM, '"rrc"', "null", "written is no all_reduce", ""),
}
