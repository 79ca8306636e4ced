"""The one form in which operators know all workloads: whoever has these members gets programs that are kept."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from syncopate.compiler import Target
    from syncopate.runtime import Group
    from syncopate.strategy import Strategy
    from syncopate.tune import Auto

__all__ = ["LoadedWorkload", "Reschedulable", "Workload"]


class LoadedWorkload(Protocol):
    """A workload on the ranks of a group."""

    @property
    def __call__(self) -> Callable[..., Any]:
        """Enqueues a call, with tensors by name."""

    def synchronize(self) -> None:
        """Waits for the calls on the current stream, and raises what has become of them."""

    def close(self) -> None:
        """Frees what it has."""


class Reschedulable(LoadedWorkload, Protocol):
    """One that can go on as another workload of its family."""

    def reschedule(self, workload: Any, program: Any) -> None:
        """Goes on as another one, with what that has made. Collective."""


class Workload(Protocol):
    """What is computed and moved: a frozen dataclass, whose fields ranks compare."""

    @property
    def name(self) -> str:
        """For messages."""

    @property
    def family(self) -> Hashable | None:
        """The same for workloads of which one may go on as another; None if none may go on as this one."""

    def make_program(self, strategy: Strategy | Auto | None, target: Target) -> Any:
        """Compiles what `load_program` takes, by the default strategy if none can be chosen for it."""

    def load_program(self, program: Any, group: Group) -> LoadedWorkload:
        """Loads it; what comes back can be rescheduled if the workload has a family. Collective over the group."""
