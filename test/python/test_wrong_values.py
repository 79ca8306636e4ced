"""Values that no argument takes: the project's own error, before anything is changed or compiled."""

import re

import numpy as np
import pytest

import syncopate
import syncopate.runtime
from syncopate.compiler.target import Target
from syncopate.errors import PlanError, SyncopateError
from syncopate.ir import new_context, parse, run_pipeline
from syncopate.kernels import GemmConfig, bind_gemm, gemm
from syncopate.sim.findings import SimulationError
from syncopate.sim.translate import translate
from syncopate.workloads import AttentionWorkload, GemmWorkload


def new_plan():
    plan = syncopate.Plan("p", [2])
    return plan, plan.buffer("a", (128, 128), "bf16", shard_axis=0)


def bind_and_compile(**options):
    plan, a = new_plan()
    return syncopate.compile(gemm, plan, **bind_gemm(a, 128, GemmConfig(), **options))


def refuses(message):
    return pytest.raises(SyncopateError, match=re.escape(message))


@pytest.mark.parametrize("dtype", ["", "f32 ", "tensor<4xf32>", "!chunk.token", "none"])
def test_buffer_takes_element_types_only(dtype):
    plan, _ = new_plan()
    with refuses("dtype"):
        plan.buffer("b", (8,), dtype)


@pytest.mark.parametrize(
    "make",
    [
        lambda dtype: new_plan()[0].buffer("b", (8,), dtype),
        lambda dtype: (lambda plan, a: plan.reduce_scatter(a, reduction=dtype))(*new_plan()),
        lambda dtype: bind_and_compile(out_dtype=dtype),
        lambda dtype: GemmWorkload("ag_gemm", 64, 64, 64, world_size=2, dtype=dtype),
        lambda dtype: AttentionWorkload("ring", 2, 2, 64, 64, 2, dtype=dtype),
    ],
)
def test_long_names_are_shortened(make):
    with pytest.raises(SyncopateError) as caught:
        make("long" * 1000)
    assert "longlong" in str(caught.value)
    assert len(str(caught.value)) < 300


def test_refused_buffer_leaves_the_plan_as_it_was():
    plan, _ = new_plan()
    before = plan.text
    with refuses("axis: expects a dimension of buffer b in [0, 1), but got 1"):
        plan.buffer("b", (8,), "f32", shard_axis=1)
    assert plan.text == before
    plan.buffer("b", (8,), "f32", shard_axis=0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda plan, a: syncopate.Plan("\udc80", [2]), "name: expects text"),
        (lambda plan, a: syncopate.Plan("p", np.array(2)), "mesh: expects a sequence of integers"),
        (lambda plan, a: a[0 : 4 : np.arange(2)], "index of buffer a: expects an integer"),
        (lambda plan, a: plan.all_gather(a, algorithm=np.arange(2)), "algorithm: expects one of"),
        (lambda plan, a: plan.all_gather(a, algorithm=["ring"]), "algorithm: expects one of"),
        (lambda plan, a: plan.all_gather(a, after=np.array(1)), "after: expects a sequence"),
    ],
)
def test_plan_refuses(call, message):
    with refuses(message):
        call(*new_plan())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda a: syncopate.Strategy(order=np.arange(2)), "order: expects one of"),
        (lambda a: Target(capability="90"), "capability: expects an integer, but got '90'"),
        (lambda a: Target(num_sms=None), "num_sms: expects an integer, but got None"),
        (lambda a: syncopate.Tensor("b", 8, "f32"), "expects a shape of positive integers"),
        (lambda a: syncopate.Tensor("b", (8,), "f32", strides=()), "expects a strides of positive"),
        (lambda a: syncopate.Tensor("b", (8,), "f32", strides=(1, 1)), "expects 1 strides"),
        (lambda a: syncopate.Tensor("b", (8,), 32), "expects a dtype such as 'bf16'"),
        (lambda a: syncopate.Tensor("b", (8,), "f32", output=1), "output expects a bool"),
        (lambda a: syncopate.Descriptor("a", (8, 8)), "descriptor: expects a buffer of the plan"),
        (lambda a: syncopate.Descriptor(a, 8), "expects a block of positive integers, but got 8"),
        (lambda a: syncopate.Descriptor(a, (48, 64)), "expects a block of powers of two"),
        (lambda a: bind_gemm("a", 64, GemmConfig()), "a: expects a buffer of the plan or a Tensor"),
        (lambda a: syncopate.Pointer(None), "pointer: expects a buffer of the plan"),
        (lambda a: syncopate.Footprint(1, len, (8,)), "expects the name of a parameter"),
        (lambda a: syncopate.Footprint("a", 1, (8,)), "offsets to be a function"),
        (lambda a: syncopate.Footprint("a", len, (2**63,)), "sizes of positive integers"),
        (lambda a: syncopate.Footprint("a", len, (8,), ["read"]), "access expects read or write"),
    ],
)
def test_choices_refuse(make, message):
    _, a = new_plan()
    with refuses(message):
        make(a)


def test_missing_torch_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for use in (Target.current, lambda: syncopate.runtime.ProcessGroup()):
        with refuses("pip install 'syncopate-compiler[torch]'") as refused:
            use()
        assert isinstance(refused.value, ImportError)


@pytest.mark.parametrize(
    "text",
    [
        'chunk.plan @"\\FF" mesh [2] {}',
        'chunk.plan @p mesh [2] { %a = chunk.buffer "\\FF" : !chunk.buffer<4xf32> }',
        'chunk.plan @p mesh [2] { chunk.kernel @"\\FF" tiles [1] ctas 1 args() {} }',
        """chunk.plan @p mesh [2] {
          %a = chunk.buffer "a" : !chunk.buffer<4xf32>
          chunk.kernel @k tiles [1] ctas 1 args(%a as "\\FF") : !chunk.buffer<4xf32> {}
        }""",
    ],
)
def test_names_that_are_no_text_are_refused(text):
    with pytest.raises(PlanError, match=r'expects names in UTF-8, but got "\\FF"'):
        parse(text, new_context())


def test_message_that_is_no_text_is_an_error_all_the_same():
    with pytest.raises(PlanError, match="expects strings in UTF-8"):
        parse(
            'module { func.func private @"\\FF"() \n func.func private @"\\FF"() }', new_context()
        )


def test_error_that_the_parser_overlooks_is_an_error():
    text = 'chunk.plan @p mesh [2] { %a = chunk.buffer "a" : !chunk.buffer<4xf32>"\n}'
    with pytest.raises(PlanError, match="-:1: expected '\"' in string literal"):
        parse(text, new_context())


def test_text_that_is_none_is_refused_with_its_line():
    with pytest.raises(PlanError, match=r"^-:2: expects text, but got '\\udc80'$"):
        parse("\n\udc80", new_context())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("module {", "malformed"),
        (
            '"tt.func"() ({}) {sym_name = "k"} : () -> ()',
            "expects one block in a function, but got 0",
        ),
        (
            """"tt.func"() ({
              %0 = "arith.constant"() : () -> i32
              "tt.return"() : () -> ()
            }) {sym_name = "k"} : () -> ()""",
            "requires attribute 'value'",
        ),
        (
            """"tt.func"() ({
            ^bb0(%a: i32):
              %0 = "tt.load"(%a) : (i32) -> i32
              "tt.return"() : () -> ()
            }) {sym_name = "k"} : () -> ()""",
            "does not know this form of tt.load",
        ),
    ],
)
def test_simulator_refuses_kernels_that_triton_does_not_write(text, message):
    with pytest.raises(SimulationError, match=message):
        translate(text)


GATHER = """chunk.plan @p mesh [{ranks}] {{
  %a = chunk.buffer "a" : !chunk.buffer<{ranks}x4xf32>
  %t = chunk.all_gather %a axis 0 group [{group}] : !chunk.buffer<{ranks}x4xf32>
}}"""


def test_collective_of_too_many_transfers_is_refused():
    text = GATHER.format(ranks=1025, group=", ".join(map(str, range(1025))))
    with pytest.raises(PlanError, match=r"at most 1048576 transfers, but .* it has 1049600"):
        run_pipeline(parse(text, new_context()), "chunk.plan(chunk-decompose-collectives)")


def test_splits_into_too_many_transfers_are_refused():
    puts = "\n".join(
        f"%t{i} = chunk.put %a[0] to %b[0] sizes [4096] from 0 to 1 : !b to !b" for i in range(257)
    )
    text = f"""!b = !chunk.buffer<4096xf32>
    chunk.plan @p mesh [2] {{
      %a = chunk.buffer "a" : !b
      %b = chunk.buffer "b" : !b
      {puts}
    }}"""
    module = parse(text, new_context())
    with pytest.raises(PlanError, match="at most 1048576 transfers, but splits = 4096 would make"):
        run_pipeline(module, "chunk.plan(chunk-split-transfers{splits=4096})")
