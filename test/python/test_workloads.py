"""GEMM workloads: what is refused, and that their schedules are those of their programs."""

import dataclasses
import re

import numpy as np
import pytest

import syncopate
from syncopate import GemmWorkload, Strategy
from syncopate.errors import SyncopateError
from syncopate.kernels import GemmConfig
from syncopate.model import find_preset
from syncopate.workloads import GemmKind

SMALL = GemmConfig(block_m=64, block_n=64, block_k=32, num_warps=4, num_stages=3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"kind": "gemm"},
            "kind: expects one of ag_gemm, gemm_rs, gemm_ar, a2a_gemm, gemm_a2a, but got 'gemm'",
        ),
        ({"m": 0}, "m: expects an integer of at least 1, but got 0"),
        ({"world_size": 1}, "world_size: expects an integer of at least 2, but got 1"),
        ({"k": 1.5}, "k: expects an integer of at least 1, but got 1.5"),
        ({"dtype": "int"}, "dtype: expects one of"),
        ({"dtype": "i8"}, "f8E5M2, which the GEMM kernels multiply, but got 'i8'"),
        ({"weight_pitch": 63}, "weight_pitch: expects an integer of at least K, 64, but got 63"),
        (
            {"weight_pitch": 64, "transpose_b": True, "n": 80},
            "weight_pitch: expects an integer of at least N, 80, but got 64",
        ),
        (
            {"kind": "gemm_rs", "returns_a": True},
            "returns_a: expects False for gemm_rs, where A does not move, but got True",
        ),
        ({"node_size": 3}, "node_size: expects a divisor of 4 ranks, but got 3"),
    ],
)
def test_wrong_workload_is_refused(change, message):
    with pytest.raises(SyncopateError, match=re.escape(message)):
        GemmWorkload(**{"kind": "ag_gemm", "m": 256, "n": 64, "k": 64, "world_size": 4, **change})


@pytest.mark.parametrize("kind", list(GemmKind))
@pytest.mark.parametrize(
    ("shape", "dtype"), [((264, 136, 72), "bf16"), ((200, 51, 70), "f16"), ((128, 64, 36), "f32")]
)
@pytest.mark.parametrize("realization", ["ldst_colocated", "copy_engine"])
def test_schedule_has_the_tables_of_the_program(kind, shape, dtype, realization):
    workload = GemmWorkload(kind, *shape, 2, dtype)
    base = workload.default_strategy(SMALL)
    strategy = dataclasses.replace(base, realization=realization, splits=2)
    program = workload.compile(strategy, config=SMALL)
    schedule = workload.schedule(strategy, SMALL)
    assert schedule.num_ctas == program.num_ctas
    for rank in range(2):
        tables, expected = schedule.rank_tables(rank), program.rank_tables(rank)
        assert tables.keys() == expected.keys()
        for name, table in expected.items():
            np.testing.assert_array_equal(tables[name].values, table.values, err_msg=name)


@pytest.mark.parametrize("kind", list(GemmKind))
def test_program_of_a_workload_is_sound(kind):
    program = GemmWorkload(kind, 130 if kind is GemmKind.AG_GEMM else 132, 72, 40, 2).compile(
        config=GemmConfig(block_m=32, block_n=32, block_k=16, num_warps=4, num_stages=2, num_ctas=3)
    )
    result = program.simulate(calls=2)
    assert result.verdict.ok, result.verdict


@pytest.mark.parametrize(
    ("shape", "dtype", "k", "pitch"),
    [
        ((8200, 3600, 8192), "bf16", 8192, None),
        ((8200, 3600, 8184), "bf16", 8184, 8192),
        ((2048, 3600, 8184), "bf16", 8184, None),
        ((8200, 3600, 8190), "bf16", 8192, None),
        ((200, 3600, 8190), "bf16", 8192, None),
        ((200, 51, 8190), "bf16", 8190, None),
        ((8200, 3600, 8196), "f32", 8196, 8224),
        ((8200, 3600, 8198), "f32", 8224, None),
        ((8200, 3600, 8200), "f8E4M3FN", 8320, None),
    ],
)
def test_rows_are_packed_where_it_pays(shape, dtype, k, pitch):
    packed = GemmWorkload("ag_gemm", *shape, 2, dtype).packed()
    assert (packed.k, packed.weight_pitch) == (k, pitch)
    assert packed.packed() == packed


@pytest.mark.parametrize("kind", list(GemmKind))
def test_program_of_packed_rows_is_sound(kind):
    workload = GemmWorkload(kind, 132, 72, 40, 2, weight_pitch=64)
    config = GemmConfig(block_m=32, block_n=32, block_k=16, num_warps=4, num_stages=2, num_ctas=3)
    program = workload.compile(config=config)
    assert [p.strides for p in program.params if getattr(p, "tensor", "") == "b"] == [(64, 1)]
    result = program.simulate(calls=2)
    assert result.verdict.ok, result.verdict


def test_order_of_a_fused_kernel_is_the_strategys():
    """So the code of two configurations that differ in it is one."""
    workload = GemmWorkload("ag_gemm", 512, 256, 64, 2)
    configs = [GemmConfig(block_m=64, block_n=64, group_m=size) for size in (1, 4)]
    programs = [workload.compile(Strategy(group_m=2), config=config) for config in configs]
    assert programs[0].image == programs[1].image
    tables = [program.rank_tables(0)["tiles"].values for program in programs]
    np.testing.assert_array_equal(*tables)
    assert workload.default_strategy(configs[1]) == Strategy(group_m=4)
    other = workload.compile(Strategy(group_m=4), config=configs[0])
    assert (other.rank_tables(0)["tiles"].values != tables[0]).any()


@pytest.mark.parametrize(
    ("choices", "world", "ctas"),
    [
        ({"realization": "tma_dedicated"}, 2, 4),
        ({"realization": "ldst_dedicated"}, 2, 8),
        ({"realization": "ldst_dedicated", "direction": "pull"}, 2, 16),
        ({"realization": "ldst_dedicated", "comm_ctas": 3}, 2, 3),
        # What arrives from three ranks is added up by loads and stores, on CTAs of their own.
        ({"realization": "tma_dedicated", "direction": "pull"}, 4, 4 + 8),
        ({"realization": "tma_dedicated", "comm_ctas": 6}, 4, 6),
        ({"reducing": "ldst_dedicated"}, 4, 8),
    ],
)
def test_number_of_ctas_that_move_data_follows_from_who_does(choices, world, ctas):
    workload = GemmWorkload("gemm_rs", 64 * world, 64, 64, world)
    schedule = workload.schedule(Strategy(**choices), SMALL)
    assert (schedule.comm_ctas, schedule.num_ctas) == (ctas, 132 - ctas)


def test_library_gets_multiprocessors_beside_those_of_roles():
    workload = GemmWorkload("gemm_rs", 256, 64, 64, 4, node_size=2)
    schedule = workload.schedule(Strategy(realization="tma_dedicated", between="nccl"), SMALL)
    assert schedule.num_ctas == 132 - schedule.comm_ctas - 16
    alone = GemmWorkload("gemm_rs", 128, 64, 64, 2).schedule(Strategy(realization="nccl"), SMALL)
    assert (alone.comm_ctas, alone.num_ctas) == (0, 132 - 16)


def test_nodes_make_a_mesh_of_two_levels():
    workload = GemmWorkload("ag_gemm", 512, 64, 64, 4, node_size=2)
    strategy = Strategy(algorithm="hierarchical")
    schedule = workload.schedule(strategy, SMALL)
    assert schedule.world_size == 4
    flat = GemmWorkload("ag_gemm", 512, 64, 64, 4)
    with pytest.raises(SyncopateError, match="hierarchical"):
        flat.schedule(strategy, SMALL)


def test_model_says_of_which_workload_it_knows_nothing():
    machine = find_preset("h200-w2")
    with pytest.raises(SyncopateError, match="knows nothing of the GEMM on pointers"):
        GemmWorkload("ag_gemm", 256, 51, 64, 2).cost(SMALL, machine)
    with pytest.raises(SyncopateError, match="has no GEMM rate for f32"):
        GemmWorkload("ag_gemm", 256, 64, 64, 2, "f32").cost(SMALL, machine)


def test_prediction_is_that_of_its_tables():
    machine, config = find_preset("h200-w2"), GemmConfig()
    workload = GemmWorkload("gemm_rs", 4096, 2048, 1024, 2)
    timeline = workload.predict(Strategy(), config, machine)
    program = workload.compile(Strategy(), config=config)
    from syncopate.model import predict

    assert timeline.us == predict(program, workload.cost(config, machine), machine).us


def test_workload_is_in_reach_of_the_package():
    assert syncopate.GemmWorkload is GemmWorkload


@pytest.mark.parametrize("dtype", ["bf16", "f32"])
@pytest.mark.parametrize(
    ("kind", "shape"),
    [("ag_gemm", (202, 53, 197)), ("gemm_rs", (202, 197, 53)), ("gemm_a2a", (4, 3, 5))],
)
def test_rows_of_single_elements_fit_into_registers(kind, shape, dtype):
    """Each element has an address of its own then."""
    assert GemmWorkload(kind, *shape, 2, dtype=dtype).packed().compile().image.cubin
