"""FlashOverlap's closed form and the searches over groupings."""

import itertools
import time

import numpy as np
import pytest

from syncopate.errors import SyncopateError
from syncopate.model import Curve, WaveModel, find_preset

pytestmark = pytest.mark.any_triton


def random_model(seed, waves):
    draw = np.random.default_rng(seed)
    sms, comm = int(draw.integers(4, 140)), int(draw.integers(0, 3))
    tiles = int(draw.integers((waves - 1) * (sms - comm) + 1, waves * (sms - comm) + 1))
    sizes = np.cumsum(draw.uniform(1e5, 1e7, size=5))
    times = np.cumsum(draw.uniform(1, 60, size=5))
    curve = Curve(tuple(sizes.tolist()), tuple(times.tolist()))
    model = WaveModel(float(draw.uniform(50, 900)), tiles, 65536, sms, curve, comm)
    assert model.waves == waves
    return model


def test_prediction_by_hand():
    # 10 tiles on 4 of 5 multiprocessors: three waves of 40 µs, since two waves on all five take 80.
    curve = Curve.of_rate(5.0, 0.001)  # 5 µs and one µs for each byte.
    model = WaveModel(80.0, 10, 3, 5, curve, comm_sms=1)
    assert (model.waves, model.wave_us) == (3, 40.0)
    # Groups of 8 and 2 tiles: computed at 80 and 120; 24 bytes arrive at 109, 6 bytes at 131.
    assert model.predict_us((2, 1)) == pytest.approx(131)
    # 4 and 6 tiles: 40 + 17 = 57, 120 + 23.
    assert model.predict_us((1, 2)) == pytest.approx(143)
    assert model.predict_us((3,)) == pytest.approx(80 + 35)
    assert model.find_groups().waves == (3,)
    assert model.bound_us() == pytest.approx(max(80 + 11, 40 + 35))


@pytest.mark.parametrize("waves", range(1, 9))
def test_search_finds_the_best_of_all(waves):
    for seed in range(12):
        model = random_model(seed, waves)
        every = list(model.enumerate_groups())
        assert len(set(every)) == len(every) == 2 ** (waves - 1)
        best = model.search_exhaustively()
        assert best.us == min(model.predict_us(groups) for groups in every)
        found = model.find_groups()
        assert found.us == pytest.approx(best.us, rel=1e-12)
        assert model.predict_us(found.waves) == pytest.approx(found.us, rel=1e-12)
        pruned = model.search_pruned()
        assert pruned.us >= best.us
        assert len(pruned.waves) == 1 or (pruned.waves[0] <= 2 and pruned.waves[-1] <= 4)


@pytest.mark.parametrize("gemm_us", [-1.0, float("nan"), float("inf")])
def test_times_that_are_none_are_refused(gemm_us):
    curve = Curve.of_rate(5.0, 0.001)
    with pytest.raises(SyncopateError, match="waves: gemm_us: expects a finite number of at least"):
        WaveModel(gemm_us, 10, 3, 5, curve, comm_sms=1)
    with pytest.raises(SyncopateError, match="waves: tile_bytes: expects an integer of at least 0"):
        WaveModel(80.0, 10, -3, 5, curve, comm_sms=1)


def test_pruning_keeps_what_it_should():
    model = random_model(3, 7)
    kept = set(model.enumerate_groups(2, 4))
    for groups in model.enumerate_groups():
        assert (groups in kept) == (len(groups) == 1 or (groups[0] <= 2 and groups[-1] <= 4))


@pytest.mark.parametrize("seed", range(20))
def test_nothing_beats_the_bound(seed):
    """On a curve without a jump, cutting a message makes it no faster; so the bound holds for all but one group."""
    draw = np.random.default_rng(seed)
    model = random_model(seed, int(draw.integers(2, 8)))
    straight = Curve.of_rate(float(draw.uniform(0, 20)), float(draw.uniform(20, 400)))
    model = WaveModel(model.gemm_us, model.tiles, model.tile_bytes, model.sms, straight, 0)
    assert all(
        model.predict_us(groups) >= model.bound_us() - 1e-9 for groups in model.enumerate_groups()
    )


def test_bad_groups_are_refused():
    model = random_model(0, 4)
    for groups in ((1, 2), (4, 0), (), (5, -1)):
        with pytest.raises(SyncopateError, match="groups: expects positive numbers with the sum 4"):
            model.predict_us(groups)
    with pytest.raises(SyncopateError, match="fewer comm_sms than sms"):
        WaveModel(1.0, 1, 1, 2, Curve.of_rate(1, 1), 2)


def test_searching_eight_waves_takes_milliseconds():
    curve = next(
        c.curve for c in find_preset("h200-w2").collectives if c.collective == "all_reduce"
    )
    model = WaveModel(360.0, 1024, 65536, 132, curve)
    assert model.waves == 8
    for search in (model.search_exhaustively, model.search_pruned, model.find_groups):
        times = []
        for _ in range(5):
            begin = time.process_time()
            search()
            times.append(time.process_time() - begin)
        assert min(times) < 0.01
    # What enumeration cannot do any more.
    large = WaveModel(4000.0, 130 * 60, 65536, 132, curve)
    found = large.find_groups()
    assert sum(found.waves) == 60
    some = itertools.islice(large.enumerate_groups(), 2000)
    assert found.us <= min(large.predict_us(groups) for groups in some)
