"""The plans of benchmark/imported_plans.py, in the forms that other systems give them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from benchmark.common.plain_plan import PlainPlan, cut_kernel, read_plain_plan

import syncopate
from syncopate import GemmWorkload, Plan, Strategy, Tensor
from syncopate.compiler import Program
from syncopate.importers import Exchange, Imported, read_exchanges, split_all_reduce
from syncopate.kernels import GemmConfig, bind_gemm, gemm
from syncopate.model.schedules import schedule_gemm
from syncopate.plan.schedule import Schedule
from syncopate.strategy_names import name_strategy

__all__ = ["CASES", "DOMINO_SPLITS", "Case", "Way", "make_case", "mercury_loops", "mlp_hlo"]

DOMINO_SPLITS: Final = (2, 2)
"""Rows of a batch, and columns of a weight."""


@dataclass(frozen=True)
class Way:
    """A fused program of a case.

    Attributes:
        strategy: What the plan leaves open.
        of_workload: Whether it is the program of the case's workload, and not of the plan.
    """

    strategy: Strategy
    of_workload: bool = False

    @property
    def name(self) -> str:
        """For tables."""
        return ("workload " if self.of_workload else "") + name_strategy(self.strategy)


@dataclass(frozen=True)
class Case:
    """A GEMM of each rank, C = A Bᵀ, with what an imported plan moves before or behind it.

    Attributes:
        name: For tables.
        system: Where the form of the plan comes from.
        ranks: Number of ranks.
        shape: M, N and K of the GEMM of one rank.
        collective: all_gather of A, or reduce_scatter or all_reduce of C.
        make: Builds the plan anew.
        transpose_b: Whether B is [K, N].
        workload: The workload that the file's collective and product are, if they are one: the file says what moves,
            and not in which steps, so that these may be any that a workload has.
        cuts: Into how many rows and columns of pieces the plain execution cuts the GEMM; without, into the blocks of
            the ranks, each in as many pieces as a transfer.
    """

    name: str
    system: str
    ranks: int
    shape: tuple[int, int, int]
    collective: str
    make: Callable[[], Imported]
    transpose_b: bool = False
    workload: GemmWorkload | None = None
    cuts: tuple[int, int] | None = None

    @property
    def reads(self) -> bool:
        """Whether A is what moves."""
        return self.collective == "all_gather"

    @property
    def splits(self) -> tuple[int, ...]:
        """Into how many pieces the plain execution may cut each transfer, and its part of the GEMM."""
        return (1, 2, 4) if self.cuts is None else (1,)

    def compile(self, way: Way, config: GemmConfig) -> tuple[Program, str]:
        """A program, and by what name a call takes A; B is `b`."""
        if way.of_workload:
            assert self.workload is not None
            return self.workload.compile(way.strategy, config=config), "a"
        imported, (m, n, k) = self.make(), self.shape
        a = imported.result if self.reads else Tensor("a", (m, k), "bf16")
        c = None if self.reads else imported.given
        bound = bind_gemm(a, n, config, c=c, transpose_b=self.transpose_b)
        program = syncopate.compile(gemm, imported.plan, **bound, strategy=way.strategy)
        return program, imported.given.name if self.reads else "a"

    def schedule(self, way: Way, config: GemmConfig) -> Schedule:
        """What the passes make of that program, without its code."""
        if way.of_workload:
            assert self.workload is not None
            return self.workload.schedule(way.strategy, config)
        imported, (_, n, k) = self.make(), self.shape
        a, c = (imported.result, None) if self.reads else (None, imported.given)
        return schedule_gemm(imported.plan, n, config, way.strategy, k=k, a=a, c=c)

    def read(self, splits: int) -> PlainPlan:
        """The plain execution, whose transfers are in so many pieces."""
        imported = self.make()
        moved = imported.result if self.reads else imported.given
        rows, columns = self.cuts or (self.ranks * splits, 1)
        kernel = cut_kernel(moved.name, moved.shape, self.reads, rows, columns)
        return read_plain_plan(imported.plan.text, kernel, splits)

    def read_sequence(self) -> PlainPlan:
        """The same one after another: the GEMM is one piece."""
        imported = self.make()
        moved = imported.result if self.reads else imported.given
        kernel = cut_kernel(moved.name, moved.shape, self.reads, 1)
        return read_plain_plan(imported.plan.text, kernel)


def mlp_hlo(ranks: int, m: int, hidden: int, part: int) -> str:
    """An MLP block as XLA prints it behind its partitioner, rows of its input and of its result cut among all ranks.

    Args:
        ranks: Number of ranks.
        m: Rows.
        hidden: Columns of input and result.
        part: Columns between the products that one rank has.
    """
    group = "{{" + ",".join(map(str, range(ranks))) + "}}"
    mine, whole = f"bf16[{m // ranks},{hidden}]{{1,0}}", f"bf16[{m},{hidden}]{{1,0}}"
    inner, up, down = (
        f"bf16[{a},{b}]{{1,0}}" for a, b in ((m, part), (hidden, part), (part, hidden))
    )
    about = f"replica_groups={group}, dimensions={{0}}, use_global_device_ids=true"
    dot = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    return f"""HloModule jit_mlp, entry_computation_layout={{()->()}}, num_partitions={ranks}

%add (x: bf16[], y: bf16[]) -> bf16[] {{
  %x = bf16[] parameter(0)
  %y = bf16[] parameter(1)
  ROOT %sum = bf16[] add(%x, %y)
}}

ENTRY %main_spmd (x.1: {mine}, up.1: {up}, down.1: {down}) -> {mine} {{
  %x.1 = {mine} parameter(0)
  %up.1 = {up} parameter(1)
  %down.1 = {down} parameter(2)
  %all-gather.1 = {whole} all-gather(%x.1), channel_id=1, {about}
  %dot.1 = {inner} dot(%all-gather.1, %up.1), {dot}
  %tanh.1 = {inner} tanh(%dot.1)
  %dot.2 = {whole} dot(%tanh.1, %down.1), {dot}
  ROOT %reduce-scatter.1 = {mine} reduce-scatter(%dot.2), channel_id=2, {about}, to_apply=%add
}}
"""


def mercury_loops(ranks: int, m: int, columns: int, sums: bool) -> str:
    """A loop of Mercury's with one access, in a ring of all ranks: a load of rows of A, or a sum of rows of C."""
    ring = {"axis": "I", "num_cards": ranks, "shard_dim": 0, "write_back": sums}
    access: dict[str, Any] = {"node": "BufferLoad", "buffer": "X", "comm": [ring]}
    if sums:
        access |= {"node": "ReduceOp", "op": "sum", "shard_dim": [0]}
    buffer = {
        "tensor": "X",
        "shape": [m // ranks, columns],
        "dtype": "bfloat16",
        "shard_spec": [[0], "R"],
    }
    loop = {"node": "GridLoop", "axes": ["I"], "axis_types": "s", "body": [access]}
    return json.dumps(
        {
            "mesh": [ranks],
            "axes": [{"name": "I", "size": m}],
            "buffers": [buffer],
            "body": [loop, {"node": "PyNode"}],
        }
    )


def _gspmd(number: int, ranks: int, m: int, hidden: int, part: int) -> Case:
    exchange = read_exchanges(mlp_hlo(ranks, m, hidden, part), "hlo", "mlp.hlo")[number]
    assert isinstance(exchange, Exchange) and exchange.gemm is not None
    found = exchange.gemm
    name, collective = (("up", "all_gather"), ("down", "reduce_scatter"))[number]
    shape = found.m, found.n, found.k
    return Case(
        f"gspmd {name}", "GSPMD/Alpa", ranks, shape, collective, exchange.build, found.transpose_b,
        found.workload,
    )  # fmt: skip


def _domino(ranks: int, m: int, hidden: int, part: int) -> Case:
    rows, columns = DOMINO_SPLITS

    def make() -> Imported:
        plan = Plan("domino", mesh=[ranks])
        c = plan.buffer("c", (m, hidden), "bf16")
        split_all_reduce(plan, c, row_splits=rows, column_splits=columns)
        return Imported(plan, c, c)

    return Case(
        "domino", "Domino", ranks, (m, hidden, part), "all_reduce", make, cuts=DOMINO_SPLITS
    )


def _mercury(sums: bool, ranks: int, m: int, hidden: int, part: int) -> Case:
    (ring,) = read_exchanges(mercury_loops(ranks, m, hidden, sums), "mercury-json", "ring.json")
    name, collective = ("ring of sums", "reduce_scatter") if sums else ("ring", "all_gather")
    shape = (m, hidden, part) if sums else (m, part, hidden)
    return Case(f"mercury {name}", "Mercury", ranks, shape, collective, ring.build)


_MAKERS: Final[Mapping[str, Callable[..., Case]]] = {
    "gspmd-up": lambda *sizes: _gspmd(0, *sizes),
    "gspmd-down": lambda *sizes: _gspmd(1, *sizes),
    "domino": _domino,
    "mercury-ring": lambda *sizes: _mercury(False, *sizes),
    "mercury-sums": lambda *sizes: _mercury(True, *sizes),
}
CASES: Final = tuple(_MAKERS)


def make_case(name: str, ranks: int, m: int, hidden: int, part: int) -> Case:
    """A case by its name; the sizes are those of `mlp_hlo`."""
    return _MAKERS[name](ranks, m, hidden, part)
