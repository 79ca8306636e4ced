"""Names of strategies: what they say, and that they can be read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncopate import Strategy
from syncopate.choices import (
    RANGES,
    Algorithm,
    Combine,
    Direction,
    Realization,
    Shots,
    SlotShape,
    TileOrder,
)
from syncopate.errors import SyncopateError
from syncopate.strategy_names import name_strategy, read_strategy_name

pytestmark = pytest.mark.any_triton


def optional(kind):
    return st.none() | st.sampled_from(kind)


def numbers(name):
    return st.integers(RANGES[name][0], RANGES[name][-1])


STRATEGIES = st.builds(
    Strategy,
    algorithm=st.sampled_from(Algorithm),
    direction=st.sampled_from(Direction),
    realization=st.sampled_from(Realization),
    splits=numbers("splits"),
    order=st.sampled_from(TileOrder),
    group_m=numbers("group_m"),
    pause=numbers("pause"),
    comm_ctas=numbers("comm_ctas"),
    waves=st.lists(st.integers(1, 99), max_size=3).map(tuple),
    slots=st.sampled_from(SlotShape),
    between=optional(Realization),
    combine=optional(Combine),
    shots=optional(Shots),
    reducing=optional(Realization),
    gathering=optional(Realization),
)


@given(STRATEGIES)
def test_any_strategy_is_read_back_from_its_name(strategy):
    assert read_strategy_name(name_strategy(strategy)) == strategy


@pytest.mark.parametrize(
    ("choices", "name"),
    [
        ({}, "ldst_colocated/push/by size"),
        ({"realization": "copy_engine", "splits": 4}, "copy_engine/push/4"),
        ({"realization": "tma_dedicated"}, "tma_dedicated/push/by size"),
        ({"combine": "role", "direction": "pull"}, "ldst_colocated/pull/by size/sum by role"),
        (
            {"realization": "tma_dedicated", "comm_ctas": 8},
            "tma_dedicated/push/by size/8 CTAs",
        ),
        (
            {"realization": "nccl", "waves": (1, 2), "comm_ctas": 8},
            "nccl/rows/1+2 waves/8 CTAs",
        ),
        ({"realization": "nccl", "slots": "tiles"}, "nccl/tiles/default waves"),
        (
            {"algorithm": "ring", "group_m": 4},
            "ldst_colocated/push/by size/by ring/groups of 4 rows",
        ),
        ({"shots": "one"}, "ldst_colocated/push/by size/shots one"),
        ({"between": "nccl"}, "ldst_colocated/push/by size/between nodes by nccl"),
    ],
)
def test_name_shows_what_is_not_as_by_default(choices, name):
    assert name_strategy(Strategy(**choices)) == name


@pytest.mark.parametrize(
    "name",
    ["", "ldst_colocated", "x/push/1", "ldst_colocated/push/x", "copy_engine/push/1/fast", "nccl"],
)
def test_other_texts_are_refused(name):
    with pytest.raises(
        SyncopateError, match="strategy: expects a name such as ldst_colocated/push"
    ):
        read_strategy_name(name)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("fast", "realization: expects one of copy_engine, "),
        ("copy_engine/push", "expects a direction and a number of pieces behind copy_engine"),
        ("nccl", "expects what calls take behind nccl"),
    ],
)
def test_messages_say_what_is_missing(name, why):
    with pytest.raises(SyncopateError, match=f"but got '{name}': {why}"):
        read_strategy_name(name)
