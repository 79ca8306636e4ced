"""What `test_torch_operators.py` checks of attention on two processes; each function is one check."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch_cases import CPU, OPERATORS, Setting, close, everywhere, expect_error, world_name

import syncopate.torch as st
from syncopate.kernels import AttentionConfig
from syncopate.plan.sequence import SequenceShards, Sharding
from syncopate.torch import calls, fused, programs, reference
from syncopate.workloads import AttentionGradients, loaded_gradients, sequence_inputs
from syncopate.workloads.loaded_gradients import LoadedGradients


def check_attention() -> None:
    """Against float64 on the whole sequence, of which each rank has some rows; and what fake tensors give."""
    rank, world = dist.get_rank(), dist.get_world_size()
    rows, head_dim = 6, 8
    every = [everywhere(torch.randn(rows, heads, head_dim)) for heads in (4, 2, 2)]
    q, k, v = (each[rank] for each in every)
    for causal, zigzag in itertools.product((False, True), repeat=2):
        sharding = Sharding.ZIGZAG if zigzag else Sharding.CONTIGUOUS
        shards = SequenceShards(rows * world, world, sharding)
        places = [torch.from_numpy(shards.positions(each)).long() for each in range(world)]
        keys, values = (
            torch.cat(each).double().repeat_interleave(2, 1).transpose(0, 1) for each in every[1:]
        )
        scores = q.double().transpose(0, 1) @ keys.transpose(1, 2) / head_dim**0.5
        if causal:
            scores[:, torch.cat(places)[None, :] > places[rank][:, None]] = float("-inf")
        right = (scores.softmax(2) @ values).transpose(0, 1)
        o, lse = st.ring_attention(q, k, v, dist.group.WORLD, causal=causal, zigzag=zigzag)
        close(o, right, 1e-5)
        close(lse, scores.logsumexp(2), 1e-5)
        if not zigzag:
            close(st.ulysses_attention(q, k, v, dist.group.WORLD, causal=causal), right, 1e-5)
    tests = ("test_schema", "test_faketensor")
    torch.library.opcheck(
        torch.ops.syncopate.ring_attention.default,
        (q, k, v, True, True, world_name(), ""),
        test_utils=tests,
    )
    torch.library.opcheck(
        torch.ops.syncopate.ulysses_attention.default,
        (q, k, v, True, world_name(), ""),
        test_utils=tests,
    )
    for call, text in (
        (
            lambda: st.ring_attention(q, k[:, :1], v, dist.group.WORLD),
            "v: expects [6, kv_heads, 8]",
        ),
        (lambda: st.ring_attention(q[:, :3], k, v, dist.group.WORLD), "q: expects a multiple of"),
        (
            lambda: st.ring_attention(q, k[:, :0], v[:, :0], world_name()),
            "q: expects a multiple of",
        ),
        (lambda: st.ring_attention(q[:0], k[:0], v[:0], world_name()), "q: expects elements"),
        (lambda: st.ring_attention(q.int(), k.int(), v.int(), world_name()), "q: expects floating"),
        (
            lambda: st.ulysses_attention(q[:, :1], k[:, :1], v[:, :1], dist.group.WORLD),
            "q: expects",
        ),
    ):
        expect_error(call, text)


@dataclass(frozen=True)
class Attended:
    """Queries, keys and values of which each rank has some rows.

    Attributes:
        rows: Of each rank.
        heads: Of queries, and of keys and values.
        head_dim: Elements of a head.
        setting: Their type and place, and how wrong gradients may be.
    """

    rows: int = 6
    heads: tuple[int, int] = (4, 2)
    head_dim: int = 8
    setting: Setting = CPU

    def draw(self, number: int) -> list[torch.Tensor]:
        """A tensor for queries, one for keys, one for values, and so on."""
        each = itertools.islice(
            itertools.cycle([self.heads[0], self.heads[1], self.heads[1]]), number
        )
        return [self.setting.random(self.rows, heads, self.head_dim) for heads in each]


def check_attention_gradients(
    case: Attended, causal: bool, zigzag: bool, *, shares_heads: bool = False, of_lse: bool = True
) -> None:
    """Against autograd through attention of the whole sequence in float64, as one process has it.

    With `of_lse`, of a function of the logarithms, too; `shares_heads` is for `ulysses_attention`.
    """
    rank, world, rows = dist.get_rank(), dist.get_world_size(), case.rows
    q, k, v, weight = case.draw(4)
    mine = [x.requires_grad_() for x in (q, k, v)]
    if shares_heads:
        o, lse = OPERATORS.ulysses_attention(*mine, causal, world_name(), "")
    else:
        o, lse = st.ring_attention(*mine, dist.group.WORLD, causal=causal, zigzag=zigzag)
    of_logs = torch.randn(lse.shape).to(lse)
    results, weights = ([o, lse], [weight, of_logs]) if of_lse else ([o], [weight])
    made = torch.autograd.grad(results, mine, weights)

    sharding = Sharding.ZIGZAG if zigzag else Sharding.CONTIGUOUS
    shards = SequenceShards(rows * world, world, sharding)
    places = torch.cat([torch.from_numpy(shards.positions(each)).long() for each in range(world)])
    places = places.to(case.setting.device)
    order = places.argsort()
    leaves = [torch.cat(everywhere(x)).double()[order].requires_grad_() for x in mine]
    whole = [x.transpose(0, 1) for x in leaves]
    shared = case.heads[0] // case.heads[1]
    keys, values = (x.repeat_interleave(shared, 0) for x in whole[1:])
    scores = whole[0] @ keys.transpose(1, 2) * case.head_dim**-0.5
    if causal:
        behind = torch.ones(scores.shape[1:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(behind, float("-inf"))
    out = (scores.softmax(2) @ values).transpose(0, 1)
    logs = scores.logsumexp(2)
    cotangents = [torch.cat(everywhere(weight)).double()[order]]
    if of_lse:
        # One rank has all rows of some heads, or some rows of all.
        every = torch.cat(everywhere(of_logs), 0 if shares_heads else 1).double()
        cotangents.append(every if shares_heads else every[:, order])
    rights = torch.autograd.grad([out, logs][: len(cotangents)], leaves, cotangents)
    own = places[rank * rows : (rank + 1) * rows]
    tolerance = case.setting.tolerance
    close(o, out[own], tolerance)
    close(lse, logs.chunk(world)[rank] if shares_heads else logs[:, own], max(tolerance, 1e-6))
    for grad, right, x in zip(made, rights, mine, strict=True):
        close(grad, right[own], tolerance)
        assert grad.dtype == x.dtype


def check_gradients_of_attention() -> None:
    """By the reference path, in float64, in all forms; and as torch wants operators."""
    for causal, zigzag in itertools.product((False, True), repeat=2):
        check_attention_gradients(Attended(), causal, zigzag, of_lse=causal)
        if not zigzag:
            check_attention_gradients(Attended(), causal, False, shares_heads=True)
    q, k, v = (x.requires_grad_() for x in Attended().draw(3))
    torch.library.opcheck(OPERATORS.ring_attention.default, (q, k, v, True, True, world_name(), ""))
    torch.library.opcheck(OPERATORS.ulysses_attention.default, (q, k, v, True, world_name(), ""))
    o, lse = st.ring_attention(q, k, v, dist.group.WORLD)
    # Of the logarithms alone.
    (of_q,) = torch.autograd.grad(lse.sum(), q, retain_graph=True)
    assert of_q.abs().max() > 0
    (of_q,) = torch.autograd.grad(o.sum(), q, create_graph=True)
    expect_error(lambda: of_q.sum().backward(), "attention: expects no gradient of its")
    backward = OPERATORS.ring_attention_backward
    form = (False, False, world_name())
    for grad, logs, of_logs, text in (
        (o, lse.double(), None, "lse: expects torch.float32 [4, 6]"),
        (o, lse, lse[:, 1:], "grad_lse: expects torch.float32 [4, 6]"),
        (o[:3], lse, None, "grad: expects torch.float64 [6, 4, 8]"),
    ):
        expect_error(partial(backward, grad, q, k, v, o, logs, of_logs, *form), text)
    expect_error(
        lambda: OPERATORS.ulysses_attention_backward(o, q, k, v, o, lse, None, False, world_name()),
        "lse: expects torch.float32 [2, 12]",
    )
    # Under autocast, logarithms stay as they have been saved.
    mine = [x.requires_grad_() for x in Attended(setting=Setting(dtype=torch.float32)).draw(3)]
    right = torch.autograd.grad(st.ring_attention(*mine, world_name())[0].square().sum(), mine)
    with torch.autocast("cpu", torch.bfloat16):
        halves, _ = st.ring_attention(*mine, world_name())
        assert halves.dtype == torch.bfloat16
        grads = torch.autograd.grad(halves.float().square().sum(), mine)
    for grad, expected in zip(grads, right, strict=True):
        assert grad.dtype == torch.float32
        close(grad, expected, 3e-2)


class SimulatedGradients:
    """A group whose programs of gradients the simulator executes, each rank for both.

    Attributes:
        made: The names of what they compute.
    """

    def __init__(self) -> None:
        self.world_size = dist.get_world_size()
        self.local_ranks = (dist.get_rank(),)
        self.made: list[str] = []

    def device(self, rank: int) -> int:
        return 0

    def find(self, key, make, strategy):
        gradients = make()
        self.made.append(gradients.name)
        tiles = AttentionConfig(block_m=32, block_n=32, num_warps=4, num_stages=2, num_ctas=3)
        programs = gradients.compile(config_q=tiles, config_kv=tiles, machine_code=False)
        return LoadedGradients(gradients, programs, self)


class SimulatedProgram:
    """As a `LoadedProgram`, of the only local rank."""

    def __init__(self, program: Any, group: SimulatedGradients) -> None:
        self.program, self.group = program, group
        self._written: dict[str, torch.Tensor] = {}

    def check(self) -> None:
        pass

    def acquire(self) -> None:
        self._written.clear()

    def buffer(self, name: str, rank: int) -> torch.Tensor:
        (spec,) = (spec for spec in self.program.buffers if spec.name == name)
        return self._written.setdefault(name, torch.zeros(spec.shape, dtype=torch.float16))

    def __call__(self, **tensors: torch.Tensor) -> Any:
        given = {**tensors, **self._written}
        result = self.program.simulate(
            {name: [x.numpy() for x in everywhere(tensor)] for name, tensor in given.items()}
        )
        assert result.verdict.ok, result.verdict
        made = {
            name: torch.from_numpy(each[dist.get_rank()])
            for name, each in result.outputs[0].items()
        }
        # A call gives parts of buffers behind the kernel's tensors.
        given_back = [spec.name for spec in self.program.buffers if any(spec.outputs)]
        names = [name for name in ("dq", "delta") if name in made and name not in given_back]
        names += given_back
        assert sorted(names) == sorted(made), made.keys()
        return tuple(made[name] for name in names) if len(names) > 1 else made[names[0]]


def check_simulated_gradients(causal: bool, zigzag: bool, keeps: bool, shares_heads: bool) -> None:
    """Gradients of attention by the kernels that GPUs would run."""
    simulated = SimulatedGradients()
    case = Attended(34, (2, 1), 16, Setting(dtype=torch.float16, tolerance=4e-3))
    gradients = partial(AttentionGradients, keeps=keeps)
    operator = f"{'ulysses' if shares_heads else 'ring'}_attention_backward"
    with ExitStack() as changes:
        for target, name, value in (
            (programs, "_programs", lambda name: simulated),
            (calls, "AttentionGradients", gradients),
            (loaded_gradients, "load", SimulatedProgram),
            (loaded_gradients, "_upload", lambda table, device: table),
            (sequence_inputs, "check_tensor", lambda *_: None),
            (reference, operator, getattr(fused, operator)),
        ):
            changes.enter_context(patch.object(target, name, value))
        check_attention_gradients(case, causal, zigzag, shares_heads=shares_heads, of_lse=causal)
    assert len(simulated.made) == 1, simulated.made


def attention_cases() -> dict[str, Callable[[], None]]:
    """All checks by name."""
    made: dict[str, Callable[[], None]] = {
        "attention": check_attention,
        "gradients of attention": check_gradients_of_attention,
    }
    for causal, zigzag, keeps, shares_heads in (
        (True, True, False, False),
        (False, False, True, False),
        (True, False, True, True),
    ):
        words = ["causal zig-zag" if zigzag else "contiguous", *(["kept"] if keeps else [])]
        form = ", ".join([*words, *(["heads"] if shares_heads else [])])
        made[f"simulated gradients of attention, {form}"] = partial(
            check_simulated_gradients, causal, zigzag, keeps, shares_heads
        )
    return made
