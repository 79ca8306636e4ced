"""`syncopate.compile` from plan and kernel to cubin, without a GPU."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from typing import Any

import pytest
import triton
import triton.language as tl

import syncopate
import syncopate.language as sy
from syncopate._tools import find_tool
from syncopate.kernels import GemmConfig, gemm, gemm_pointers
from syncopate.kernels.bind import bind_gemm, bind_gemm_pointers

SMALL = GemmConfig(block_n=64, num_warps=4, num_ctas=8)
WHOLE = dataclasses.replace(SMALL, parts=1)


def all_gather(world: int, shape: tuple[int, int], dtype: str = "bf16") -> tuple[Any, Any]:
    plan = syncopate.Plan("gather", [world])
    buffer = plan.buffer("a", shape, dtype, shard_axis=0)
    plan.all_gather(buffer)
    return plan, buffer


def build(
    world: int = 2,
    shape: tuple[int, int, int] = (512, 256, 256),
    config: GemmConfig = SMALL,
    **kw: Any,
) -> Any:
    m, n, k = shape
    plan, a = all_gather(world, (m, k))
    return syncopate.compile(gemm, plan, **{**bind_gemm(a, n, config), **kw})


@pytest.mark.parametrize("realization", ["ldst_dedicated", "ldst_colocated", "copy_engine"])
@pytest.mark.parametrize("direction", ["push", "pull"])
@pytest.mark.parametrize("algorithm", ["direct", "ring"])
def test_opt_reproduces_what_compile_uses(tmp_path, algorithm, direction, realization):
    program = build(
        world=3, strategy=syncopate.Strategy(algorithm, direction, realization, splits=2)
    )
    path = tmp_path / "input.mlir"
    path.write_text(program.ir["input"])
    command = [find_tool("syncopate-opt"), path, "--syncopate-pipeline", "--mlir-print-debuginfo"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert printed.strip() == program.ir["lowered"].strip()


def test_kernel_holds_no_protocol_before_the_passes():
    program = build(config=WHOLE)  # CTAs that share a tile have a protocol of their own.
    before, after = program.ir["input"], program.ir["fused"]
    kernel = before[before.index("module @ttgir") : before.index("module @device")]
    for word in ("tt.atomic_rmw", "tt.int_to_ptr", "tt.load", "globaltimer", "warp_specialize"):
        assert word not in kernel
        assert word in after
    assert "syncopate.tile" in kernel
    assert "syncopate." not in after


def test_kernel_does_not_depend_on_the_schedule():
    strategies = [
        syncopate.Strategy(splits=splits, order=order)
        for splits, order in ((1, "arrival"), (4, "grouped"))
    ]
    one, other = (build(strategy=strategy) for strategy in strategies)
    assert one.image == other.image
    assert (
        one.rank_tables(0)["tiles"].values.tolist() != other.rank_tables(0)["tiles"].values.tolist()
    )


def test_roles_follow_the_realization():
    colocated = build(strategy=syncopate.Strategy(realization="ldst_colocated"))
    engine = build(strategy=syncopate.Strategy(realization="copy_engine"))
    assert colocated.image.num_warps == SMALL.num_warps + 4
    assert engine.image.num_warps == SMALL.num_warps
    assert "setmaxnreg" in colocated.ir["ptx"]
    assert "warp_specialize" not in engine.ir["ttgir"]


def test_producer_orders_stores_barrier_and_release():
    ptx = build().ir["ptx"]
    copy = ptx[ptx.index("st.global.v4") :]
    assert re.search(
        r"st\.global\.v4.*?bar\.sync.*?atom\.global\.sys\.acq_rel|st\.global\.v4.*?bar\.sync.*?atom\.sys\.global\.acq_rel",
        copy,
        re.DOTALL,
    )
    assert "ld.global.nc" not in ptx


def test_consumer_acquires_before_bulk_loads():
    ptx = build().ir["ptx"]
    acquire = ptx.index("sys.acquire") if "sys.acquire" in ptx else ptx.index("acquire.sys")
    assert "fence.proxy.async" in ptx[acquire : ptx.index("cp.async.bulk.tensor", acquire)]


def test_second_compile_comes_from_the_cache(monkeypatch):
    first = build()

    def fail(*args: Any, **kw: Any) -> Any:
        raise AssertionError("compiled again")

    monkeypatch.setattr("syncopate.bridge.capture_ttgir", fail)
    monkeypatch.setattr("syncopate.bridge.compile_with", fail)
    assert build().image == first.image
    with pytest.raises(AssertionError, match="compiled again"):
        build(options={"num_warps": 8})


@pytest.mark.parametrize("dtype", ["bf16", "f16", "f8E4M3FN"])
def test_ragged_shapes_and_dtypes_compile(dtype):
    plan, a = all_gather(3, (1000, 272), dtype)
    program = syncopate.compile(gemm, plan, **bind_gemm(a, 200, SMALL, out_dtype="bf16"))
    assert len(program.rank_tables(2)["tiles"].values) == 8 * 4


def test_rows_of_any_length_need_pointers():
    plan, a = all_gather(2, (520, 250))
    config = GemmConfig(block_n=128, num_ctas=8)
    program = syncopate.compile(gemm_pointers, plan, **bind_gemm_pointers(a, 130, config))
    assert not program.image.descriptors
    assert 'footprint read "a_ptr" at #map sizes [128, 250]' in program.ir["lowered"]


@triton.jit
def scale(a_desc, c_desc, factor, TILE: tl.constexpr):
    """One tile per CTA, not persistent."""
    m, _ = sy.tile(tl.program_id(0), tl.program_id(0))
    c_desc.store([m * TILE, 0], (a_desc.load([m * TILE, 0]) * factor).to(c_desc.dtype))


def test_kernel_without_a_loop():
    plan, a = all_gather(2, (256, 64))
    out = syncopate.Tensor("c", (256, 64), "bf16", output=True)
    bind = {
        "a_desc": syncopate.Descriptor(a, (64, 64)),
        "c_desc": syncopate.Descriptor(out, (64, 64)),
        "factor": 2.0,
        "TILE": 64,
    }
    program = syncopate.compile(
        scale,
        plan,
        bind=bind,
        tiles=(4,),
        ctas=4,
        strategy=syncopate.Strategy(realization="copy_engine"),
    )
    assert program.grid == (4, 1, 1)


def test_too_many_stages_name_shared_memory():
    with pytest.raises(
        syncopate.BudgetError, match=r"shared memory.*num_stages, of which it has 8"
    ):
        build(config=GemmConfig(num_stages=8, num_ctas=8), shape=(512, 512, 1024))


def test_accumulators_that_do_not_fit_name_registers():
    with pytest.raises(syncopate.BudgetError, match="spills to a stack"):
        build(
            config=GemmConfig(block_n=256, num_warps=4, num_stages=2, num_ctas=8),
            shape=(512, 512, 256),
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": "sm_70"}, "target: expects one of"),
        ({"target": "hopper"}, "target: expects a name such as sm_90"),
        ({"tiles": (4, 0)}, "grid sizes to be positive, but got 0"),
        ({"tiles": (4,), "config": WHOLE}, "expects markers of 1 coordinates"),
        ({"ctas": 0}, "expects ctas to be in [1, 2^20), but got 0"),
        ({"timeout": -1}, "timeout: expects seconds"),
        ({"timeout": float("nan")}, "timeout: expects seconds"),
        ({"timeout": 1e30}, "timeout: expects seconds"),
        ({"bind": {"nothing": 1}}, "'nothing' is no parameter of kernel gemm"),
        ({"bind": {}}, "parameter 'a_desc' of kernel gemm is not bound"),
        ({"bind": []}, "bind: expects a mapping"),
        ({"strategy": "ring"}, "strategy: expects a syncopate.Strategy, or 'auto', but got 'ring'"),
        ({"strategy": 3}, "strategy: expects a syncopate.Strategy, but got int"),
        ({"target": 90}, "target: expects a name such as sm_90"),
        ({"tiles": 4}, "tiles: expects a sequence of integers"),
        ({"ctas": "8"}, "ctas: expects an integer"),
        ({"ctas_per_sm": 0}, "ctas_per_sm: expects an integer in [1, 32], but got 0"),
        ({"ctas_per_sm": 2.0}, "ctas_per_sm: expects an integer in [1, 32], but got 2.0"),
        ({"options": {"num_warp": 4}}, "options: Triton has no option 'num_warp'"),
        ({"options": {"num_warps": 3}}, "options: num_warps expects a power of two"),
        ({"options": {"num_warps": "4"}}, "options: num_warps expects an integer"),
        ({"options": {"num_warps": 2}}, "options: num_warps expects a power of two of at least 4"),
        ({"options": {"num_stages": 2**62}}, "options: num_stages expects an integer up to 64"),
        ({"options": [1]}, "options: expects a mapping"),
        ({"footprints": ["a"]}, "footprints: expects a sequence of syncopate.Footprint"),
        ({"ctas": 2**63}, "ctas: expects an integer"),
        ({"tiles": (2**63, 1)}, "tiles: expects a sequence of integers"),
        ({"options": {"num_ctas": 2}}, "options: num_ctas expects 1"),
        ({"target": "sm_80"}, "target: sm_80 has no TMA"),
    ],
)
def test_wrong_arguments_are_named(change, message):
    with pytest.raises(syncopate.SyncopateError, match=re.escape(message)):
        build(**change)


def test_kernel_has_to_be_a_triton_function():
    plan, _ = all_gather(2, (64, 64))
    with pytest.raises(
        syncopate.SyncopateError, match=r"kernel: expects a @triton\.jit function, but got function"
    ):
        syncopate.compile(lambda: None, plan, bind={}, tiles=(1,))


@pytest.mark.parametrize(
    "choice",
    [
        {"algorithm": "tree"},
        {"realization": "nvshmem"},
        {"waves": (1, 0)},
        {"waves": [1]},
        {"order": "random"},
        {"splits": -1},
        {"splits": 5000},
        {"splits": True},
        {"group_m": -1},
        {"pause": -1},
        {"pause": 2_000_000},
        {"comm_ctas": -1},
        {"comm_ctas": 65_537},
    ],
)
def test_strategy_checks_its_choices(choice):
    (name,) = choice
    with pytest.raises(syncopate.SyncopateError, match=f"{name}: expects"):
        syncopate.Strategy(**choice)


def pointer_program(target: str, realization: str) -> Any:
    plan, a = all_gather(2, (512, 256))
    return syncopate.compile(
        gemm_pointers,
        plan,
        **bind_gemm_pointers(a, 128, GemmConfig(block_n=64, num_warps=4, num_ctas=8)),
        strategy=syncopate.Strategy(realization=realization),
        target=target,
    )


@pytest.mark.parametrize("target", ["sm_80", "sm_89"])
def test_older_targets_have_no_colocated_roles(target):
    for realization in ("copy_engine", "ldst_dedicated"):
        assert pointer_program(target, realization).image.cubin
    with pytest.raises(syncopate.SyncopateError, match="ldst_colocated needs; use ldst_dedicated"):
        pointer_program(target, "ldst_colocated")


def test_newer_targets_compile():
    for realization in ("copy_engine", "ldst_dedicated", "ldst_colocated"):
        assert pointer_program("sm_100", realization).image.cubin
        assert build(
            target="sm_100", strategy=syncopate.Strategy(realization=realization)
        ).image.cubin


def test_rows_that_tma_cannot_address_are_named():
    plan, a = all_gather(2, (512, 250))
    with pytest.raises(
        syncopate.SyncopateError, match=r"'a_desc'.*multiple of 16 bytes.*strides \[250, 1\]"
    ):
        syncopate.compile(gemm, plan, **bind_gemm(a, 256, SMALL))


def test_names_of_tensors_are_told_apart():
    plan, a = all_gather(2, (512, 256))
    arguments = bind_gemm(a, 256, SMALL)
    for name, message in (
        ("a", "has the name of a buffer"),
        ("c", "different tensors of the name"),
    ):
        other = syncopate.Tensor(name, (256, 256), "bf16")
        bind = {**arguments["bind"], "b_desc": syncopate.Descriptor(other, (64, 64))}
        with pytest.raises(syncopate.SyncopateError, match=message):
            syncopate.compile(gemm, plan, **{**arguments, "bind": bind})


def test_errors_of_the_binding_point_at_the_call():
    plan, a = all_gather(2, (512, 256))
    with pytest.raises(syncopate.PlanError, match=r"test_compile\.py:\d+: .*grid sizes") as caught:
        syncopate.compile(gemm, plan, **{**bind_gemm(a, 256, SMALL), "tiles": (4, 0)})
    line = int(str(caught.value).split(".py:")[1].split(":")[0])
    assert line == caught.traceback[0].lineno + 1


@triton.jit
def broken(a_desc, TILE: tl.constexpr):
    m, _ = sy.tile(tl.program_id(0), tl.program_id(0))
    a_desc.load([m * TILE, 0]) + nowhere  # noqa: F821


def test_errors_of_triton_show_the_kernels_own_line():
    plan, a = all_gather(2, (256, 64))
    bind = {"a_desc": syncopate.Descriptor(a, (64, 64)), "TILE": 64}
    with pytest.raises(
        syncopate.SyncopateError, match=r"(?s)kernel broken: .*nowhere is not"
    ) as caught:
        syncopate.compile(broken, plan, bind=bind, tiles=(4,), ctas=4)
    assert "sy_kernel" not in str(caught.value)


def test_buffer_of_another_plan_is_refused():
    plan, _ = all_gather(2, (512, 256))
    _, foreign = all_gather(2, (512, 256))
    with pytest.raises(syncopate.SyncopateError, match="buffer 'a' of another plan"):
        syncopate.compile(gemm, plan, **bind_gemm(foreign, 256, SMALL))


def test_import_needs_neither_torch_nor_triton():
    code = "import sys, syncopate; assert not {'torch', 'triton', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
    code = "import sys; sys.modules['torch'] = None; import syncopate.compiler, syncopate.plan, syncopate.runtime"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_machine_code_there_is_all_but_that():
    program = build()
    module = build(machine_code=False)
    assert module.ir["ttgir"] == program.ir["ttgir"]
    assert "ptx" not in module.ir
    assert module.image.arguments == program.image.arguments
    assert module.image.descriptors == program.image.descriptors
    assert module.tile_shape == program.tile_shape
    with pytest.raises(
        syncopate.SyncopateError, match=r"compiled with machine_code=False; compile it anew"
    ):
        syncopate.runtime.load(module, group=None)
    # Nothing of it is taken for machine code.
    assert build().image.cubin == program.image.cubin


def test_program_simulates_itself():
    result = build(world=2, shape=(256, 128, 128)).simulate(calls=2, seed=3)
    assert result.verdict.ok, result.verdict.findings


FACTOR = tl.constexpr(2)


@triton.jit
def scale_by_global(a_desc, c_desc, TILE: tl.constexpr):
    m, _ = sy.tile(tl.program_id(0), tl.program_id(0))
    c_desc.store([m * TILE, 0], (a_desc.load([m * TILE, 0]) * FACTOR).to(c_desc.dtype))


def test_global_that_changes_is_refused(monkeypatch):
    def compile_it() -> Any:
        plan, a = all_gather(2, (256, 64))
        out = syncopate.Tensor("c", (256, 64), "bf16", output=True)
        bind = {
            "a_desc": syncopate.Descriptor(a, (64, 64)),
            "c_desc": syncopate.Descriptor(out, (64, 64)),
            "TILE": 64,
        }
        strategy = syncopate.Strategy(realization="copy_engine")
        return syncopate.compile(
            scale_by_global, plan, bind=bind, tiles=(4,), ctas=4, strategy=strategy
        )

    compile_it()
    monkeypatch.setitem(globals(), "FACTOR", tl.constexpr(5))
    with pytest.raises(syncopate.SyncopateError, match="global FACTOR has changed"):
        compile_it()


@triton.jit
def add_twice(a_desc, b_desc, c_desc, TILE: tl.constexpr):
    m, _ = sy.tile(tl.program_id(0), tl.program_id(0))
    total = a_desc.load([m * TILE, 0]) + b_desc.load([m * TILE, 0])
    c_desc.store([m * TILE, 0], total.to(c_desc.dtype))


def test_buffer_with_two_arguments_is_staged():
    plan, a = all_gather(2, (256, 64))
    out = syncopate.Tensor("c", (256, 64), "bf16", output=True)
    described = syncopate.Descriptor(a, (64, 64))
    bind = {
        "a_desc": described,
        "b_desc": described,
        "c_desc": syncopate.Descriptor(out, (64, 64)),
        "TILE": 64,
    }
    program = syncopate.compile(
        add_twice,
        plan,
        bind=bind,
        tiles=(4,),
        ctas=4,
        strategy=syncopate.Strategy(realization="copy_engine"),
    )
    assert program.localized is None
    assert program.simulate(calls=2).verdict.ok


@pytest.mark.parametrize(
    "wrong", [("", (4, 4)), ("c", (4, 0)), ("c", (4, -4)), ("c", ()), ("c", (2**40, 2**40))]
)
def test_tensors_check_what_they_are(wrong):
    with pytest.raises(syncopate.SyncopateError, match=r"tensor.*expects"):
        syncopate.Tensor(*wrong, "bf16")


def test_more_ctas_than_are_resident_are_refused():
    """They wait for each other's part of every transfer, so all have to be on the machine at once."""
    many = GemmConfig(block_m=64, block_n=64, num_warps=4, num_ctas=2000)
    with pytest.raises(
        syncopate.BudgetError, match=r"2000 CTAs that wait for each other, .* room for \d+"
    ):
        build(config=many, shape=(512, 512, 256))
