"""Attention of packed sequences, of heads that ranks share, and decoding, run on the simulator: sound and right."""

import numpy as np
import pytest
from sim_attention_kinds import KINDS
from sim_table import options_of

from syncopate.kernels.sequence_tiles import SequenceTiles
from syncopate.plan.sequence import SequenceShards, Sharding
from syncopate.sim.simulate import simulate
from syncopate.workloads import AttentionKind

OUT = 4e-3
"""Weights are rounded to f16 before they are summed up; outputs are of the order of 1."""
LSE = 1e-5


@pytest.mark.parametrize("case", KINDS.values(), ids=KINDS)
def test_attention_is_sound_and_right(case):
    program = case.build()
    for seed in range(2):
        options = options_of(seed)
        result = simulate(program, case.draw(seed, options.pop("calls")), **options)
        assert result.verdict.ok, result.verdict
        assert result.outputs
        for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
            out, lse = case.errors(inputs, outputs)
            assert out < OUT, f"seed {seed}: {out}"
            assert lse < LSE, f"seed {seed}: {lse}"
            if case.workload.kind is AttentionKind.DECODE:
                for name in ("o", "lse"):
                    first, *others = outputs[name]
                    assert all(np.array_equal(first, other) for other in others)


@pytest.mark.parametrize("name", ["packed zig-zag", "groups of three heads", "ulysses, causal"])
def test_scores_of_ten_thousands_neither_overflow_nor_vanish(name):
    case = KINDS[name]
    (inputs,) = case.draw(3, 1)
    inputs["q"] = [q * np.float16(3000) for q in inputs["q"]]
    result = simulate(case.build(), [inputs], seed=1)
    assert result.verdict.ok, result.verdict
    out, lse = case.errors(inputs, result.outputs[0])
    assert out < OUT
    # Scores are rounded to 24 bits.
    assert lse < 1e-2


def _visited(tiles, rank):
    """The pairs of a query's place and a step that the tiles of a rank have."""
    places = tiles.shards.positions(rank)
    steps = {given.rank: given.range for given in tiles.steps()}
    range_of = steps.get(rank, steps.get(None))
    visited = set()
    for m, (row, end_row, *_) in enumerate(tiles.table(rank)):
        begin, end = range_of(0, m)
        for place in places[row:end_row]:
            visited |= {(int(place), step) for step in range(begin, min(np.atleast_1d(end)))}
    return visited


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sharding", Sharding)
@pytest.mark.parametrize("bounds", [(0, 5, 64, 301), (0, 300, 301), (0, 0, 150, 301)])
def test_tiles_have_the_steps_of_their_sequence(causal, sharding, bounds):
    tiles = SequenceTiles(SequenceShards(301, 3, sharding), 16, 8, causal, bounds)
    seen = []
    for rank in range(3):
        table = tiles.table(rank)
        rows = np.concatenate([np.arange(*tile[:2]) for tile in table])
        assert sorted(rows) == list(range(tiles.shards.rows))
        visited = _visited(tiles, rank)
        for place in tiles.shards.positions(rank):
            if place < 0:
                assert not any(at == place for at, _ in visited)
                continue
            seen.append(place)
            number = np.searchsorted(bounds, place, side="right") - 1
            begin, end = bounds[number], place + 1 if causal else bounds[number + 1]
            wanted = set(range(begin // 8, -(-end // 8)))
            found = {step for at, step in visited if at == place}
            # A tile has those of its last query, too.
            latest = set(range(begin // 8, -(-min(place + 16, bounds[number + 1]) // 8)))
            assert wanted <= found <= (latest if causal else wanted)
    assert sorted(seen) == list(range(301))


def test_causal_tiles_with_the_most_steps_come_first():
    tiles = SequenceTiles(SequenceShards(640, 2), 64, 32, True)
    for rank, order in enumerate(tiles.order(10)):
        assert sorted(order) == list(range(10 * tiles.count))
        ends = [min(tiles.steps()[rank].range(0, int(tile) % tiles.count)[1]) for tile in order]
        # Eight heads, then the other two.
        for part in (ends[: 8 * tiles.count], ends[8 * tiles.count :]):
            assert part == sorted(part, reverse=True)
