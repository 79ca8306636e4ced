"""What was asked for last stays, up to a bound."""

import random
from collections import OrderedDict

import pytest

from syncopate.recent import Recent


def test_against_a_list_of_keys():
    draw = random.Random()
    most = draw.randrange(1, 8)
    recent, order = Recent(most), OrderedDict()
    for turn in range(500):
        key = draw.randrange(12)
        if draw.random() < 0.5:
            assert recent.find(key) == order.get(key)
            if key in order:
                order.move_to_end(key)
        else:
            assert recent.keep(key, turn + 1) == turn + 1
            order.pop(key, None)
            order[key] = turn + 1
            if len(order) > most:
                order.popitem(last=False)
        assert len(recent) == len(order)
    recent.clear()
    assert len(recent) == 0
    assert recent.find(key) is None


def test_something_has_to_be_kept():
    with pytest.raises(ValueError, match="most: expects a positive number, but got 0"):
        Recent(0)
