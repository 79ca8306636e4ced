"""Cases for the Python API: right calls with one argument or two of a wrong type or value."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
from fuzz_outcomes import Finding, Outcome

import syncopate
from syncopate.compiler.target import Target
from syncopate.errors import SyncopateError
from syncopate.kernels import GemmConfig, gemm
from syncopate.kernels.bind import bind_gemm

__all__ = ["make_call", "run_call"]

CONFIG = GemmConfig(block_m=64, block_n=64, num_warps=4, num_ctas=2)


class _Odd:
    """An object that nothing expects."""

    def __repr__(self) -> str:
        return "<odd>"


def _values() -> list[Any]:
    """Values that some argument may be surprised by."""
    numbers = [
        0,
        1,
        2,
        -1,
        3,
        7,
        128,
        2**31,
        2**62,
        2**63,
        -(2**63),
        10**30,
        True,
        0.5,
        -0.0,
        1e308,
    ]
    texts = [
        "",
        "x",
        "a",
        "é",
        "\0",
        "\udc80",
        '"',
        "a b",
        "f32",
        "bf16",
        "i3",
        "tensor<4xf32>",
        "copy_engine",
        "read",
    ]
    lists: list[Any] = [
        [],
        (),
        [1],
        [128, 128],
        [0, 0],
        [1, 2, 3, 4],
        ["a"],
        [None],
        [[1]],
        [1.0],
        {},
        {"a": 1},
        {1},
    ]
    others = [
        None,
        float("nan"),
        float("inf"),
        b"x",
        _Odd(),
        object,
        len,
        lambda *_: None,
        lambda m, n: (m * 64, 0),
    ]
    arrays = [np.int64(4), np.float32(1), np.arange(2), np.array(1), range(2), iter([1])]
    return [*numbers, *texts, *lists, *others, *arrays, slice(None), ..., NotImplemented]


def _plan() -> tuple[Any, Any]:
    plan = syncopate.Plan("p", [2])
    a = plan.buffer("a", (128, 128), "bf16", shard_axis=0)
    return plan, a


def make_call(draw: random.Random) -> Any:
    """What to call, and which arguments get which value."""
    what = draw.choice(list(_CALLS))
    return what, [
        (draw.random(), draw.randrange(len(_values()))) for _ in range(draw.choice([1, 1, 1, 2]))
    ]


def _buffer(plan: Any, a: Any) -> tuple[Any, dict[str, Any]]:
    return plan.buffer, {"name": "b", "shape": (8, 8), "dtype": "f32", "shard_axis": 0}


def _input(plan: Any, a: Any) -> tuple[Any, dict[str, Any]]:
    return plan.input, {"chunk": a[0:4], "rank": 0}


def _put(plan: Any, a: Any) -> tuple[Any, dict[str, Any]]:
    arguments = {
        "src": a[0:4],
        "dst": a[0:4],
        "src_rank": 0,
        "dst_rank": 1,
        "after": (),
        "realization": None,
    }
    return plan.put, arguments


def _get(plan: Any, a: Any) -> tuple[Any, dict[str, Any]]:
    return plan.get, _put(plan, a)[1]


def _gather(plan: Any, a: Any) -> tuple[Any, dict[str, Any]]:
    return plan.all_gather, {
        "buffer": a,
        "axis": 0,
        "group": [0, 1],
        "after": (),
        "algorithm": "ring",
        "direction": "pull",
    }


def _broadcast(plan: Any, a: Any) -> tuple[Any, dict[str, Any]]:
    return plan.broadcast, {
        "buffer": a,
        "root": 1,
        "group": [1, 0],
        "after": (),
        "algorithm": "ring",
    }


def _all_to_all(plan: Any, a: Any) -> tuple[Any, dict[str, Any]]:
    b = plan.buffer("b", a.shape, a.dtype)
    return plan.all_to_all, {"src": a, "dst": b, "axis": 0, "group": [0, 1], "direction": "pull"}


def _spmd(plan: Any, a: Any) -> tuple[Any, dict[str, Any]]:
    def transfer(group: Any, begin: Any, end: Any, peer: Any, after: Any, reduction: Any) -> None:
        with plan.spmd(group) as each:
            first = each.put(a[each.member], a[each.member], peer=1 - each.member)
            after = [first] if after is None else after
            each.get(a[begin:end], a[begin:end], peer=peer, after=after, reduction=reduction)

    return transfer, {
        "group": [0, 1],
        "begin": 2,
        "end": 4,
        "peer": 0,
        "after": None,
        "reduction": "max",
    }


def _index(plan: Any, a: Any) -> tuple[Any, dict[str, Any]]:
    def index(start: Any, stop: Any, step: Any, entry: Any) -> Any:
        return a[slice(start, stop, step), entry]

    return index, {"start": 0, "stop": 4, "step": None, "entry": 2}


def _index_once(plan: Any, a: Any) -> tuple[Any, dict[str, Any]]:
    return a.__getitem__, {"index": slice(0, 4)}


def _new_plan(plan: Any, a: Any) -> tuple[Any, dict[str, Any]]:
    return syncopate.Plan, {"name": "p", "mesh": [2]}


def _strategy(plan: Any, a: Any) -> tuple[Any, dict[str, Any]]:
    names = ("algorithm", "direction", "realization", "splits", "order", "group_m", "pause")
    return syncopate.Strategy, {name: getattr(syncopate.Strategy(), name) for name in names}


def _footprint(plan: Any, a: Any) -> tuple[Any, dict[str, Any]]:
    arguments = {
        "argument": "a",
        "offsets": lambda m, n: (m * 64, 0),
        "sizes": (64, 128),
        "access": "read",
    }
    return syncopate.Footprint, arguments


def _tensor(plan: Any, a: Any) -> tuple[Any, dict[str, Any]]:
    return syncopate.Tensor, {
        "name": "b",
        "shape": (8, 8),
        "dtype": "f32",
        "output": False,
        "strides": (8, 1),
    }


def _target(plan: Any, a: Any) -> tuple[Any, dict[str, Any]]:
    return Target, {"capability": 90, "num_sms": 132}


def _parse_target(plan: Any, a: Any) -> tuple[Any, dict[str, Any]]:
    return Target.parse, {"target": "sm_90"}


def _compile(plan: Any, a: Any) -> tuple[Any, dict[str, Any]]:
    plan.all_gather(a)
    arguments: dict[str, Any] = {
        "kernel": gemm,
        "plan": plan,
        "strategy": syncopate.Strategy(),
        "target": "sm_90",
        "footprints": (),
        "timeout": 60.0,
        **bind_gemm(a, 128, CONFIG),
    }
    return syncopate.compile, arguments


def _compile_bound(plan: Any, a: Any) -> tuple[Any, dict[str, Any]]:
    """`compile` with what is bound to a parameter, or an option of Triton's, changed."""
    call, known = _compile(plan, a)
    bind, options = dict(known["bind"]), dict(known["options"])

    def compile_bound(**changed: Any) -> Any:
        new = {name: changed[f"bind_{name}"] for name in bind}
        chosen = {name: changed[f"option_{name}"] for name in options}
        return call(**{**known, "bind": new, "options": chosen})

    return compile_bound, {
        **{f"bind_{name}": value for name, value in bind.items()},
        **{f"option_{name}": value for name, value in options.items()},
    }


def _compile_footprint(plan: Any, a: Any) -> tuple[Any, dict[str, Any]]:
    """`compile` with a footprint by hand."""
    call, known = _compile(plan, a)

    def compile_footprint(**changed: Any) -> Any:
        return call(**{**known, "footprints": [syncopate.Footprint(**changed)]})

    name = next(
        name for name, value in known["bind"].items() if getattr(value, "source", None) is a
    )
    return compile_footprint, {**_footprint(plan, a)[1], "argument": name}


def _descriptor(plan: Any, a: Any) -> tuple[Any, dict[str, Any]]:
    """`compile` with another descriptor."""
    call, known = _compile(plan, a)
    bind: Mapping[str, Any] = known["bind"]
    name = next(name for name, value in bind.items() if getattr(value, "source", None) is a)

    def compile_descriptor(**changed: Any) -> Any:
        return call(**{**known, "bind": {**bind, name: syncopate.Descriptor(**changed)}})

    return compile_descriptor, {"source": a, "block": bind[name].block}


def _pointer(plan: Any, a: Any) -> tuple[Any, dict[str, Any]]:
    """`compile` with a pointer where a descriptor belongs."""
    call, known = _compile(plan, a)
    name = next(
        name for name, value in known["bind"].items() if getattr(value, "source", None) is a
    )

    def compile_pointer(**changed: Any) -> Any:
        return call(**{**known, "bind": {**known["bind"], name: syncopate.Pointer(**changed)}})

    return compile_pointer, {"source": a}


_CALLS = {
    function.__name__: function
    for function in (
        _buffer,
        _input,
        _put,
        _get,
        _gather,
        _broadcast,
        _all_to_all,
        _spmd,
        _index,
        _index_once,
        _new_plan,
        _strategy,
        _footprint,
        _tensor,
        _target,
        _parse_target,
        _compile,
        _compile_bound,
        _compile_footprint,
        _descriptor,
        _pointer,
    )
}


def run_call(draw: random.Random, made: Any) -> Outcome:
    """Calls; only the project's own errors may come back, and a plan stays as it was when it refuses something."""
    what, changes = made
    plan, a = _plan()
    call, arguments = _CALLS[what](plan, a)
    before = plan.text
    for where, value in changes:
        arguments[sorted(arguments)[int(where * len(arguments))]] = _values()[value]
    try:
        call(**arguments)
    except SyncopateError as error:
        if not str(error).strip():
            raise Finding("refused without a message") from None
        if plan.text != before:
            raise Finding("what was refused has changed the plan") from None
        return Outcome.REFUSED_AT_ONCE
    if not syncopate.Plan("q", [2]).text:
        raise Finding("the next plan is empty")
    # What the builder has accepted is a plan that can be read again.
    _ = plan.text_with_locations
    return Outcome.ACCEPTED
