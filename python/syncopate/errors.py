"""The exceptions that Syncopate raises.

`SyncopateError` is for what a user can fix: its message names the argument, the value and the fix. `InternalError` is a
bug of ours.
"""

from __future__ import annotations

import importlib.util


class SyncopateError(Exception):
    """Something in the user's input or surroundings is wrong."""


class InternalError(Exception):
    """Something in Syncopate is wrong; please report it."""


class MissingPackage(SyncopateError, ImportError):
    """A package that is not installed with Syncopate is needed."""


class DeviceWaitTimeout(SyncopateError):
    """A wait inside a kernel reached its time limit.

    Attributes:
        rank: The rank that waited.
        signal: Index of the flag among that rank's flags.
        wanted: Value of the flag that would have ended the wait.
        seen: Value of the flag when the limit was reached.
        epoch: Number of the call, from 1.
    """

    def __init__(
        self, message: str, *, rank: int, signal: int, wanted: int, seen: int, epoch: int
    ) -> None:
        super().__init__(message)
        self.rank = rank
        self.signal = signal
        self.wanted = wanted
        self.seen = seen
        self.epoch = epoch


class PeerFault(SyncopateError):
    """Another rank has given up a call, and this one may have got wrong results from it."""


class PlanError(SyncopateError):
    """A plan, or its binding to a kernel, breaks a rule of the chunk dialect or of a pass."""


class BudgetError(SyncopateError):
    """A fused kernel needs more shared memory or registers than the target has."""


def require_torch(what: str) -> None:
    """Raises MissingPackage where there is no torch.

    Args:
        what: What needs it, for the message.
    """
    if importlib.util.find_spec("torch") is None:
        raise MissingPackage(
            f"{what} needs torch, which is not installed: pip install 'syncopate-compiler[torch]', or `pip install "
            "'.[torch]'` in a checkout; compile, explain, simulate and show do without"
        )
