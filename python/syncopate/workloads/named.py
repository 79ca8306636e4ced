"""Strategies of workloads by the names that command lines give them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from syncopate.choices import Realization, names_of
from syncopate.strategy import Strategy
from syncopate.strategy_names import read_strategy_name
from syncopate.workloads.gemm import GemmWorkload

if TYPE_CHECKING:
    from syncopate.kernels import GemmConfig

__all__ = ["read_strategy"]


def read_strategy(workload: GemmWorkload, name: str, config: GemmConfig) -> Strategy:
    """The strategy that a name stands for.

    Args:
        workload: What it is for.
        name: As `name_strategy` gives it; a realization, in the workload's own strategy; or nothing for that one.
        config: The tiles.

    Raises:
        SyncopateError: It is no name of a strategy.
    """
    if "/" in name:
        return read_strategy_name(name)
    own = workload.default_strategy(config)
    if not name:
        return own
    if name not in names_of(Realization):
        return read_strategy_name(name)
    return dataclasses.replace(own, realization=Realization(name))
