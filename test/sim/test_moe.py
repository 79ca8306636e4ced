"""Programs that dispatch tokens to experts run on the simulator, with one routing after another: sound, and right."""

import numpy as np
import pytest

pytest.importorskip("torch")
from sim_moe import COMBINES, MOE, ROUTINGS, check_combine, check_moe, make_call

from syncopate.sim.findings import Kind
from syncopate.sim.simulate import simulate


@pytest.mark.parametrize("case", MOE, ids=lambda case: case.name)
def test_every_routing_is_sound_and_right(case):
    names = [*ROUTINGS, "random"]
    for seed, scheduler in enumerate(("random", "late", "early")):
        order = list(np.random.default_rng(seed).permutation(names))
        check_moe(case, order, seed, scheduler=scheduler, staged=seed == 1)


@pytest.mark.parametrize("case", COMBINES, ids=lambda case: case.name)
def test_every_routing_is_combined_soundly_and_right(case):
    for seed, scheduler in enumerate(("random", "late")):
        order = list(np.random.default_rng(seed).permutation([*ROUTINGS]))
        check_combine(case, order, seed, scheduler=scheduler)


def test_many_calls_with_changing_routings_are_right():
    names = [name for _ in range(4) for name in ROUTINGS]
    check_moe(MOE[1], names, 7, first_epoch=2**31 - 9)


def _find(case, change, seeds=4):
    """What is found when the words of every rank are changed, and whether a result is wrong."""
    found = set()
    for seed in range(seeds):
        generator = np.random.default_rng(seed)
        calls = []
        for _ in range(3):
            call = make_call(case, ROUTINGS["random"](case.shape, generator), generator)
            words = [change(words.copy()) for words in call.inputs["tokens_words"]]
            calls.append({**call.inputs, "tokens_words": words})
        result = simulate(case.build(), calls, seed=seed, scheduler="late", partial=["c"])
        found |= {finding.kind for finding in result.verdict.findings}
    return found


def test_tiles_that_say_to_need_less_are_found():
    case = MOE[1]

    def need_nothing(words):
        words[2 * (case.shape.world_size - 1) :] = 0
        return words

    assert _find(case, need_nothing) & {Kind.RACE, Kind.UNWRITTEN}


def test_rows_that_are_not_sent_are_found():
    case = MOE[1]

    def send_less(words):
        words[: 2 * (case.shape.world_size - 1)] -= 1
        return words

    assert _find(case, send_less) & {Kind.RACE, Kind.UNWRITTEN}


def test_words_out_of_range_move_no_more_than_the_capacity():
    case = MOE[1]

    def send_all(words):
        words[: 2 * (case.shape.world_size - 1)] = 2**31 - 1
        words[2 * (case.shape.world_size - 1) :] = 2**31 - 1
        return words

    assert not _find(case, send_all, 2)


def test_rows_are_counted_on_the_device_only():
    program = MOE[0].build()
    counted = {row["count_index"] for row in program.rank_tables(0)["commands"].rows()}
    assert counted == {0}
