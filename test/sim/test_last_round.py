"""GEMMs that split the tiles of their last round over K run on the simulator: sound, right, and the same every time."""

import numpy as np
import pytest
from edited_tables import refuse_tables
from faults_tables import tables
from fused_edits import change, constant, decide, drop, functions_of, kernel, operations, users
from sim_last_round import LAST_ROUNDS, split
from sim_table import options_of

from syncopate.sim.findings import Kind
from syncopate.sim.simulate import simulate

SEEDS = (0, 1, 3)
RELAXED, CTA_SCOPE = 1, 2
"""Triton's numbers of that memory order and of that scope."""


@pytest.mark.parametrize("case", LAST_ROUNDS.values(), ids=LAST_ROUNDS)
def test_program_is_sound_and_right(case):
    program = case.build()
    assert all(split(program).values())
    for seed in SEEDS:
        options = options_of(seed)
        result = simulate(program, **options)
        assert result.verdict.ok, result.verdict
        assert len(result.outputs) == options["calls"]
        for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
            error = case.error(inputs, outputs)
            assert error < case.tolerance, f"seed {seed}: {error}"


def test_result_does_not_depend_on_which_part_comes_last():
    """The same inputs give the same bits in every interleaving, in which different CTAs store the tiles."""
    case = LAST_ROUNDS["one tile left, 8 parts of 7 steps"]
    first = simulate(case.build(), seed=0, trace=True)
    stored_by = set()
    for seed in range(8):
        result = simulate(case.build(), first.inputs, seed=seed, trace=True)
        stored_by.add(_last_to_count(result.trace))
        for before, now in zip(first.outputs[0]["c"], result.outputs[0]["c"], strict=True):
            assert np.array_equal(before, now)
    assert len(stored_by) > 1


def _last_to_count(trace):
    """The CTA of rank 0 that counts last."""
    counts = [event for event in trace if "counters_ptr of rank 0" in event.detail]
    return counts[-1].agent


def _stored_after_it_is_counted(fused):
    """A part is stored behind its count, before the parts are added up."""
    (branch,) = fused.find(r"scf\.if", where=_adds_parts)
    for op in fused.find(r"tt\.store", innermost="store_part"):
        op.move_before(branch)


def _first_stores(fused):
    """Whoever counts first stores the tile, and sets the counter back."""
    for op in fused.find(r"arith\.cmpi", innermost="last_part"):
        if any(user.operation.name in ("arith.extui", "tt.store") for user in users(op)):
            op.operands[1] = constant(1, "i32", op)


def _one_slot_for_all(fused):
    """All parts go to the slot of the first program."""
    for op in fused.find(r"arith\.muli", "store_part", innermost="_slot"):
        op.operands[0] = constant(0, str(op.operands[0].type), op)


def _adds_parts(op):
    """Whether a branch is the one of the last part."""
    loads = [inner for inner in operations(op) if inner.name == "tt.load"]
    return any("load_parts" in functions_of(inner) for inner in loads)


ADDED = LAST_ROUNDS["added by tiles"]
FAULTS = {
    "no barrier before the count": drop(r"(gpu|ttg)\.barrier", innermost="last_part"),
    "the count orders nothing": change(r"tt\.atomic_rmw", "sem", RELAXED, innermost="last_part"),
    "the count is the CTA's own": change(
        r"tt\.atomic_rmw", "scope", CTA_SCOPE, innermost="last_part"
    ),
    "stored after it is counted": _stored_after_it_is_counted,
    "the first stores": _first_stores,
    "every part stores and announces the tile": decide(r"scf\.if", True, where=_adds_parts),
    "no part stores": decide(r"scf\.if", False, where=_adds_parts),
    "never set back": drop(r"tt\.store", innermost="last_part"),
    "one slot for all": _one_slot_for_all,
}
"""Edits of what CTAs do to meet at a tile."""


@pytest.mark.parametrize(
    "case", [ADDED, LAST_ROUNDS["exchanged, by pointers"]], ids=["adds", "counted"]
)
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_fault_where_parts_meet_is_found(fault, case):
    broken = kernel(fault)(case.build())
    for seed in range(6):
        result = simulate(broken, **options_of(seed))
        if not result.verdict.ok:
            return
        errors = map(case.error, result.inputs, result.outputs)
        if not all(error < case.tolerance for error in errors):
            return
    pytest.fail("found by nothing")


def _other_part(_, rank, columns):
    """The parts of a tile change places."""
    tiles = columns["tiles"]
    parts = tiles["c2"]
    second = np.flatnonzero(parts == 1)
    parts[second - 1], parts[second] = 1, 0
    return bool(second.size)


def _other_tile(_, rank, columns):
    """A CTA computes a part of the tile of its neighbours."""
    tiles = columns["tiles"]
    last = int(np.flatnonzero(tiles["c2"] == 0)[-1])
    for name in ("c0", "c1"):
        tiles[name][last + 1] = tiles[name][0]
    return True


def _no_wait_of_a_part(_, rank, columns):
    """The last part of a tile starts at once."""
    tiles = columns["tiles"]
    tiles["wait_end"][-1] = tiles["wait_begin"][-1]
    return True


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (_other_part, "expects part 0 of a tile in row"),
        (_other_tile, "expects part 1 of the tile before in row"),
        (_no_wait_of_a_part, "starts without a wait for a transfer that brings what it reads"),
    ],
    ids=["parts change places", "part of another tile", "part without a wait"],
)
def test_fault_of_the_tables_is_refused(edit, says):
    program = LAST_ROUNDS["less than a round"].build()
    assert not refuse_tables(program)
    assert says in refuse_tables(tables(edit)(program))


def test_part_without_a_wait_is_a_race():
    broken = tables(_no_wait_of_a_part)(LAST_ROUNDS["less than a round"].build())
    verdicts = [simulate(broken, **options_of(seed)).verdict for seed in range(4)]
    assert any(finding.kind is Kind.RACE for verdict in verdicts for finding in verdict.findings)
