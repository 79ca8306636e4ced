"""What can be tuned: a GEMM workload, or a plan with a kernel of the caller's."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Protocol

from syncopate.errors import SyncopateError
from syncopate.tune.bench import Bench
from syncopate.tune.search import Prepared, Unknown
from syncopate.tune.space import TILES, Candidate, Space, gemm_space

if TYPE_CHECKING:
    from syncopate.compiler import Program, Target
    from syncopate.kernels import GemmConfig
    from syncopate.model import KernelCost, Machine
    from syncopate.plan import Schedule
    from syncopate.workloads import GemmWorkload

__all__ = ["GemmSubject", "Subject", "fingerprint", "prepare_schedule"]

_IDLE: Final = ("timeout", "check_tables")
"""Options of a compile that neither code nor tables depend on."""

TIMEOUT: Final = 20.0
"""Seconds that a device wait of a candidate lasts at most."""


class Subject(Protocol):
    """Something to choose for."""

    @property
    def name(self) -> str:
        """For messages."""

    @property
    def data(self) -> Mapping[str, Any]:
        """What tells it apart, as plain data."""

    @property
    def world_size(self) -> int:
        """Number of ranks."""

    @property
    def target(self) -> Target:
        """What to compile for."""

    @property
    def space(self) -> Space:
        """What there is to choose."""

    @property
    def work(self) -> int:
        """Tiles of all ranks that one prediction simulates."""

    def distance(self, data: Mapping[str, Any]) -> float | None:
        """How far something else that was tuned is from this, in powers of two; None if it has nothing to say.

        Args:
            data: The same of the other.
        """

    def adapt(self, candidate: Candidate) -> Candidate:
        """A candidate of such another for this."""

    def prepare(self, candidate: Candidate, machine: Machine) -> Prepared:
        """The schedule of a candidate, for a model.

        Raises:
            Unknown: The model cannot say anything of it.
            SyncopateError: The candidate is not legal.
        """

    def make_bench(self, group: Any) -> Bench:
        """What measures candidates on this rank's GPU. Collective.

        Args:
            group: The ranks, a process group of torch.

        Raises:
            SyncopateError: It cannot be measured.
        """


def fingerprint(schedule: Schedule, *more: object) -> str:
    """A hash of all that a schedule says, and of what else a program depends on."""
    digest = hashlib.sha256()
    for tables in schedule.tables:
        for name, table in tables.items():
            digest.update(name.encode())
            digest.update(table.values.tobytes())
    numbers = (schedule.num_ctas, schedule.comm_ctas, schedule.tiles, schedule.parts)
    digest.update(repr((numbers, schedule.buffers, schedule.signal_layout, more)).encode())
    return digest.hexdigest()


def prepare_schedule(
    schedule: Schedule, cost: Callable[[], KernelCost], machine: Machine, *more: object
) -> Prepared:
    """What a model needs of a schedule.

    Args:
        schedule: The schedule.
        cost: Gives what its tiles take, or raises `SyncopateError`, if the model does not know.
        machine: The machine.
        *more: What else the program depends on.
    """
    from syncopate.model import predict

    def simulate() -> float:
        try:
            return predict(schedule, cost(), machine).us
        except SyncopateError as error:
            raise Unknown(str(error)) from error

    return Prepared(fingerprint(schedule, *more), simulate)


def _spell(workload: GemmWorkload, item: Field[Any]) -> Any:
    """A property of a workload as plain data; None where it is as by default."""
    value = getattr(workload, item.name)
    if value == item.default and item.name != "dtype":
        return None
    return item.name if value is True else getattr(value, "value", value)


def _digest(options: Mapping[str, Any]) -> str | None:
    """A hash of the options of a compile that code or tables depend on; None if there are none."""
    counted = {name: options[name] for name in sorted(options) if name not in _IDLE}
    if not counted:
        return None
    text = json.dumps(counted, default=_describe)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _describe(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else repr(value)


@dataclass(frozen=True)
class GemmSubject:
    """A GEMM workload, with tiles to choose, or given ones.

    Attributes:
        workload: The workload.
        target: What to compile for.
        config: The tiles, if they are not to be chosen.
        options: What `syncopate.compile` takes besides.
        unordered: Whether results of a sum may differ from call to call.
    """

    workload: GemmWorkload
    target: Target
    config: GemmConfig | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    unordered: bool = False

    @property
    def name(self) -> str:
        """For messages."""
        return self.workload.name

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return self.workload.world_size

    @property
    def data(self) -> Mapping[str, Any]:
        """What tells it apart, as plain data."""
        # Whatever a workload has, its choice may depend on.
        data = {item.name: _spell(self.workload, item) for item in fields(self.workload)}
        data["tiles"] = None
        data["sum"] = "unordered" if self.unordered else None
        data["options"] = _digest(self.options)
        if self.config is not None:
            data["tiles"] = Candidate(self.space.default.strategy, self.config).to_json()["config"]
        return data

    @cached_property
    def space(self) -> Space:
        """What there is to choose."""
        config = self.config or self.workload.choose_config(self.target)
        default = Candidate(self.workload.default_strategy(config), config)
        space = gemm_space(self.workload, default, unordered=self.unordered)
        if self.config is None:
            return space
        axes = tuple(axis for axis in space.axes if TILES not in axis.names)
        return Space(space.default, axes)

    @property
    def work(self) -> int:
        """Tiles of all ranks that one prediction simulates."""
        config = self.space.default.config
        assert config is not None
        tiles = math.prod(config.tiles(self.workload.m, self.workload.n))
        return tiles * self.workload.world_size

    def distance(self, data: Mapping[str, Any]) -> float | None:
        """How far another workload that was tuned is, in powers of two; None if it is none like this."""
        sizes = ("m", "n", "k")
        mine, pitch = self.data, "weight_pitch"
        if any(data.get(name) != mine[name] for name in mine if name not in (*sizes, pitch)):
            return None
        # How far apart rows are goes with their length.
        if (data.get(pitch) is None) is not (mine[pitch] is None):
            return None
        if not all(type(data.get(name)) is int and data[name] > 0 for name in sizes):
            return None
        return sum(abs(math.log2(data[name] / mine[name])) for name in sizes)

    def adapt(self, candidate: Candidate) -> Candidate:
        """A candidate of such a workload for this one."""
        if self.config is None and candidate.config is not None:
            return candidate
        return Candidate(candidate.strategy, self.space.default.config)

    def prepare(self, candidate: Candidate, machine: Machine) -> Prepared:
        """The schedule of a candidate, for a model."""
        config = candidate.config
        assert config is not None
        schedule = self.workload.schedule(candidate.strategy, config, self.target)
        self._check_rate(config, machine)
        return prepare_schedule(
            schedule, lambda: self.workload.cost(config, machine), machine, self._code(config)
        )

    def _check_rate(self, config: GemmConfig, machine: Machine) -> None:
        """Tiles that were not measured would be as fast as others by their area, which is no ground to choose them."""
        default = self.space.default.config
        if config == default:
            return
        rated = {
            (rate.block_m, rate.block_n, rate.block_k)
            for rate in machine.gemm_rates
            if rate.dtype == self.workload.dtype
        }
        for one in (config, default):
            if one is not None and (one.block_m, one.block_n, one.block_k) not in rated:
                raise Unknown(
                    f"machine {machine.name}: has no rate for tiles of {one.block_m}x{one.block_n}x{one.block_k}"
                )
        if self._code(config) not in {self._code(usual) for usual in type(config).usual()}:
            raise Unknown(
                f"machine {machine.name}: has no rate for {config.num_warps} warps and {config.num_stages} stages"
            )

    @staticmethod
    def _code(config: GemmConfig) -> tuple[int, ...]:
        """What code depends on, which the order of tiles is not."""
        return (
            config.block_m, config.block_n, config.block_k, config.num_warps, config.num_stages,
        )  # fmt: skip

    def compile(self, candidate: Candidate) -> Program:
        """Compiles a candidate to be measured."""
        options = {**self.options, "timeout": TIMEOUT}
        return self.workload.compile(
            candidate.strategy, config=candidate.config, target=self.target, **options
        )

    def make_bench(self, group: Any) -> Bench:
        """What measures candidates on this rank's GPU."""
        from syncopate.tune.gpu import gemm_bench

        return gemm_bench(self.workload, self.compile, group)
