"""Layouts in JSON, and Alpa's strategies of products."""

import numpy as np
import pytest
from import_faults_layouts import GOOD

import syncopate
from syncopate.importers import alpa_layout, dtensor_layout, gspmd_layout, read_exchanges
from syncopate.kernels import GemmConfig, gemm
from syncopate.sim.simulate import simulate

TINY = GemmConfig(block_m=32, block_n=32, block_k=32, num_warps=4, num_ctas=2)


def read(strategy, mesh="[2, 2]", **more):
    fields = "".join(f', "{name}": "{value}"' for name, value in more.items())
    product = f'{{"shape": [64, 96, 64], "strategy": "{strategy}"{fields}}}'
    text = f'{{"mesh": {mesh}, "dtype": "bf16", "products": [{product}]}}'
    return read_exchanges(text, "layouts-json")


@pytest.mark.any_triton
def test_layouts_are_those_of_their_notations():
    exchanges = read_exchanges(GOOD, "layouts-json")
    assert [exchange.place.line for exchange in exchanges] == [5, 6, 7, 10, 11, 12]
    expected = [
        (alpa_layout([2, 2], "S0S1", (64, 48)), alpa_layout([2, 2], "S0R", (64, 48))),
        *[
            tuple(dtensor_layout([2, 2], said, (8, 64, 48)) for said in pair)
            for pair in [(["S(1)", "P(sum)"], ["S(1)", "R"])]
        ],
        tuple(gspmd_layout(said, (16, 8), 4) for said in ("{devices=[4,1]<=[4]}", "{replicated}")),
    ]
    for exchange, (src, dst) in zip(exchanges, expected, strict=False):
        assert (exchange.src.boxes, exchange.src.parts) == (src.boxes, src.parts)
        assert (exchange.dst.boxes, exchange.dst.parts) == (dst.boxes, dst.parts)


@pytest.mark.any_triton
@pytest.mark.parametrize(
    ("strategy", "more", "word", "gemm_shape"),
    [
        ("RR = RS x SR @ {0} (allreduce @ 0)", {}, "all_reduce", (64, 96, 32)),
        ("SR = SS x SR @ {0,1} (allreduce @ 1)", {}, "all_reduce", (32, 96, 32)),
        ("RS = RS x SS @ {0,1} (allreduce @ 0)", {}, "all_reduce", (64, 48, 32)),
        ("SR = SS x SR @ {0,1} (allreduce @ 1)", {"c": "S01R"}, "reduce_scatter", (32, 96, 32)),
        ("SS = SS x SR @ {0,1} (reduce-scatter @ 1)", {}, "reduce_scatter", (32, 96, 32)),
        ("SS = SR x RS @ {0,1}", {"a": "S01R"}, "all_gather", (32, 48, 64)),
        ("S0S1 = S0R x RS1", {"a": "S0S1"}, "all_gather", (32, 48, 64)),
    ],
)
def test_strategy_of_alpa_says_what_moves(strategy, more, word, gemm_shape):
    (exchange,) = read(strategy, **more)
    found = exchange.gemm
    assert (found.m, found.n, found.k) == gemm_shape
    assert found.reads == (word == "all_gather")
    assert exchange.build().plan.text.count(f"chunk.{word} ") == 2


@pytest.mark.any_triton
def test_strategy_that_has_what_it_needs_moves_nothing():
    with pytest.raises(syncopate.errors.PlanError, match="or layouts that differ"):
        read("SS = SR x RS @ {0,1}")


def test_strategy_drives_a_fused_kernel():
    """Its sums are scattered behind it, since rows of the result are wanted."""
    (exchange,) = read("RR = RS x SR @ {0} (allreduce @ 0)", "[2]", c="S0R")
    imported = exchange.build()
    program = syncopate.compile(gemm, imported.plan, **imported.gemm.bind(imported, TINY))
    result = simulate(program, calls=2, seed=5)
    assert result.verdict.ok, result.verdict
    for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
        a, b = ([part.astype(np.float32) for part in inputs[name]] for name in ("a", "b"))
        expected = np.split(sum(x @ y for x, y in zip(a, b, strict=True)), 2)
        (found,) = outputs.values()
        for part, wanted in zip(found, expected, strict=True):
            assert np.abs(part.astype(np.float32) - wanted).max() < 2e-2 * np.abs(wanted).max()
